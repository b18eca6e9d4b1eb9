#include "pipewright/estimate/simulated_estimate.h"

#include <algorithm>

namespace pipewright {
namespace {

double largest_delay(const ProgramFacts& facts) {
  double largest = 0;
  for (const StageDelay& delay : facts.staleness)
    largest = std::max(largest, delay.forward);
  return largest;
}

}  // namespace

Estimate simulated_estimate(const Program& program, const ProgramFacts& facts,
                            const Costs& costs, const Problem& limits) {
  SimulateOptions options;
  options.keep_spans = false;
  const Timeline timeline = simulate(program, costs, options);
  Estimate estimate;
  estimate.step = timeline.step_seconds;
  estimate.bubble = timeline.bubble;
  estimate.staleness = largest_delay(facts);
  for (const WorkerSummary& worker : timeline.workers) {
    const Bytes peak = worker.peak.of_program();
    estimate.memory.push_back(peak);
    if (peak > limits.memory_of(worker.device)) estimate.fits = false;
  }
  for (const LinkSummary& link : timeline.links)
    estimate.traffic += link.bytes / std::int64_t{timeline.minibatches};
  return estimate;
}

}  // namespace pipewright
