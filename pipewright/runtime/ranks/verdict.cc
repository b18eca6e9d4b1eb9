// Which rank has failed; see verdict.h.

#include "pipewright/runtime/ranks/verdict.h"

#include <algorithm>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

std::string place_text(const Snapshot& snapshot) {
  switch (snapshot.phase) {
    case Phase::SetUp:
      return "during set-up";
    case Phase::Between:
      return snapshot.place.worker.is_none()
                 ? "before the first step"
                 : "between steps, after " + to_text(snapshot.place);
    case Phase::Waits:
      return "waiting at " + to_text(snapshot.place);
    case Phase::Computes:
      break;
  }
  return "at " + to_text(snapshot.place);
}

Seconds limit_of(const RankView& rank, const Limits& limits, Seconds longest) {
  if (rank.last.phase == Phase::SetUp) return limits.set_up;
  if (rank.last.phase == Phase::Between) return limits.checkpoint;
  return action_limit(limits, longest);
}

std::string of_limit(Seconds time, Seconds limit) {
  return to_text(time) + " (limit " + to_text(limit) + ")";
}

}  // namespace

Seconds stall_limit(const Limits& limits, Seconds longest_step) {
  return std::max(limits.least, longest_step * limits.steps);
}

Seconds action_limit(const Limits& limits, Seconds longest_step) {
  const Seconds limit = stall_limit(limits, longest_step);
  return longest_step > Seconds(0) ? limit : std::max(limits.set_up, limit);
}

std::optional<Verdict> verdict(const std::vector<RankView>& ranks,
                               const Limits& limits, Seconds now) {
  Seconds longest;
  for (const RankView& rank : ranks)
    longest = std::max(longest, rank.last.longest_step);
  const auto first = [&](auto is_guilty) -> std::optional<Verdict> {
    for (std::size_t r = 0; r < ranks.size(); ++r) {
      if (ranks[r].has_finished) continue;
      if (std::string text = is_guilty(ranks[r]); !text.empty())
        return Verdict{static_cast<int>(r), text, ErrorCode::WorkerLost};
    }
    return std::nullopt;
  };
  const auto gone = [](const RankView& rank) -> std::string {
    return rank.is_closed ? "was lost, last seen " + place_text(rank.last) : "";
  };
  const auto silent = [&](const RankView& rank) -> std::string {
    // Heartbeats do not depend on the worker, so only set-up excuses silence.
    // Set-up is over when any rank has done a step, even if this rank fell
    // silent before it could report that.
    const bool sets_up =
        rank.last.phase == Phase::SetUp && longest == Seconds(0);
    const Seconds limit =
        sets_up ? limits.set_up : stall_limit(limits, longest);
    if (now - rank.heard <= limit) return "";
    return "has been silent for " + of_limit(now - rank.heard, limit) +
           ", last seen " + place_text(rank.last);
  };
  const auto stuck = [&](const RankView& rank) -> std::string {
    const Seconds limit = limit_of(rank, limits, longest);
    if (rank.last.phase == Phase::Waits || now - rank.changed <= limit)
      return "";
    return "has made no progress for " + of_limit(now - rank.changed, limit) +
           " " + place_text(rank.last);
  };
  for (std::size_t r = 0; r < ranks.size(); ++r)
    if (const std::optional<Error>& why = ranks[r].why)
      return Verdict{static_cast<int>(r), "ended: " + why->message, why->code};
  if (auto found = first(gone)) return found;
  if (auto found = first(silent)) return found;
  // Ranks between runs wait for those that still run: look at these first.
  if (auto found = first([&](const RankView& rank) {
        return rank.last.phase == Phase::Computes ? stuck(rank) : "";
      }))
    return found;
  if (auto found = first(stuck)) return found;
  const bool all_wait =
      std::all_of(ranks.begin(), ranks.end(), [&](const RankView& rank) {
        return rank.last.phase == Phase::Waits &&
               now - rank.changed > limit_of(rank, limits, longest) * 2;
      });
  if (!all_wait || ranks.empty()) return std::nullopt;
  return Verdict{0,
                 "and all other ranks wait for each other; it is " +
                     place_text(ranks[0].last),
                 ErrorCode::WorkerLost};
}

}  // namespace pipewright
