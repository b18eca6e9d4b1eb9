#include "pipewright/base/result.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

namespace pipewright {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return malformed(std::to_string(n) + " is odd", "f:1");
  return n / 2;
}

Result<int> quarter(int n) {
  PIPEWRIGHT_TRY(int once, half(n));
  PIPEWRIGHT_TRY(int twice, half(once));
  return twice;
}

Result<void> must_be_even(int n) {
  Result<int> halved = half(n);
  if (!halved) return halved.error();
  return {};
}

}  // namespace

TEST_CASE("a value or the reason why not") {
  CHECK(*quarter(8) == 2);
  CHECK(quarter(6).error().to_text() == "f:1: 3 is odd");
  CHECK(must_be_even(2).ok());
  CHECK_FALSE(must_be_even(1).ok());
  CHECK(must_be_even(1).error().code == ErrorCode::MalformedInput);
}

TEST_CASE("reading a missing value is a bug, with file and line") {
  CHECK_THROWS_AS((void)*half(1), Bug);
  CHECK_THROWS_AS((void)half(2).error(), Bug);
  CHECK_THROWS_AS((void)must_be_even(2).error(), Bug);
  try {
    (void)half(1).value();
  } catch (const Bug& bug) {
    const std::string what = bug.what();
    CHECK(what.find("result.h:") != std::string::npos);
    CHECK(what.find("1 is odd") != std::string::npos);
  }
}

TEST_CASE("a value that can only be moved") {
  const auto make = []() -> Result<std::unique_ptr<int>> {
    return std::make_unique<int>(5);
  };
  auto taken = *make();
  CHECK(*taken == 5);
}

TEST_CASE("the text of an error: where, what, hint, and the others") {
  Error error = malformed("3 is odd", "f:1", "use 4");
  error.others.push_back(bad_configuration("also this", "or that"));
  CHECK(error.to_text() == "f:1: 3 is odd (use 4)\nalso this (or that)");
  CHECK(malformed("bare").to_text() == "bare");
  // Nothing in a file's text reaches the terminal as a command.
  CHECK(malformed("key \"\x1B[2J\xFF\"").to_text() == "key \"?[2J?\"");
}

}  // namespace pipewright
