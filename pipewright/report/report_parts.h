// The parts of a report: one function per panel of the page.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/report/improvements.h"
#include "pipewright/report/simulated_plan.h"

namespace pipewright {

// Times on the page are whole ticks: a ten-millionth of the run, so that a
// number takes few digits.
class TickClock {
 public:
  explicit TickClock(Seconds duration);
  Seconds tick() const { return tick_; }
  std::int64_t ticks(Seconds time) const;

 private:
  Seconds tick_;
};

// Spans per worker, messages per link with the span that sends and the span
// that reads each, and the critical path. Thousands of workers or microbatches
// are thinned out; "thinned" then says how.
Json timeline_part(const SimulatedPlan& simulated);

// Memory over time per worker by category, with the device's limit.
Json memory_part(const SimulatedPlan& simulated);

// Layers in order with costs, stages and the bytes that cross after each; the
// stages.
Result<Json> model_part(const SimulatedPlan& simulated);

// Devices and links, and what each does in a step.
Json cluster_part(const SimulatedPlan& simulated);

// The lower bounds, and the distance to the largest.
Json bound_part(const SimulatedPlan& simulated);

// What the plan is, why it was chosen, how fast it is, what bounds it, in
// sentences.
Json summary_part(const SimulatedPlan& simulated, const std::string& why,
                  const std::vector<Improvement>& improvements);

// Whether the plan made anew is faster, as a reason for this one.
std::string why_text(const SimulatedPlan& simulated,
                     const std::optional<Planned>& anew);

// What the critical path is made of.
Json bottleneck_sentence(const SimulatedPlan& simulated);

// ", planned by bapipe"; a person's plan says "by hand".
std::string planned_by(const Plan& plan);

// The schedule's name; of one without: who wrote it.
std::string schedule_text(const Plan& plan);

// A sentence of a summary.
Json sentence_json(const char* about, const char* title, std::string text);

// At most `count` indices of 0..size-1, evenly spread, with both ends.
std::vector<std::size_t> spread_indices(std::size_t size, std::size_t count);

// "11.3 %", with at most one decimal place.
std::string share_text(double share);

}  // namespace pipewright
