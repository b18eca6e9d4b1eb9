// The order in which each worker computes: the compute half of a Plan.
//
// Planners and schedule generators write a Schedule; lower() turns it into the
// Program that the simulator times and the runtime executes. Nothing here knows
// about tensors, clocks or threads.
//
// A schedule has three sections. A synchronous one has only a body, one
// minibatch long. An asynchronous one fills the pipeline in its prologue,
// repeats its body once per minibatch without draining, and drains in its
// epilogue. Inside a section microbatches count from the section's own base:
// microbatch 0 of repetition r of the body is microbatch r*M of the run, so a
// worker that runs ahead names microbatches M, M+1, ... in its body. The
// epilogue's base is that of the repetition that does not come any more.
//
// The text form has one line per worker. 1F0 is "stage 1, forward,
// microbatch 0"; a + joins two actions that share the worker's time. Two stages
// and three microbatches in 1F1B order:
//
//   schedule v1 stages=2 microbatches=3
//   0: 0F0 0F1 0B0 0F2 0B1 0B2
//   1: 1F0 1B0 1F1 1B1 1F2 1B2
//
// With a prologue or an epilogue the section names stand on lines of their own
// ("prologue", "body", "epilogue"), each followed by one line per worker, and
// the first line ends in minibatches_outside=N. What follows a # is a comment.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/result.h"
#include "pipewright/plan/schedule/compute_order.h"

namespace pipewright {

// A valid compute order. Construction is the only check: code that holds a
// Schedule need not ask again whether it is complete or can deadlock.
//
// A stage may be on several workers: either each of its actions stands on all
// of them (replicas that split a microbatch) or on exactly one (replicas that
// take turns, and Chimera's two directions).
class Schedule {
 public:
  Schedule() = default;  // of nothing: no stages, no workers

  using Sections = ScheduleSections;

  // Fails with MalformedInput, drawing the grid and marking the first offending
  // action, unless
  //   - every stage runs every microbatch of a run of any length once (on one
  //     worker, or on all that have the stage),
  //   - on each worker F precedes B (or I, which precedes W), R stands between,
  //   - a microbatch's backward at a stage is either B or I and W,
  //   - some interleaving of the workers runs every action (no deadlock), where
  //     F waits for F of the stage before, B and I for the stage after,
  //   - nothing waits for a later section or repetition,
  //   - replicas that take turns do so alike in every minibatch, where the
  //     body repeats without a drain.
  static Result<Schedule> create(int num_stages, int num_microbatches,
                                 Orders orders);
  static Result<Schedule> create(int num_stages, int num_microbatches,
                                 Sections sections);

  // Reads the text form. Fails with MalformedInput and a line:column.
  static Result<Schedule> parse(std::string_view text, const std::string& file);
  std::string to_text() const;

  int num_stages() const { return num_stages_; }
  int num_microbatches() const { return num_microbatches_; }  // per minibatch
  int num_workers() const { return static_cast<int>(sections_.body.size()); }
  const Sections& sections() const { return sections_; }
  bool is_asynchronous() const { return !sections_.prologue.empty(); }

  // The actions of a run of `minibatches` (at least minibatches_outside), with
  // microbatches counted from the start of the run.
  Orders unrolled(int minibatches) const;

  bool operator==(const Schedule&) const = default;

 private:
  int num_stages_ = 0;
  int num_microbatches_ = 0;
  Sections sections_;
};

// The most microbatches whose forward is done and whose backward (B or W) is
// not, on `worker` for `stage`, at any time. This, not the number of
// microbatches, is what bounds activation memory.
int peak_in_flight(const Schedule& schedule, WorkerId worker, StageId stage);

// Replicas. Worker w of `schedule` becomes replicas[w] workers, in order. With
// Split each of them runs all of w's actions, with Rotate replica j those of
// the microbatches m with m % replicas == j.
enum class Replication {
  Split,
  Rotate
};
Result<Schedule> with_replicas(const Schedule& schedule,
                               const std::vector<int>& replicas,
                               Replication replication);

}  // namespace pipewright
