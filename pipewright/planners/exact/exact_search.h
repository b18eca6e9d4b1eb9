// One round of the exact planner: a chain of downsets whose loads all stay
// below a target, or the proof that there is none.
//
// Downsets are met in ascending number of nodes. From each one that some chain
// reaches, next parts are enumerated by deciding the ready nodes one by one:
// into the part, or out of it with all that depends on them. A branch is left
// for one of three reasons only:
//   - The part's nodes, and the tensors with a node in and one out of it, have
//     reached the target. Both sums only grow.
//   - The rest's nodes, and (with no CPU left, which would not pay) the tensors
//     between it and what is before, exceed what the devices left can do below
//     the target. Both only grow.
//   - No part of the branch is full. A part is not full if a ready node could
//     join it below the target, and could leave whichever later part has it
//     without that part's load growing: its time and the tensors that then
//     touch the later part no more are worth at least the tensors that may be
//     cut anew. Any chain can be turned into one of full parts, one such node
//     after the other (downsets only grow, so this ends; loads stay below the
//     target), so parts that are not full are not needed.
// Chains that reach one downset are compared by the accelerators and CPUs they
// used, and one is dropped only for another that is no worse in both: the loads
// are below the target, and nothing else about the past matters to the future.
// So if there is a chain below the target, one is found.

#pragma once

#include <unordered_map>
#include <vector>

#include "pipewright/planners/exact/exact.h"

namespace pipewright {

class ChainSearch {
 public:
  ChainSearch(const ChainProblem& problem, const ExactLimits& limits);

  // A chain with every load below the target; empty if there is none, or if
  // the limits ran out (then `exhausted`).
  std::vector<ChainPart> below(double target);

  bool exhausted() const { return exhausted_; }
  std::int64_t steps() const { return steps_; }
  std::int64_t downsets() const { return all_downsets_; }

 private:
  enum class Place : char {
    Open,
    Before,  // in the downset that is extended
    In,
    Out
  };
  // A way to reach a downset.
  struct Way {
    int accelerators, cpus;
    int downset, parent;  // parent: a way; -1 at the empty downset
    bool on_cpu;
    int next;  // way to the same downset; -1 at the end
  };
  struct Downset {
    int size;
    int first_way;
  };
  struct Tensor {
    double cost;
    int nodes, before, in, out;

    int open() const { return nodes - before - in - out; }
    bool cut() const { return in > 0 && before + out > 0; }
  };

  // Sums of what is decided; saved and restored whole, so that going back
  // leaves no rounding behind.
  struct Sums {
    double accelerator = 0, cpu = 0, size = 0, kept = 0;
    double rest = 0, rest_cut = 0;
    // What the part's loads may still grow by, and what they must reach for the
    // part to be full.
    double accelerator_open = 0, cpu_open = 0;
    double accelerator_full = 0, cpu_full = 0;
  };

  void start(double target);
  void expand(int downset);
  void open_up(int downset);
  void measure_open();
  void sum_ancestors();
  bool choose_ways(int downset);
  void decide(std::size_t position);
  void put_in(int node);
  void take_in_back(int node);
  void put_out(int node);
  void demand_full(int node);
  bool may_leave_later(int node) const;
  void find_room(bool& accelerator, bool& cpu) const;
  void take_out_back(std::size_t trail);
  bool hopeless() const;
  double work_below(int accelerators, int cpus) const;
  void reach();
  void add_way(int downset, const Way& way);
  int downset_of_bits();
  bool can_finish(int accelerators, int cpus) const;
  std::vector<ChainPart> chain_to(int way) const;

  const std::uint64_t* bits_of(int downset) const {
    return bits_.data() + static_cast<std::size_t>(downset) * words_;
  }

  const ChainProblem& problem_;
  // A clock is asked once in a thousand times.
  bool is_late() {
    return limits_.is_over && ++asked_ % 1024 == 0 && limits_.is_over();
  }

  const ExactLimits limits_;
  std::int64_t asked_ = 0;
  Neighbours graph_;
  std::vector<int> order_;
  std::vector<std::vector<int>> tensors_of_;
  std::size_t words_;
  double cpu_worth_ = 0;  // accelerator time a CPU can save per own time
  std::vector<std::uint64_t> keys_;
  std::vector<Sums> up_to_;

  // Of the round.
  double target_ = 0;
  std::vector<Downset> downsets_;
  std::vector<std::uint64_t> bits_;
  std::vector<Way> ways_;
  std::unordered_multimap<std::uint64_t, int> index_;
  std::vector<std::vector<int>> by_size_;
  int last_way_ = -1;  // to all nodes; -1: none yet
  bool exhausted_ = false;
  std::int64_t steps_ = 0, all_downsets_ = 0;

  // Of the downset that is extended.
  std::vector<Place> place_;
  std::vector<int> missing_, ready_, trail_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint64_t> here_;
  std::uint64_t key_ = 0;
  int count_ = 0, start_count_ = 0;
  Sums sums_;
  std::vector<int> chosen_;  // ways that may be continued
  bool may_accelerator_ = false, may_cpu_ = false;
  bool last_ = false;      // no CPU is left to any of them
  bool has_room_ = false;  // no part that can be reached is too large
  int times_kept_ = 1;     // the most of them
  double rest_limit_ = 0;
};

}  // namespace pipewright
