#include "pipewright/plan/schedule/schedule_grid.h"

#include <algorithm>

namespace pipewright {
namespace {

constexpr std::size_t kColumnsAround = 8;
constexpr std::size_t kRowsAround = 6;

struct Window {
  std::size_t first = 0, end = 0;
};

Window around(std::size_t low, std::size_t high, std::size_t margin) {
  return {low - std::min(low, margin), high + margin + 1};
}

std::string cell(const ComputeAction& action, bool marked) {
  std::string text = to_text(action) + (action.joined ? "+" : "");
  return marked ? "[" + text + "]" : text;
}

std::string row(const std::vector<ComputeAction>& order, Window columns,
                const std::vector<std::size_t>& marked, std::size_t width) {
  const std::size_t end = std::min(columns.end, order.size());
  std::string text = columns.first > 0 ? " ..." : "";
  for (std::size_t i = columns.first; i < end; ++i) {
    const bool is_marked = std::count(marked.begin(), marked.end(), i) > 0;
    std::string one = cell(order[i], is_marked);
    one.resize(std::max(one.size(), width), ' ');
    text += " " + one;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text + (end < order.size() ? " ..." : "");
}

std::size_t cell_width(const Orders& orders, Window rows, Window columns) {
  std::size_t width = 0;
  for (std::size_t w = rows.first; w < rows.end; ++w) {
    const auto& order = orders[w];
    const std::size_t end = std::min(columns.end, order.size());
    for (std::size_t i = columns.first; i < end; ++i)
      width = std::max(width, cell(order[i], false).size());
  }
  return width;
}

}  // namespace

std::string drawn(const Orders& orders, const std::vector<GridMark>& marks) {
  if (marks.empty()) return {};
  std::size_t low_row = marks[0].worker.index(), high_row = low_row;
  std::size_t low = marks[0].position, high = low;
  for (const GridMark& mark : marks) {
    low_row = std::min(low_row, mark.worker.index());
    high_row = std::max(high_row, mark.worker.index());
    low = std::min(low, mark.position);
    high = std::max(high, mark.position);
  }
  high_row = std::min(high_row, low_row + 2 * kRowsAround);
  high = std::min(high, low + 2 * kColumnsAround);
  Window rows = around(low_row, high_row, kRowsAround);
  rows.end = std::min(rows.end, orders.size());
  const Window columns = around(low, high, kColumnsAround);
  const std::size_t width = cell_width(orders, rows, columns);
  std::string text;
  for (std::size_t w = rows.first; w < rows.end; ++w) {
    std::vector<std::size_t> marked;
    for (const GridMark& mark : marks)
      if (mark.worker == WorkerId(w)) marked.push_back(mark.position);
    text += "\n  " + std::to_string(w) + ":" +
            row(orders[w], columns, marked, width);
  }
  return text;
}

}  // namespace pipewright
