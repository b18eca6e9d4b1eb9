#include "pipewright/plan/schedule/schedule_grid.h"

#include <algorithm>

namespace pipewright {
namespace {

constexpr int kColumnsAround = 8;
constexpr int kRowsAround = 6;

struct Window {
  int first = 0, end = 0;
};

Window around(int low, int high, int margin, int size) {
  return {std::max(0, low - margin), std::min(size, high + margin + 1)};
}

std::string cell(const ComputeAction& action, bool marked) {
  std::string text = to_text(action) + (action.joined ? "+" : "");
  return marked ? "[" + text + "]" : text;
}

std::string row(const std::vector<ComputeAction>& order, Window columns,
                const std::vector<int>& marked, std::size_t width) {
  const int end = std::min(columns.end, static_cast<int>(order.size()));
  std::string text = columns.first > 0 ? " ..." : "";
  for (int i = columns.first; i < end; ++i) {
    const bool is_marked = std::count(marked.begin(), marked.end(), i) > 0;
    std::string one = cell(order[static_cast<std::size_t>(i)], is_marked);
    one.resize(std::max(one.size(), width), ' ');
    text += " " + one;
  }
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text + (end < static_cast<int>(order.size()) ? " ..." : "");
}

std::size_t cell_width(const Orders& orders, Window rows, Window columns) {
  std::size_t width = 0;
  for (int w = rows.first; w < rows.end; ++w) {
    const auto& order = orders[static_cast<std::size_t>(w)];
    const auto end = std::min<std::size_t>(
        static_cast<std::size_t>(columns.end), order.size());
    for (auto i = static_cast<std::size_t>(columns.first); i < end; ++i)
      width = std::max(width, cell(order[i], false).size());
  }
  return width;
}

}  // namespace

std::string drawn(const Orders& orders, const std::vector<GridMark>& marks) {
  if (marks.empty()) return {};
  int low_row = marks[0].worker, high_row = low_row;
  int low = marks[0].position, high = low;
  for (const GridMark& mark : marks) {
    low_row = std::min(low_row, mark.worker);
    high_row = std::max(high_row, mark.worker);
    low = std::min(low, mark.position);
    high = std::max(high, mark.position);
  }
  high_row = std::min(high_row, low_row + 2 * kRowsAround);
  high = std::min(high, low + 2 * kColumnsAround);
  const Window rows =
      around(low_row, high_row, kRowsAround, static_cast<int>(orders.size()));
  const Window columns = around(low, high, kColumnsAround, 1 << 30);
  const std::size_t width = cell_width(orders, rows, columns);
  std::string text;
  for (int w = rows.first; w < rows.end; ++w) {
    std::vector<int> marked;
    for (const GridMark& mark : marks)
      if (mark.worker == w) marked.push_back(mark.position);
    text += "\n  " + std::to_string(w) + ":" +
            row(orders[static_cast<std::size_t>(w)], columns, marked, width);
  }
  return text;
}

}  // namespace pipewright
