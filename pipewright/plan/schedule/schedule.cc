#include "pipewright/plan/schedule/schedule.h"

#include <algorithm>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/plan/schedule/schedule_check.h"

namespace pipewright {
namespace {

// How one action changes the number of microbatches in flight.
int change(ComputeKind kind) {
  if (kind == ComputeKind::Forward) return 1;
  const bool ends =
      kind == ComputeKind::Backward || kind == ComputeKind::BackwardWeight;
  return ends ? -1 : 0;
}

// The part of one order that a replica runs. A pair of joined actions whose
// other half belongs to another replica comes apart.
std::vector<ComputeAction> turns_of(const std::vector<ComputeAction>& order,
                                    int replica, int replicas) {
  std::vector<ComputeAction> turns;
  for (std::size_t i = 0; i < order.size(); ++i) {
    ComputeAction action = order[i];
    if (action.microbatch.value % replicas != replica) continue;
    if (action.joined && order[i + 1].microbatch.value % replicas != replica)
      action.joined = false;
    turns.push_back(action);
  }
  return turns;
}

Orders replicated(const Orders& orders, const std::vector<int>& replicas,
                  Replication replication) {
  Orders result;
  for (std::size_t w = 0; w < orders.size(); ++w)
    for (int j = 0; j < replicas[w]; ++j)
      result.push_back(replication == Replication::Split
                           ? orders[w]
                           : turns_of(orders[w], j, replicas[w]));
  return result;
}

}  // namespace

Result<Schedule> Schedule::create(int num_stages, int num_microbatches,
                                  Orders orders) {
  Sections sections;
  sections.body = std::move(orders);
  return create(num_stages, num_microbatches, std::move(sections));
}

Result<Schedule> Schedule::create(int num_stages, int num_microbatches,
                                  Sections sections) {
  if (auto error = fault_of(num_stages, num_microbatches, sections))
    return *std::move(error);
  Schedule schedule;
  schedule.num_stages_ = num_stages;
  schedule.num_microbatches_ = num_microbatches;
  schedule.sections_ = std::move(sections);
  return schedule;
}

Orders Schedule::unrolled(int minibatches) const {
  PIPEWRIGHT_CHECK(minibatches >= sections_.minibatches_outside,
                   "a run shorter than its prologue and epilogue");
  return pipewright::unrolled(sections_, num_microbatches_,
                              minibatches - sections_.minibatches_outside);
}

// Every repetition of the body starts with as many in flight as the first.
int peak_in_flight(const Schedule& schedule, WorkerId worker, StageId stage) {
  const Orders run =
      schedule.unrolled(schedule.sections().minibatches_outside + 1);
  const auto& order = run.at(worker.index());
  int held = 0, peak = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const int first = order[i].stage == stage ? change(order[i].kind) : 0;
    if (!order[i].joined) {
      held += first;
      peak = std::max(peak, held);
      continue;
    }
    // Of two at once, what the one makes is there while the other still runs.
    ++i;
    const int second = order[i].stage == stage ? change(order[i].kind) : 0;
    peak = std::max(peak, held + std::max(first, 0) + std::max(second, 0));
    held += first + second;
  }
  return peak;
}

Result<Schedule> with_replicas(const Schedule& schedule,
                               const std::vector<int>& replicas,
                               Replication replication) {
  if (static_cast<int>(replicas.size()) != schedule.num_workers())
    return bad_configuration(
        "replicas are given for " + std::to_string(replicas.size()) +
        " workers, the schedule has " + std::to_string(schedule.num_workers()));
  for (std::size_t w = 0; w < replicas.size(); ++w) {
    if (replicas[w] < 1)
      return bad_configuration("worker " + std::to_string(w) + " has " +
                               std::to_string(replicas[w]) +
                               " replicas; it needs at least one");
    if (replication == Replication::Rotate && schedule.is_asynchronous() &&
        schedule.num_microbatches() % replicas[w] != 0)
      return bad_configuration(
          std::to_string(replicas[w]) + " replicas of worker " +
              std::to_string(w) + " cannot take turns at minibatches of " +
              std::to_string(schedule.num_microbatches()) +
              " microbatches that repeat without a drain",
          "make the microbatches a multiple of the replicas");
  }
  Schedule::Sections sections;
  const Schedule::Sections& old = schedule.sections();
  sections.prologue = replicated(old.prologue, replicas, replication);
  sections.body = replicated(old.body, replicas, replication);
  sections.epilogue = replicated(old.epilogue, replicas, replication);
  sections.minibatches_outside = old.minibatches_outside;
  return Schedule::create(schedule.num_stages(), schedule.num_microbatches(),
                          std::move(sections));
}

}  // namespace pipewright
