// A table for the terminal: columns align, numbers to the right, long cells are
// shortened in the middle to fit a width.
//
//   layer        output       parameters
//   conv1        64x112x112        9,408
//   ...

#pragma once

#include <string>
#include <vector>

namespace pipewright {

class TextTable {
 public:
  enum class Align {
    Left,
    Right
  };
  struct Column {
    std::string title;
    Align align = Align::Left;
  };

  explicit TextTable(std::vector<Column> columns);

  // At most as many cells as columns; missing ones are empty. A line break or
  // control character inside a cell does not reach the terminal.
  void add_row(std::vector<std::string> cells);
  void add_rule();  // a line across, as before a total

  // Every line at most `width` wide where shortening can achieve it.
  std::string to_text(int width = 100) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool rule = false;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

// Columns a UTF-8 text takes on a terminal (continuation bytes take none).
int display_width(const std::string& text);
// At most `width` columns, the middle replaced by an ellipsis.
std::string shortened(const std::string& text, int width);

}  // namespace pipewright
