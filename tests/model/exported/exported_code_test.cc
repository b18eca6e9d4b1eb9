// Lines of operators: what they say, what is refused, and random damage.

#include "pipewright/model/exported/exported_code.h"

#include <doctest/doctest.h>

#include <random>

namespace pipewright {
namespace {

using Kind = OperatorArgument::Kind;

OperatorCall call(const std::string& line) {
  const auto parsed = parse_operator_call(line);
  REQUIRE_MESSAGE(parsed.ok(), (parsed.ok() ? "" : parsed.error().to_text()));
  return *parsed;
}

TEST_CASE("a call with every kind of argument") {
  const OperatorCall it = call(
      "%4 %5 = ns::op.out(%3, 2, -1.5, inf, true, none, _, \"mean\", float32, "
      "[B, (* 2 B), 16], [%1, none])");
  CHECK(it.name == "ns::op");
  CHECK(it.overload == "out");
  CHECK(it.results == std::vector<int>{4, 5});
  CHECK_FALSE(it.returns_list);
  REQUIRE(it.arguments.size() == 11);
  CHECK(it.arguments[0].tensor == 3);
  CHECK(it.arguments[1].integer.at(9) == 2);
  CHECK(it.arguments[2].real == -1.5);
  CHECK(it.arguments[3].kind == Kind::Real);
  CHECK(it.arguments[4].flag);
  CHECK(it.arguments[5].kind == Kind::None);
  CHECK(it.arguments[6].kind == Kind::Default);
  CHECK(it.arguments[7].text == "mean");
  CHECK(it.arguments[8].kind == Kind::Word);
  CHECK(it.arguments[9].elements[1].integer.at(3) == 6);
  CHECK(it.arguments[10].elements[0].tensor == 1);
  CHECK(call("[%1 %2] = split(%0)").returns_list);
  CHECK(call("%1 = relu(%0)").name == "aten::relu");
}

TEST_CASE("expressions of the batch size") {
  const auto at = [](const std::string& text, std::int64_t batch) {
    return call("%1 = f(" + text + ")").arguments[0].integer.at(batch);
  };
  CHECK(at("B", 5) == 5);
  CHECK(at("(+ (* 2 B) 1)", 5) == 11);
  CHECK(at("(// B 2)", 5) == 2);
  CHECK(at("(// -7 2)", 5) == -4);  // as in Python
  CHECK(at("(% -7 3)", 5) == 2);
  CHECK(at("(max 3 B (min 9 1))", 5) == 5);
  CHECK(at("(// B 0)", 5) == 0);
}

TEST_CASE("lines that are no calls") {
  for (const std::string line :
       {"", "%1", "%1 =", "= relu(%0)", "%1 = relu(%0", "%1 = relu(%0))",
        "%1 = relu(%0) x", "%x = relu(%0)", "%1 = (%0)", "%1 = f(,)",
        "%1 = f(%0 %2)", "%1 = f([1)", "%1 = f((+ 1))", "%1 = f((? 1 2))",
        "%1 = f(\"a)", "%99999999999 = f()"})
    CHECK_MESSAGE(!parse_operator_call(line).ok(), line);
  CHECK_FALSE(parse_operator_call("%1 = f(" + std::string(1000, '[')).ok());
}

TEST_CASE("a damaged line is read or refused") {
  const std::string line =
      "%4 %5 = op.out(%3, -1.5, true, none, _, \"mean\", [B, (* 2 B)])";
  std::mt19937 random(5);
  int refused = 0;
  for (int i = 0; i < 5000; ++i) {
    std::string damaged = line;
    for (int n = 0; n < 2; ++n)
      damaged[random() % damaged.size()] =
          static_cast<char>(' ' + random() % 95);
    refused += !parse_operator_call(damaged).ok();
  }
  CHECK(refused > 1000);
}

TEST_CASE("tensors are made once, before they are read") {
  ExportedFunction good{1, 3, {call("%1 %2 = f(%0)")}, {2, 0}};
  CHECK(check_tensors(good).ok());
  ExportedFunction late = good;
  late.calls = {call("%1 %2 = f(%2)")};
  CHECK_FALSE(check_tensors(late).ok());
  ExportedFunction twice = good;
  twice.calls.push_back(call("%1 = f(%0)"));
  CHECK_FALSE(check_tensors(twice).ok());
  ExportedFunction beyond = good;
  beyond.results = {3};
  CHECK_FALSE(check_tensors(beyond).ok());
}

}  // namespace
}  // namespace pipewright
