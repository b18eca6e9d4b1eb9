// Asynchronous 1F1B with several consecutive stages a worker, which takes turns
// among them: a deep pipeline on few devices, with the delays of the deep one.
// It is what training statistics of 107 stages are measured with on 2 devices;
// the order is ours.
//
// Round r of a pipeline of P stages: stage s (from 0) runs F of microbatch
// r + P-1-s and B of microbatch r. An F needs what the stage before made in
// round r-1, a B what the stage behind makes in round r. So a worker runs the
// forwards of its stages in any order, then their backwards from the last:
//
//   P = 4 on 2 workers, M = 1:   prologue    | body, again and again
//   0:                           0F0 0F1 1F0 | 0F3 1F2 1B0 0B0
//                                0F2 1F1     |
//   1:                           2F0         | 2F1 3F0 3B0 2B0
//
// With segments stage s also recomputes microbatch r + e-s in round r, where e
// is its segment's last stage: what the stage before made anew in round r-1.
//
// With equal stages and without transfers no worker ever waits: a repetition
// of the body takes M(F+B) of a whole worker.

#include "pipewright/schedules/async_chunks.h"

#include <numeric>

#include "pipewright/schedules/generators.h"

namespace pipewright {
namespace {

struct Chunk {
  int first = 0, end = 0;  // stages
  int num_stages = 0;      // of the pipeline
  int segment = 0;

  int ahead(int stage) const { return num_stages - 1 - stage; }
};

void append_round(std::vector<ComputeAction>& order, const Chunk& chunk,
                  int round, int end_of_forwards, bool backwards) {
  for (int s = chunk.first; s < chunk.end; ++s) {
    const int microbatch = round + chunk.ahead(s);
    if (microbatch >= 0 && microbatch < end_of_forwards)
      order.push_back({StageId(s), microbatch, ComputeKind::Forward});
  }
  for (int s = chunk.first; s < chunk.end; ++s) {
    const auto end = segment_end(s, chunk.num_stages, chunk.segment);
    if (!end) continue;
    const int microbatch = round + *end - s;
    if (microbatch >= 0 && microbatch < end_of_forwards)
      order.push_back({StageId(s), microbatch, ComputeKind::Recompute});
  }
  for (int s = chunk.end - 1; backwards && s >= chunk.first; --s)
    order.push_back({StageId(s), round, ComputeKind::Backward});
}

}  // namespace

std::optional<int> segment_end(int stage, int num_stages, int segment) {
  if (segment < 1) return std::nullopt;
  const int end = (stage / segment + 1) * segment - 1;
  return end < num_stages - 1 ? std::optional(end) : std::nullopt;
}

Result<Schedule> async_chunks_schedule(const std::vector<int>& stages_of,
                                       int microbatches, int segment) {
  const int P = std::accumulate(stages_of.begin(), stages_of.end(), 0);
  const int M = microbatches;
  Schedule::Sections sections;
  sections.minibatches_outside = (P - 1 + M - 1) / M;
  const int outside = sections.minibatches_outside * M;
  Chunk chunk{0, 0, P, segment};
  for (int stages : stages_of) {
    if (stages < 1)
      return bad_configuration("every worker needs at least one stage, not " +
                               std::to_string(stages));
    chunk.first = chunk.end;
    chunk.end += stages;
    auto& prologue = sections.prologue.emplace_back();
    for (int round = 1 - P; round < 0; ++round)
      append_round(prologue, chunk, round, P, false);
    auto& body = sections.body.emplace_back();
    for (int round = 0; round < M; ++round)
      append_round(body, chunk, round, M + P, true);
    auto& epilogue = sections.epilogue.emplace_back();
    for (int round = 0; round < outside; ++round)
      append_round(epilogue, chunk, round, outside, true);
  }
  return Schedule::create(P, M, std::move(sections));
}

std::vector<int> even_chunks(int stages, int workers) {
  std::vector<int> chunks;
  for (int w = 0; w < workers; ++w)
    chunks.push_back(stages * (w + 1) / workers - stages * w / workers);
  return chunks;
}

ScheduleGenerator async_chunks() {
  return {"async-chunks", "async-1f1b, several stages a worker in turn",
          "PipeMare: Asynchronous Pipeline Parallel DNN Training, MLSys 2021, "
          "for the deep pipeline; the order is Pipewright's",
          [](const ScheduleRequest& request) {
            return async_chunks_schedule(
                std::vector<int>(static_cast<std::size_t>(request.workers),
                                 request.chunks),
                request.microbatches);
          }};
}

}  // namespace pipewright
