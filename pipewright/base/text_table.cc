#include "pipewright/base/text_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr int kGap = 2;
constexpr int kMinColumnWidth = 8;  // a column is not shortened below this

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// The first / last `columns` columns of a UTF-8 text.
std::string first_columns(const std::string& text, int columns) {
  std::size_t at = 0;
  for (int taken = 0; at < text.size(); ++at)
    if (!is_continuation(text[at]) && ++taken > columns) break;
  return text.substr(0, at);
}

std::string last_columns(const std::string& text, int columns) {
  int skip = display_width(text) - columns;
  return text.substr(first_columns(text, std::max(0, skip)).size());
}

}  // namespace

int display_width(const std::string& text) {
  return static_cast<int>(std::count_if(
      text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
}

std::string shortened(const std::string& text, int width) {
  if (display_width(text) <= width) return text;
  if (width <= 1) return first_columns(text, width);
  int kept = width - 1;
  return first_columns(text, kept - kept / 2) + "\u2026" +
         last_columns(text, kept / 2);
}

TextTable::TextTable(std::vector<Column> columns)
    : columns_(std::move(columns)) {}

void TextTable::add_row(std::vector<std::string> cells) {
  PIPEWRIGHT_CHECK(cells.size() <= columns_.size(), "more cells than columns");
  cells.resize(columns_.size());
  for (std::string& cell : cells) {
    cell = printable(cell);
    for (char& c : cell)
      if (c == '\n' || c == '\t') c = ' ';
  }
  rows_.push_back({std::move(cells), false});
}

void TextTable::add_rule() { rows_.push_back({{}, true}); }

std::string TextTable::to_text(int width) const {
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int widest = display_width(columns_[c].title);
    for (const Row& row : rows_)
      if (!row.rule) widest = std::max(widest, display_width(row.cells[c]));
    widths.push_back(widest);
  }
  const auto total = [&] {
    const int gaps = std::max(0, static_cast<int>(widths.size()) - 1);
    return std::accumulate(widths.begin(), widths.end(), 0) + kGap * gaps;
  };
  while (!widths.empty() && total() > width) {
    auto widest = std::max_element(widths.begin(), widths.end());
    if (*widest <= kMinColumnWidth) break;
    --*widest;
  }

  std::string text;
  const auto add_line = [&](const std::vector<std::string>& cells) {
    std::string line;
    for (std::size_t c = 0; c < columns_.size(); ++c) {
      if (c > 0) line.append(kGap, ' ');
      std::string cell = shortened(cells[c], widths[c]);
      const int padding = widths[c] - display_width(cell);
      if (columns_[c].align == Align::Right) line.append(padding, ' ');
      line += cell;
      if (columns_[c].align == Align::Left) line.append(padding, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  add_line(titles);
  for (const Row& row : rows_) {
    if (row.rule)
      text += std::string(total(), '-') + "\n";
    else
      add_line(row.cells);
  }
  return text;
}

}  // namespace pipewright
