// async-deep: asynchronous 1F1B with several consecutive stages per worker. A
// deep pipeline on few workers, with the delays of the deep pipeline. For
// training with as many stages as a paper has on fewer devices (107 stages on 2
// devices).
//
// Yang et al., "PipeMare: Asynchronous Pipeline Parallel DNN Training", MLSys
// 2021, for the deep pipeline; the order is ours.
//
// In round r of a pipeline of P stages, stage s (from 0) runs F of microbatch
// r + P-1-s and B of microbatch r. An F needs the output of the stage before in
// round r-1, a B the gradient of the stage after in round r. So a worker runs
// the forwards of its stages in any order, then their backwards from the last:
//
//   P = 4 on 2 workers, M = 1:   prologue    | body, repeated
//   0:                           0F0 0F1 1F0 | 0F3 1F2 1B0 0B0
//                                0F2 1F1     |
//   1:                           2F0         | 2F1 3F0 3B0 2B0
//
// With segments, stage s also recomputes microbatch r + e-s in round r, where e
// is the last stage of its segment: the stage before recomputed it in round
// r-1.
//
// With equal stages and without transfers no worker ever waits: a repetition
// of the body takes M(F+B) of a whole worker.

#include "pipewright/schedules/async_deep.h"

#include <numeric>

#include "pipewright/base/index.h"
#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

// The stages of one worker.
struct WorkerStages {
  int first = 0, end = 0;
  int num_stages = 0;  // of the pipeline
  int segment = 0;

  int ahead(int stage) const { return num_stages - 1 - stage; }
};

void append_round(std::vector<ComputeAction>& order, const WorkerStages& own,
                  int round, int end_of_forwards, bool backwards) {
  for (int s = own.first; s < own.end; ++s) {
    const MicrobatchId microbatch(round + own.ahead(s));
    if (microbatch.value >= 0 && microbatch.value < end_of_forwards)
      order.push_back({StageId(s), microbatch, ComputeKind::Forward});
  }
  for (int s = own.first; s < own.end; ++s) {
    const auto end = segment_end(s, own.num_stages, own.segment);
    if (!end) continue;
    const MicrobatchId microbatch(round + *end - s);
    if (microbatch.value >= 0 && microbatch.value < end_of_forwards)
      order.push_back({StageId(s), microbatch, ComputeKind::Recompute});
  }
  for (int s = own.end - 1; backwards && s >= own.first; --s)
    order.push_back({StageId(s), MicrobatchId(round), ComputeKind::Backward});
}

}  // namespace

std::optional<int> segment_end(int stage, int num_stages, int segment) {
  if (segment < 1) return std::nullopt;
  const int end = (stage / segment + 1) * segment - 1;
  return end < num_stages - 1 ? std::optional(end) : std::nullopt;
}

Result<Schedule> async_deep_schedule(const std::vector<int>& stages_of,
                                     int microbatches, int segment) {
  const int P = std::accumulate(stages_of.begin(), stages_of.end(), 0);
  const int M = microbatches;
  Schedule::Sections sections;
  sections.minibatches_outside = (P - 1 + M - 1) / M;
  const int outside = sections.minibatches_outside * M;
  WorkerStages own{0, 0, P, segment};
  for (int stages : stages_of) {
    if (stages < 1)
      return bad_configuration("every worker needs at least one stage, not " +
                               std::to_string(stages));
    own.first = own.end;
    own.end += stages;
    auto& prologue = sections.prologue.emplace_back();
    for (int round = 1 - P; round < 0; ++round)
      append_round(prologue, own, round, P, false);
    auto& body = sections.body.emplace_back();
    for (int round = 0; round < M; ++round)
      append_round(body, own, round, M + P, true);
    auto& epilogue = sections.epilogue.emplace_back();
    for (int round = 0; round < outside; ++round)
      append_round(epilogue, own, round, outside, true);
  }
  return Schedule::create(P, M, std::move(sections));
}

std::vector<int> even_stages(int stages, int workers) {
  std::vector<int> stages_of;
  for (int w = 0; w < workers; ++w)
    stages_of.push_back(stages * (w + 1) / workers - stages * w / workers);
  return stages_of;
}

ScheduleGenerator async_deep() {
  return {
      "async-deep", "async-1f1b with several stages per worker",
      "PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021, "
      "for the deep pipeline; the order is Pipewright's",
      [](const ScheduleRequest& request) {
        return async_deep_schedule(
            std::vector<int>(at(request.workers), request.stages_per_worker),
            request.microbatches);
      }};
}

}  // namespace pipewright
