#include "pipewright/base/text_table.h"

#include <doctest/doctest.h>

#include <sstream>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

TextTable costs() {
  TextTable table({{"layer"}, {"parameters", TextTable::Align::Right}});
  table.add_row({"conv1", "9,408"});
  table.add_row({"a.very.long.name.of.a.layer", "1"});
  table.add_rule();
  table.add_row({"sum"});
  return table;
}

}  // namespace

TEST_CASE("columns align, numbers to the right") {
  CHECK(costs().to_text() ==
        "layer                        parameters\n"
        "conv1                             9,408\n"
        "a.very.long.name.of.a.layer           1\n"
        "---------------------------------------\n"
        "sum\n");
}

TEST_CASE("long cells are shortened in the middle to fit") {
  CHECK(costs().to_text(24) ==
        "layer         parameters\n"
        "conv1              9,408\n"
        "a.very\u2026layer           1\n"
        "------------------------\n"
        "sum\n");
  for (int width = 20; width < 60; ++width) {
    std::istringstream lines(costs().to_text(width));
    for (std::string line; std::getline(lines, line);)
      CHECK(display_width(line) <= width);
  }
}

TEST_CASE("a width is counted in characters") {
  CHECK(display_width("\xC3\xA4\xC3\xB6") == 2);
  CHECK(shortened("\xC3\xA4\xC3\xB6\xC3\xBC", 3) == "\xC3\xA4\xC3\xB6\xC3\xBC");
  CHECK(shortened("abcdefgh", 5) == "ab\u2026gh");
  CHECK(shortened("abcdefgh", 4) == "ab\u2026h");
  CHECK(shortened("abc", 1) == "a");
  CHECK(shortened("abc", 0) == "");
  CHECK(shortened("", 0) == "");
  TextTable table({{"x"}, {"y"}});
  table.add_row({"\xC3\xA4\xC3\xB6", "1"});
  CHECK(table.to_text() == "x   y\n\xC3\xA4\xC3\xB6  1\n");
}

TEST_CASE("what is in a cell cannot break the table") {
  TextTable table({{"x"}, {"y"}});
  table.add_row({"a\nb\x1B[2J\xFF", "1"});
  CHECK(table.to_text() == "x         y\na b?[2J?  1\n");
  CHECK_THROWS_AS(table.add_row({"1", "2", "3"}), Bug);
}

TEST_CASE("a table of nothing") {
  CHECK(costs().has_rows());
  TextTable table({});
  CHECK(!table.has_rows());
  table.add_rule();
  CHECK(table.to_text() == "\n\n");
}

}  // namespace pipewright
