#include "pipewright/plan/schedule/schedule_csv.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr std::array<const char*, 11> kKindNames = {
    "F",      "B",      "I",       "W",       "SEND_F",     "RECV_F",
    "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};

constexpr int kMaxNumber = 1'000'000'000;

std::optional<CsvKind> kind_of(std::string_view name) {
  for (std::size_t i = 0; i < kKindNames.size(); ++i)
    if (name == kKindNames[i]) return static_cast<CsvKind>(i);
  return std::nullopt;
}

std::optional<int> number_of(std::string_view digits) {
  const auto number = parse_integer(digits);
  if (!number || *number < 0 || *number > kMaxNumber) return std::nullopt;
  return static_cast<int>(*number);
}

bool needs_microbatch(CsvKind kind) { return kind < CsvKind::Unshard; }

std::optional<CsvAction> parse_csv_action(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789";
  const std::size_t begin = text.find_first_not_of(kDigits);
  if (begin == std::string_view::npos) return std::nullopt;
  std::size_t end = text.find_last_not_of(kDigits) + 1;
  const auto stage = number_of(text.substr(0, begin));
  const auto kind = kind_of(text.substr(begin, end - begin));
  if (!stage || !kind) return std::nullopt;
  if (end == text.size() && !needs_microbatch(*kind))
    return CsvAction{StageId(*stage), *kind, MicrobatchId()};
  const auto microbatch = number_of(text.substr(end));
  if (!microbatch) return std::nullopt;
  return CsvAction{StageId(*stage), *kind, MicrobatchId(*microbatch)};
}

std::optional<CsvCell> parse_cell(std::string_view text) {
  if (text.empty()) return CsvCell{};
  if (text.front() != '(') {
    const auto action = parse_csv_action(text);
    if (!action) return std::nullopt;
    return CsvCell{*action};
  }
  const std::size_t close = text.find(')');
  if (close == std::string_view::npos ||
      text.substr(close + 1) != "OVERLAP_F_B")
    return std::nullopt;
  CsvCell cell;
  for (std::string_view part : split(text.substr(1, close - 1), ';')) {
    const auto action = parse_csv_action(trim(part));
    if (!action) return std::nullopt;
    cell.push_back(*action);
  }
  if (cell.size() != 2) return std::nullopt;
  return cell;
}

std::string to_text(const CsvAction& action) {
  return std::to_string(action.stage.value) +
         kKindNames[static_cast<int>(action.kind)] +
         (action.microbatch.is_none()
              ? ""
              : std::to_string(action.microbatch.value));
}

std::optional<ComputeKind> compute_kind(CsvKind kind) {
  switch (kind) {
    case CsvKind::Forward:
      return ComputeKind::Forward;
    case CsvKind::Backward:
      return ComputeKind::Backward;
    case CsvKind::BackwardInput:
      return ComputeKind::BackwardInput;
    case CsvKind::BackwardWeight:
      return ComputeKind::BackwardWeight;
    default:
      return std::nullopt;
  }
}

CsvAction csv_action(const ComputeAction& a) {
  CsvKind kind = CsvKind::Forward;
  if (a.kind == ComputeKind::Backward) kind = CsvKind::Backward;
  if (a.kind == ComputeKind::BackwardInput) kind = CsvKind::BackwardInput;
  if (a.kind == ComputeKind::BackwardWeight) kind = CsvKind::BackwardWeight;
  return {a.stage, kind, a.microbatch};
}

void append(std::vector<ComputeAction>& order, const CsvCell& cell) {
  const std::size_t first = order.size();
  for (const CsvAction& action : cell)
    if (const auto kind = compute_kind(action.kind))
      order.push_back({action.stage, action.microbatch, *kind});
  if (order.size() == first + 2) order[first].joined = true;
}

}  // namespace

std::string to_text(const CsvCell& cell) {
  if (cell.empty()) return {};
  if (cell.size() == 1) return to_text(cell[0]);
  return "(" + to_text(cell[0]) + ";" + to_text(cell[1]) + ")OVERLAP_F_B";
}

