// One round of the exact planner: finds a chain of downsets whose loads are all
// below a target, or proves that there is none.
//
// Downsets are visited in ascending number of nodes. From each downset that
// some chain reaches, the next parts are enumerated by deciding the ready nodes
// one by one: a node joins the part, or is excluded with all nodes after it. A
// branch is cut for one of three reasons only:
//   - The load of the part has reached the target. The load (its nodes, and the
//     tensors with a node inside and a node outside) only grows.
//   - The load of the rest is more than the remaining devices can do below the
//     target. It (the rest's nodes, and if no CPU is left the tensors between
//     the rest and what is before it) only grows.
//   - No part of the branch is full. A part is not full if some ready node
//     could join it below the target, and could leave any later part without
//     increasing that part's load: the node's time and the tensors that no
//     longer touch the later part are worth at least the tensors that may be
//     cut. Any chain can be turned into a chain of full parts by moving such
//     nodes one after the other (downsets only grow, so this ends; loads stay
//     below the target). So parts that are not full need not be enumerated.
// Chains that reach the same downset are compared by the accelerators and CPUs
// they use. One is dropped only if another is no worse in both: all loads are
// below the target, and nothing else matters for the rest of the chain. So if
// there is a chain below the target, one is found.

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "pipewright/planners/exact/downsets.h"
#include "pipewright/planners/exact/reached_downsets.h"

namespace pipewright {

// Graphs of real models are proven far below these limits. They keep an
// adversarial graph from running forever.
struct ExactLimits {
  std::int64_t steps = 400'000'000;   // nodes put into or out of a part
  std::int64_t downsets = 2'000'000;  // kept at a time
  std::function<bool()> is_over;      // called now and then; empty: never
};

class ChainSearch {
 public:
  ChainSearch(const ChainProblem& problem, const ExactLimits& limits);

  // A chain with every load below the target. Empty if there is none, or if the
  // limits are exhausted.
  std::vector<ChainPart> below(double target);

  bool is_exhausted() const { return exhausted_; }
  std::int64_t num_downsets() const { return num_downsets_; }

 private:
  using Way = ReachedDownsets::Way;
  enum class Place : char {
    Open,
    Before,  // in the downset that is extended
    In,      // in the part
    Out      // in a later part
  };
  // How many nodes of a tensor are where.
  struct Tensor {
    double cost;
    int nodes, before, in, out;

    int open() const { return nodes - before - in - out; }
    bool is_cut() const { return in > 0 && before + out > 0; }
  };

  // Sums over what is decided. Saved and restored as a whole, so that
  // backtracking leaves no rounding errors.
  struct Sums {
    double accelerator = 0, cpu = 0, size = 0, kept = 0;
    double rest = 0, rest_cut = 0;
    // The most by which the part's loads can still grow, and what they must
    // reach for the part to be full.
    double accelerator_open = 0, cpu_open = 0;
    double accelerator_full = 0, cpu_full = 0;
  };

  void sum_ancestors();
  void start(double target);
  void extend(int downset);
  bool choose_ways(int downset);
  void open_nodes(int downset);
  void sum_open_nodes();
  void decide(std::size_t position);
  void put_in(int node);
  void undo_put_in(int node);
  void put_out(int node);
  void undo_put_out(std::size_t trail);
  bool can_succeed() const;
  bool may_leave_later(int node) const;
  void require_full(int node);
  void find_room(bool& accelerator, bool& cpu) const;
  double work_below(int accelerators, int cpus) const;
  bool can_finish(const Way& way) const;
  void finish_part();
  int current_downset();
  void add_way(int downset, const Way& way);
  bool is_done() const { return exhausted_ || last_way_ >= 0; }
  // Calls the clock once in a thousand times.
  bool is_late() {
    return limits_.is_over && ++calls_ % 1024 == 0 && limits_.is_over();
  }

  const ChainProblem& problem_;
  const ExactLimits limits_;
  std::int64_t calls_ = 0;
  Neighbours graph_;
  std::vector<int> order_;
  std::vector<std::vector<int>> tensors_of_;
  double cpu_worth_ = 0;  // most accelerator time that a CPU saves per own time
  std::vector<std::uint64_t> keys_;  // of nodes; a downset's is their xor
  std::vector<Sums> up_to_;          // over all nodes up to each node

  // Of the round.
  double target_ = 0;
  ReachedDownsets reached_;
  int last_way_ = -1;  // to all nodes; -1: none yet
  bool exhausted_ = false;
  std::int64_t steps_ = 0, num_downsets_ = 0;

  // Of the downset that is extended.
  std::vector<Place> place_;
  std::vector<int> missing_, ready_, trail_;
  std::vector<Tensor> tensors_;
  ReachedDownsets::Bits bits_;
  std::uint64_t key_ = 0;
  int count_ = 0, start_count_ = 0;
  Sums sums_;
  std::vector<int> chosen_;  // ways that can be continued
  bool may_accelerator_ = false, may_cpu_ = false;
  bool no_cpu_left_ = false;      // for none of the chosen ways
  bool always_has_room_ = false;  // every part that can be reached fits
  int times_kept_ = 1;            // the largest of the chosen ways
  double rest_limit_ = 0;
};

}  // namespace pipewright
