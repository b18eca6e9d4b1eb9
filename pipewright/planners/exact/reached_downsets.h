// The downsets that chains reach in one round of the exact search, and the ways
// to reach each of them. For exact_search.cc only.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/planners/exact/downsets.h"

namespace pipewright {

class ReachedDownsets {
 public:
  // A chain up to a downset, as the devices that it uses.
  struct Way {
    int accelerators = 0, cpus = 0;
    int parent = -1;      // way to the downset before; -1: the empty chain
    bool on_cpu = false;  // the last part
    int downset = -1;     // set by add_way()
    int next = -1;        // another way to the same downset; set by add_way()
  };
  using Bits = std::vector<std::uint64_t>;  // one bit per node

  explicit ReachedDownsets(const ChainProblem& problem);

  void clear();
  // The index of a downset. `key` is a hash of the bits, `size` their number.
  int find_or_add(const Bits& bits, std::uint64_t key, int size);
  // Adds the way unless another way to the downset uses no more accelerators
  // and no more CPUs. Returns its index, or -1.
  int add_way(int downset, Way way);

  int num_downsets() const { return static_cast<int>(downsets_.size()); }
  int size(int downset) const { return downsets_[at(downset)].size; }
  const std::uint64_t* bits(int downset) const {
    return bits_.data() + at(downset) * words_;
  }
  int first_way(int downset) const { return downsets_[at(downset)].first_way; }
  const Way& way(int index) const { return ways_[at(index)]; }
  // Downsets with that many nodes. The list may grow while it is read.
  const std::vector<int>& of_size(std::size_t size) const {
    return by_size_[size];
  }
  std::size_t words() const { return words_; }

  std::vector<ChainPart> chain_to(int way) const;

 private:
  struct Downset {
    int size;
    int first_way;
  };

  const ChainProblem& problem_;
  const std::size_t words_;  // of 64 bits
  std::vector<Downset> downsets_;
  Bits bits_;
  std::vector<Way> ways_;
  std::unordered_multimap<std::uint64_t, int> index_;  // by key
  std::vector<std::vector<int>> by_size_;
};

}  // namespace pipewright
