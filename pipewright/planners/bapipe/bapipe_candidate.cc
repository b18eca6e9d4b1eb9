#include "pipewright/planners/bapipe/bapipe_candidate.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

constexpr int kTableWidth = 120;

std::string ratio_text(double ratio) { return to_text(ratio, 3) + "x"; }

std::string remark(const BaPipeCandidate& candidate,
                   const BaPipeCandidate& chosen) {
  if (&candidate == &chosen) return "chosen";
  if (!candidate.planned) return candidate.refusal;
  if (!candidate.fits) return candidate.memory_verdict;
  const Seconds own = candidate.planned->estimate.step;
  const Seconds fastest = chosen.planned->estimate.step;
  if (own == fastest)
    return candidate.largest_memory > chosen.largest_memory
               ? "as fast, more memory"
               : "as good, tried later";
  const double ratio = own / fastest;
  return (ratio < 1.1 ? to_text((ratio - 1) * 100, 2) + " % slower"
                      : ratio_text(ratio) + " the time") +
         (candidate.link_limits ? "; a link limits" : "");
}

std::vector<std::string> row_of(const BaPipeCandidate& candidate,
                                const BaPipeCandidate& chosen, int minibatch) {
  std::vector<std::string> row = {
      candidate.schedule,       "-", "-", candidate.partition, "-", "-", "-",
      remark(candidate, chosen)};
  if (candidate.microbatch > 0) {
    row[1] = std::to_string(candidate.microbatch);
    row[2] = std::to_string(minibatch / candidate.microbatch);
  }
  if (candidate.planned) {
    row[4] = to_text(candidate.planned->estimate.step);
    row[5] = to_text(candidate.planned->promised);
    row[6] = to_text(candidate.largest_memory);
  }
  return row;
}

}  // namespace

bool is_better(const BaPipeCandidate& a, const BaPipeCandidate& b) {
  const Seconds x = a.planned->estimate.step, y = b.planned->estimate.step;
  return x < y || (x == y && a.largest_memory < b.largest_memory);
}

std::vector<std::string> candidate_table(const BaPipeCandidates& all,
                                         const BaPipeCandidate& chosen,
                                         int minibatch) {
  using Align = TextTable::Align;
  TextTable table({{"schedule"},
                   {"microbatch", Align::Right},
                   {"M", Align::Right},
                   {"partition"},
                   {"step", Align::Right},
                   {"promised", Align::Right},
                   {"memory", Align::Right},
                   {"why"}});
  for (const BaPipeCandidate& candidate : all)
    table.add_row(row_of(candidate, chosen, minibatch));
  std::vector<std::string> lines;
  const std::string text = table.to_text(kTableWidth);
  for (std::string_view line : split(text, '\n'))
    if (!line.empty()) lines.emplace_back(line);
  return lines;
}

std::string explanation(const BaPipeCandidates& all,
                        const BaPipeCandidate& chosen) {
  const BaPipeCandidate* parallel = nullptr;
  const BaPipeCandidate* pipeline = nullptr;
  for (const BaPipeCandidate& candidate : all) {
    if (!candidate.fits) continue;
    const bool is_parallel = candidate.schedule == "data-parallel";
    auto& best = is_parallel ? parallel : pipeline;
    if (!best || is_better(candidate, *best)) best = &candidate;
  }
  const Seconds step = chosen.planned->estimate.step;
  const auto times = [&](const BaPipeCandidate& other) {
    return ratio_text(other.planned->estimate.step / step) + " its time";
  };
  if (&chosen == parallel)
    return "falls back to data parallelism: " +
           (pipeline ? "the best pipeline takes " + times(*pipeline)
                     : std::string("no pipeline fits"));
  std::string sentence =
      chosen.schedule + " with " +
      std::to_string(chosen.planned->plan.num_microbatches()) +
      " microbatches of " + std::to_string(chosen.microbatch) + " (" +
      chosen.partition + " partition) is the fastest of " +
      std::to_string(all.size()) + " candidates";
  if (chosen.partition == "intra-layer")
    sentence += "; its model is " + chosen.planned->plan.model;
  if (parallel) sentence += "; data parallelism takes " + times(*parallel);
  return sentence;
}

}  // namespace pipewright
