#include <algorithm>

#include "pipewright/report/report_parts.h"

namespace pipewright {
namespace {

constexpr std::size_t kMaxMemoryRows = 256;
constexpr std::size_t kMaxMemoryPoints = 60'000;  // of all workers
constexpr std::size_t kMinPointsPerWorker = 200;

// The first version is "weights", further ones are "versions".
Bytes first_versions(const Program& program, WorkerId worker) {
  Bytes bytes;
  for (const HeldWeights& held : program.workers[worker.index()].held)
    if (held.versions > 0) bytes += program.weight_group(held.group).bytes;
  return bytes;
}

// Of each group of neighbours the one with the most bytes, so that no peak is
// lost.
std::vector<MemoryPoint> highest_points(const std::vector<MemoryPoint>& points,
                                        std::size_t count) {
  if (points.size() <= count) return points;
  std::vector<MemoryPoint> kept;
  for (std::size_t i = 0; i < count; ++i) {
    const auto first =
        points.begin() + std::ptrdiff_t(i * points.size() / count);
    const auto end =
        points.begin() + std::ptrdiff_t((i + 1) * points.size() / count);
    kept.push_back(*std::max_element(
        first, end,
        [](const auto& a, const auto& b) { return a.bytes < b.bytes; }));
  }
  return kept;
}

Json constant_json(const SimulatedPlan& simulated, WorkerId worker) {
  const MemoryUse& peak = simulated.timeline.workers[worker.index()].peak;
  const Bytes first =
      std::min(peak.weights, first_versions(simulated.program, worker));
  const Bytes constant = peak.total() - peak.activations - peak.buffers;
  Json json = Json::object();
  json.set("weights", first.value());
  json.set("versions", (peak.weights - first).value());
  json.set("gradients", peak.gradients.value());
  json.set("optimizer", peak.optimizer.value());
  json.set("other",
           (constant - peak.weights - peak.gradients - peak.optimizer).value());
  return json;
}

Json worker_memory(const SimulatedPlan& simulated, std::size_t w,
                   std::size_t count) {
  const WorkerSummary& worker = simulated.timeline.workers[w];
  const TickClock clock(simulated.timeline.duration);
  const Bytes constant =
      worker.peak.total() - worker.peak.activations - worker.peak.buffers;
  Json::Array times, kept, buffers;
  for (const MemoryPoint& point :
       highest_points(simulated.timeline.memory[w], count)) {
    times.push_back(clock.ticks(point.time));
    kept.push_back((point.bytes - constant - point.buffers).value());
    buffers.push_back(point.buffers.value());
  }
  Json json = Json::object();
  json.set("worker", w);
  json.set("limit_bytes",
           simulated.problem.memory_with_base_of(worker.device).value());
  json.set("peak_bytes", worker.peak.total().value());
  json.set("peak_at_seconds", worker.peak_at.value());
  json.set("constant", constant_json(simulated, WorkerId(w)));
  json.set("times", std::move(times));
  json.set("kept", std::move(kept));
  json.set("buffers", std::move(buffers));
  return json;
}

}  // namespace

Json memory_part(const SimulatedPlan& simulated) {
  const auto shown =
      spread_indices(simulated.timeline.memory.size(), kMaxMemoryRows);
  const std::size_t count =
      std::max(kMinPointsPerWorker,
               kMaxMemoryPoints / std::max<std::size_t>(1, shown.size()));
  Json json = Json::array();
  for (std::size_t w : shown) json.push(worker_memory(simulated, w, count));
  return json;
}

}  // namespace pipewright
