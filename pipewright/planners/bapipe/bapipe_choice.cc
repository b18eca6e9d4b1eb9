// Which of BaPipe's candidates is chosen, and the table that says why.

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/planners/bapipe/bapipe_exploration.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

constexpr int kTableWidth = 120;

std::string ratio_text(double ratio) { return to_text(ratio, 3) + "x"; }

}  // namespace

bool BaPipeExploration::is_better(const BaPipeCandidate& a,
                                  const BaPipeCandidate& b) const {
  const Seconds x = a.planned->estimate.step, y = b.planned->estimate.step;
  return x < y || (x == y && a.largest_memory < b.largest_memory);
}

Result<Planned> BaPipeExploration::best() const {
  const BaPipeCandidate* chosen = nullptr;
  for (const BaPipeCandidate& candidate : candidates_)
    if (candidate.fits && (!chosen || is_better(candidate, *chosen)))
      chosen = &candidate;
  if (!chosen) return nothing_fits();
  Planned result = *chosen->planned;
  result.notes = table(*chosen);
  result.notes.insert(result.notes.end(), remarks_.begin(), remarks_.end());
  result.why = why(*chosen) + split_text(*chosen);
  return result;
}

std::string BaPipeExploration::remark(const BaPipeCandidate& candidate,
                                      const BaPipeCandidate& best) const {
  if (&candidate == &best) return "chosen";
  if (!candidate.planned) return candidate.refusal;
  if (!candidate.fits) return candidate.memory_verdict;
  const Seconds own = candidate.planned->estimate.step;
  const Seconds fastest = best.planned->estimate.step;
  if (own == fastest)
    return candidate.largest_memory > best.largest_memory
               ? "as fast, more memory"
               : "as good, tried later";
  const double ratio = own / fastest;
  return (ratio < 1.1 ? to_text((ratio - 1) * 100, 2) + " % slower"
                      : ratio_text(ratio) + " the time") +
         (candidate.link_limits ? "; a link limits" : "");
}

std::vector<std::string> BaPipeExploration::table(
    const BaPipeCandidate& best) const {
  using Align = TextTable::Align;
  TextTable table({{"schedule"},
                   {"microbatch", Align::Right},
                   {"M", Align::Right},
                   {"partition"},
                   {"step", Align::Right},
                   {"promised", Align::Right},
                   {"memory", Align::Right},
                   {"why"}});
  for (const BaPipeCandidate& candidate : candidates_) {
    std::vector<std::string> row = {
        candidate.schedule,     "-", "-", candidate.partition, "-", "-", "-",
        remark(candidate, best)};
    if (candidate.microbatch > 0) {
      row[1] = std::to_string(candidate.microbatch);
      row[2] = std::to_string(problem_.minibatch / candidate.microbatch);
    }
    if (candidate.split_promise > Seconds(0))
      row[5] = to_text(candidate.split_promise);
    if (candidate.split_step > Seconds(0))
      row[4] = to_text(candidate.split_step);
    if (candidate.planned) {
      row[4] = to_text(candidate.planned->estimate.step);
      row[5] = to_text(candidate.planned->promised);
      row[6] = to_text(candidate.largest_memory);
    }
    table.add_row(std::move(row));
  }
  std::vector<std::string> lines;
  const std::string text = table.to_text(kTableWidth);
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) lines.emplace_back(line);
  return lines;
}

std::string BaPipeExploration::why(const BaPipeCandidate& best) const {
  const BaPipeCandidate* parallel = nullptr;
  const BaPipeCandidate* pipeline = nullptr;
  for (const BaPipeCandidate& candidate : candidates_) {
    if (!candidate.fits) continue;
    const bool is_parallel = candidate.schedule == "data-parallel";
    auto& slot = is_parallel ? parallel : pipeline;
    if (!slot || is_better(candidate, *slot)) slot = &candidate;
  }
  if (&best == parallel)
    return "falls back to data parallelism: " +
           (pipeline ? "the best pipeline takes " +
                           ratio_text(pipeline->planned->estimate.step /
                                      best.planned->estimate.step) +
                           " its time"
                     : std::string("no pipeline fits"));
  std::string sentence = best.schedule + " with " +
                         std::to_string(best.planned->plan.num_microbatches()) +
                         " microbatches of " + std::to_string(best.microbatch) +
                         " (" + best.partition +
                         " partition) is the fastest of " +
                         std::to_string(candidates_.size()) + " candidates";
  if (parallel)
    sentence += "; data parallelism takes " +
                ratio_text(parallel->planned->estimate.step /
                           best.planned->estimate.step) +
                " its time";
  return sentence;
}

// What the fastest partition that splits layers would take.
std::string BaPipeExploration::split_text(const BaPipeCandidate& best) const {
  const Seconds none = Seconds::max();
  Seconds fastest = none;
  for (const BaPipeCandidate& candidate : candidates_)
    if (candidate.split_step > Seconds(0))
      fastest = std::min(fastest, candidate.split_step);
  if (fastest == none) return "";
  const Seconds own = best.planned->estimate.step;
  return "; with layers split between two devices a step is estimated at " +
         to_text(fastest) + " (" + ratio_text(own / fastest) +
         " the speed), which is no plan, because a plan holds whole layers";
}

Error BaPipeExploration::nothing_fits() const {
  const BaPipeCandidate* least = nullptr;
  std::string refusal = "no microbatch size is given";
  for (const BaPipeCandidate& candidate : candidates_) {
    if (!candidate.planned)
      refusal = candidate.refusal;
    else if (!least || candidate.largest_memory < least->largest_memory)
      least = &candidate;
  }
  if (!least) return bad_configuration(refusal);
  return pipewright::nothing_fits(problem_, *least->planned);
}

}  // namespace pipewright
