#include "pipewright/timeline/bottleneck.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

using Kind = PathPiece::Kind;

struct Share {
  std::string what;  // "stage 3", "link 2 to 3"
  double seconds = 0;
};

std::string stage_name(StageId stage, std::span<const StageId> shown_as) {
  const StageId shown = shown_as.empty() ? stage : shown_as[stage.index()];
  return "stage " + std::to_string(shown.value);
}

std::string name_of(const PathPiece& piece, std::span<const StageId> shown_as) {
  switch (piece.kind) {
    case Kind::Compute:
      return stage_name(piece.stage, shown_as);
    case Kind::Link:
      return "link " + std::to_string(piece.worker.value) + " to " +
             std::to_string(piece.to.value);
    case Kind::Reduce:
      return "all-reduce of " + stage_name(piece.stage, shown_as);
    default:
      return "other waiting";
  }
}

std::vector<Share> shares_of(const std::vector<PathPiece>& path,
                             std::span<const StageId> shown_as) {
  std::map<std::string, Share> by_name;
  for (const PathPiece& piece : path) {
    const std::string name = name_of(piece, shown_as);
    Share& share = by_name[name];
    share.what = name;
    share.seconds += (piece.end - piece.start).value();
  }
  std::vector<Share> shares;
  for (auto& [name, share] : by_name) shares.push_back(share);
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const Share& a, const Share& b) { return a.seconds > b.seconds; });
  return shares;
}

std::string percent(double share) {
  return std::to_string(std::lround(share * 100)) + " %";
}

bool holds_more_than_programs(const Timeline& timeline) {
  return std::any_of(timeline.workers.begin(), timeline.workers.end(),
                     [](const WorkerSummary& worker) {
                       return worker.peak.total() > worker.peak.of_program();
                     });
}

}  // namespace

std::string bottleneck_text(const std::vector<PathPiece>& path,
                            std::span<const StageId> shown_as) {
  const std::vector<Share> shares = shares_of(path, shown_as);
  double total = 0;
  for (const Share& share : shares) total += share.seconds;
  if (total <= 0) return "no action takes any time";
  const double first = shares.front().seconds / total;
  std::string text =
      shares.front().what +
      (first >= 0.5 ? " is the bottleneck: " : " is the largest part: ") +
      percent(first) + " of the critical path";
  for (std::size_t i = 1; i < shares.size() && i < 5; ++i) {
    const double share = shares[i].seconds / total;
    if (share < 0.005) break;
    text += "; " + shares[i].what + ": " + percent(share);
  }
  return text;
}

std::string workers_text(const Timeline& timeline, int width) {
  using Align = TextTable::Align;
  const bool has_more = holds_more_than_programs(timeline);
  std::vector<TextTable::Column> columns = {
      {"worker", Align::Left},     {"busy", Align::Right},
      {"waits", Align::Right},     {"idle", Align::Right},
      {"peak", Align::Right},      {"weights", Align::Right},
      {"gradients", Align::Right}, {"state", Align::Right},
      {"kept", Align::Right},      {"buffers", Align::Right}};
  if (has_more) {
    columns.push_back({"base", Align::Right});
    columns.push_back({"fragmented", Align::Right});
  }
  TextTable table(columns);
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    const WorkerSummary& worker = timeline.workers[w];
    const double run = std::max(timeline.duration.value(), 1e-300);
    const double busy = worker.busy.value() / run;
    const double waits = worker.waiting_for_link.value() / run;
    std::vector<std::string> row = {std::to_string(w),
                                    percent(busy),
                                    percent(waits),
                                    percent(std::max(0.0, 1 - busy - waits)),
                                    to_text(worker.peak.total()),
                                    to_text(worker.peak.weights),
                                    to_text(worker.peak.gradients),
                                    to_text(worker.peak.optimizer),
                                    to_text(worker.peak.activations),
                                    to_text(worker.peak.buffers)};
    if (has_more) {
      row.push_back(to_text(worker.peak.base));
      row.push_back(to_text(worker.peak.fragmentation));
    }
    table.add_row(row);
  }
  return table.to_text(width) +
         "waits: for transfers; peak: of memory, the sum of the columns to its "
         "right\n(state: of the optimizer; kept: for backward" +
         (has_more
              ? "; base: base memory, fragmented: by fragmentation, beside "
                "the program)\n"
              : ")\n");
}

}  // namespace pipewright
