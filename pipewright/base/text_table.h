// A table for the terminal: columns are aligned, numbers to the right; long
// cells are shortened in the middle to fit the width.
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

  // At most as many cells as columns; missing ones are empty. Line breaks and
  // control characters in cells are replaced.
  void add_row(std::vector<std::string> cells);
  void add_rule();  // a horizontal line, as before a total

  bool has_rows() const { return !rows_.empty(); }  // rules count as rows

  // Lines are at most `width` wide if shortening cells can achieve that.
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
