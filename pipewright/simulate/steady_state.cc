// Only the middle of an execution counts: its beginning fills the pipeline, and
// towards its end workers that are done leave the links to the others.

#include "pipewright/simulate/steady_state.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipewright/base/index.h"
#include "pipewright/simulate/engine.h"
#include "pipewright/simulate/timed_code.h"

namespace pipewright {
namespace {

struct Pace {
  double seconds = 0;  // per repetition
  bool repeats = true;
};

// `begins`: when a worker or a channel begins each repetition of the body. In
// the third quarter each begin is as long after the one `distance` before it.
bool repeats_after(const std::vector<double>& begins, std::size_t distance) {
  const std::size_t half = begins.size() / 2, last = 3 * begins.size() / 4;
  const double seconds = begins[last] - begins[last - distance];
  for (std::size_t r = half; r < last; ++r)
    if (std::abs(begins[r] - begins[r - distance] - seconds) > 1e-9 * seconds)
      return false;
  return true;
}

Pace pace_of(const std::vector<double>& begins) {
  const std::size_t quarter = begins.size() / 4;
  const std::size_t half = begins.size() / 2, last = 3 * begins.size() / 4;
  const auto mean = [&](std::size_t first) {
    return (begins[last] - begins[first]) / static_cast<double>(last - first);
  };
  for (std::size_t distance = 1; distance <= quarter; ++distance)
    if (repeats_after(begins, distance))
      return {mean(last - (last - half) / distance * distance - distance)};
  return {mean(quarter), false};
}

std::vector<Pace> paces_of(const TimedCode& code, const Journal& journal) {
  std::vector<Pace> paces;
  std::vector<double> begins(at(journal.repetitions));
  for (std::size_t w = 0; w < code.workers.size(); ++w) {
    const auto& num_works = code.workers[w].num_works;
    if (num_works[1] == 0) continue;
    for (std::size_t r = 0; r < begins.size(); ++r)
      begins[r] = journal.starts[w][at(num_works[0]) + r * at(num_works[1])];
    paces.push_back(pace_of(begins));
  }
  for (std::size_t c = 0; c < code.channels.size(); ++c) {
    const auto& count = code.channels[c].num_messages;
    const bool is_reduction = code.channels[c].from < 0;
    const std::size_t per_repetition = is_reduction ? 1 : at(count[1]);
    const auto& messages = journal.messages[c];
    if (per_repetition == 0 || messages.size() < begins.size()) continue;
    for (std::size_t r = 0; r < begins.size(); ++r)
      begins[r] = messages[at(count[0]) + r * per_repetition].start;
    paces.push_back(pace_of(begins));
  }
  return paces;
}

double slowest_of(const std::vector<Pace>& paces) {
  double slowest = 0;
  for (const Pace& pace : paces) slowest = std::max(slowest, pace.seconds);
  return slowest;
}

// Where every link is direct, who keeps a faster pace changes no slower one.
// Otherwise their order on the links changes while they drift apart.
bool is_steady(const std::vector<Pace>& paces, bool is_direct) {
  const double slowest = slowest_of(paces);
  return std::all_of(paces.begin(), paces.end(), [&](const Pace& pace) {
    return pace.repeats && (is_direct || pace.seconds >= slowest * (1 - 1e-9));
  });
}

}  // namespace

Seconds steady_state_period(const Program& program, const Costs& costs) {
  constexpr std::int64_t kMaxActions = 4'000'000;
  const TimedCode code = timed_code(program, costs);
  EngineOptions options;
  options.keep_journal = true;
  options.repetitions = 16 + 4 * program.minibatches_outside;
  while (true) {
    const Execution run = execute(code, options);
    const std::vector<Pace> paces = paces_of(code, run.journal);
    if (is_steady(paces, code.is_direct()) || 4 * run.num_ops > kMaxActions)
      return Seconds(slowest_of(paces));
    options.repetitions *= 4;
  }
}

}  // namespace pipewright
