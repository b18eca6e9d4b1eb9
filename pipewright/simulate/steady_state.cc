// Only the middle of an execution counts: its beginning fills the pipeline, and
// towards its end workers that are done leave the links to the others.

#include "pipewright/simulate/steady_state.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "pipewright/simulate/contended_execution.h"
#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"

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

// What happens at `time_of(i)` for the i-th time: `before` times in the
// prologue, then `per_repetition` times in each repetition.
template <typename TimeOf>
Pace pace_of(int repetitions, int before, int per_repetition, TimeOf time_of) {
  std::vector<double> begins(repetitions);
  for (int r = 0; r < repetitions; ++r)
    begins[r] = time_of(before + r * std::int64_t{per_repetition});
  return pace_of(begins);
}

std::vector<Pace> paces_of(const TimedCode& code, const Journal& journal) {
  std::vector<Pace> paces;
  for (std::size_t w = 0; w < code.workers.size(); ++w) {
    const PerSection& count = code.workers[w].num_works;
    if (count[kBody] == 0) continue;
    paces.push_back(
        pace_of(journal.repetitions, count[kPrologue], count[kBody],
                [&](std::int64_t i) { return journal.starts[w][i]; }));
  }
  for (std::size_t c = 0; c < code.network.channels.size(); ++c) {
    const bool is_reduction = code.network.channels[c].from.is_none();
    const PerSection count =
        is_reduction ? PerSection{0, 1, 0} : code.num_messages[c];
    const auto& messages = journal.messages[c];
    if (count[kBody] == 0 || std::ssize(messages) < journal.repetitions)
      continue;
    paces.push_back(pace_of(journal.repetitions, count[kPrologue], count[kBody],
                            [&](std::int64_t i) { return messages[i].start; }));
  }
  return paces;
}

double slowest_of(const std::vector<Pace>& paces) {
  double slowest = 0;
  for (const Pace& pace : paces) slowest = std::max(slowest, pace.seconds);
  return slowest;
}

// Where every link is direct, a faster pace of one never changes the slowest.
// On contended links those of different pace drift apart, and their order on a
// link may change.
bool is_steady(const std::vector<Pace>& paces, bool is_direct) {
  const double slowest = slowest_of(paces);
  return std::all_of(paces.begin(), paces.end(), [&](const Pace& pace) {
    return pace.repeats && (is_direct || pace.seconds >= slowest * (1 - 1e-9));
  });
}

}  // namespace

Seconds steady_state_period(const Program& program, const Costs& costs) {
  constexpr std::int64_t kMaxActions = 4'000'000;
  TimedCode code = compile(program, costs);
  EngineOptions options;
  options.keep_journal = true;
  options.repetitions = 16 + 4 * program.minibatches_outside;
  while (true) {
    const Execution run = execute_contended(code, options, costs.contention);
    const std::vector<Pace> paces = paces_of(code, run.journal);
    if (is_steady(paces, code.network.is_direct()) ||
        4 * run.num_actions > kMaxActions)
      return Seconds(slowest_of(paces));
    options.repetitions *= 4;
    if (!costs.contention.slowdowns.empty()) code = compile(program, costs);
  }
}

}  // namespace pipewright