Result<CsvGrid> parse_csv(std::string_view text, const std::string& file) {
  CsvGrid grid;
  int line_number = 0;
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    grid.emplace_back();
    for (std::string_view raw : split(line, ',')) {
      const std::string_view content = trim(raw);
      auto cell = parse_cell(content);
      if (!cell)
        return malformed(
            "\"" + std::string(content.substr(0, 60)) + "\" is not an action",
            file + ":" + std::to_string(line_number) + ", cell " +
                std::to_string(grid.back().size() + 1),
            "cells read 2F0, 1SEND_F3 or (0F1;1B0)OVERLAP_F_B; an empty one is "
            "idle");
      grid.back().push_back(*std::move(cell));
    }
  }
  return grid;
}

std::string to_csv(const CsvGrid& grid) {
  std::string text;
  for (const auto& row : grid) {
    for (std::size_t i = 0; i < row.size(); ++i)
      text += (i > 0 ? "," : "") + to_text(row[i]);
    text += "\n";
  }
  return text;
}

Result<Schedule> schedule_of(const CsvGrid& grid, const std::string& file) {
  int num_stages = 0, num_microbatches = 0;
  std::int64_t num_actions = 0;
  for (const auto& row : grid)
    for (const CsvCell& cell : row)
      for (const CsvAction& action : cell) {
        ++num_actions;
        num_stages = std::max(num_stages, action.stage.value + 1);
        num_microbatches =
            std::max(num_microbatches, action.microbatch.value + 1);
      }
  // Before a table is made of it: a stage without actions is a mistake.
  if (num_stages > num_actions)
    return malformed("stage " + std::to_string(num_stages - 1) +
                         " is named, but there are only " +
                         std::to_string(num_actions) + " actions",
                     file);
  Orders orders(grid.size());
  for (std::size_t w = 0; w < grid.size(); ++w)
    for (const CsvCell& cell : grid[w]) append(orders[w], cell);
  auto schedule =
      Schedule::create(num_stages, num_microbatches, std::move(orders));
  if (schedule) return schedule;
  Error error = schedule.error();
  error.where = file;
  return error;
}

namespace {

// In torch a stage has one rank: its runtime refuses a CSV with two.
Result<void> check_one_worker_per_stage(const Schedule& schedule) {
  std::map<StageId, std::size_t> worker_of;
  const Orders& body = schedule.sections().body;
  for (std::size_t w = 0; w < body.size(); ++w)
    for (const ComputeAction& action : body[w])
      if (const auto [first, is_new] = worker_of.emplace(action.stage, w);
          first->second != w)
        return bad_configuration(
            "stage " + std::to_string(action.stage.value) + " is on workers " +
                std::to_string(first->second) + " and " + std::to_string(w) +
                "; torch.distributed.pipelining runs a stage on one rank",
            "the text form has no such limit (--text)");
  return {};
}

}  // namespace

Result<CsvGrid> grid_of(const Schedule& schedule) {
  if (schedule.sections().minibatches_outside > 0)
    return bad_configuration(
        "the CSV has no form for a schedule that does not drain",
        "the text form has (--text)");
  if (auto alone = check_one_worker_per_stage(schedule); !alone)
    return alone.error();
  CsvGrid grid;
  for (const auto& order : schedule.sections().body) {
    grid.emplace_back();
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (order[i].kind == ComputeKind::Recompute)
        return bad_configuration("the CSV has no form for recomputation");
      grid.back().push_back({csv_action(order[i])});
      if (!order[i].joined) continue;
      grid.back().back().push_back(csv_action(order[++i]));
      const CsvCell& pair = grid.back().back();
      if ((pair[0].kind == CsvKind::Forward) ==
          (pair[1].kind == CsvKind::Forward))
        return bad_configuration(
            "the CSV joins a forward with a backward, not " + to_text(pair));
    }
  }
  return grid;
}

}  // namespace pipewright
