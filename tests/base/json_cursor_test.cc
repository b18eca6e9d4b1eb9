#include "pipewright/base/json_cursor.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace pipewright {
namespace {

// The errors that `read` records on `text`, one per line.
template <class Read>
std::string errors_of(std::string_view text, Read read) {
  auto json = parse_json(text, "f");
  REQUIRE(json);
  JsonErrors errors("f");
  JsonCursor root(*json, errors);
  read(root);
  return errors.empty() ? "" : errors.error().to_text();
}

}  // namespace

TEST_CASE("all errors of a file, with path, line and nearest key") {
  CHECK(errors_of("{\"stages\": [{\"layrs\": 3}],\n \"n\": -1}",
                  [](JsonCursor& root) {
                    for (JsonCursor stage : root.at("stages").elements()) {
                      stage.at("layers").integer();
                      stage.refuse_other_keys();
                    }
                    root.at("n").integer(1, 10);
                    root.refuse_other_keys();
                  }) ==
        "f:1: stages[0]: missing key \"layers\" (found \"layrs\")\n"
        "f:1: stages[0]: unknown key \"layrs\" (did you mean \"layers\"?)\n"
        "f:2: n: -1 is not between 1 and 10");
}

TEST_CASE("an unknown key is reported on the key's own line") {
  CHECK(errors_of("{\"a\": 1,\n\"zzz\":\n\n[]}", [](JsonCursor& root) {
          root.at("a").integer();
          root.refuse_other_keys();
        }) == "f:2: unknown key \"zzz\" (known: a)");
}

TEST_CASE("a wrong type is reported once, and reading continues") {
  CHECK(errors_of("\"x\"",
                  [](JsonCursor& root) {
                    CHECK(root.at("a").integer(3, 9) == 3);
                    CHECK(root.at("b").text() == "");
                    CHECK_FALSE(root.find("c").exists());
                    CHECK(root.elements().empty());
                    root.refuse_other_keys();
                  }) ==
        "f:1: expected an object, found text\n"
        "f:1: expected an array, found text");
  CHECK(errors_of("{\"a\": null, \"b\": [1], \"c\": 1.5, \"d\": {}}",
                  [](JsonCursor& root) {
                    CHECK(root.at("a").real(1, 2) == 1);
                    CHECK_FALSE(root.at("b").boolean());
                    CHECK(root.at("c").integer() == 0);
                    CHECK(root.at("d").text() == "");
                    CHECK(root.at("c").members().empty());
                  }) ==
        "f:1: a: expected a number, found null\n"
        "f:1: b: expected true or false, found an array\n"
        "f:1: c: expected a whole number below 2^53, found a number\n"
        "f:1: d: expected text, found an object\n"
        "f:1: c: expected an object, found a number");
}

TEST_CASE("numbers and their ranges") {
  CHECK(errors_of("{\"a\": 3.0, \"b\": 7, \"c\": 1e300}",
                  [](JsonCursor& root) {
                    CHECK(root.at("a").integer() == 3);
                    CHECK(root.at("b").real() == 7.0);
                    CHECK(root.at("c").integer(0, 5) == 0);
                    CHECK(root.at("b").integer(8) == 8);
                    CHECK(root.at("b").real(0, 1.5) == 0.0);
                    CHECK(root.at("b").real(-1e308, 6) == 0.0);
                  }) ==
        "f:1: c: expected a whole number below 2^53, found a number\n"
        "f:1: b: 7 is below 8\n"
        "f:1: b: 7.0 is not between 0.0 and 1.5\n"
        "f:1: b: 7.0 is not between -1e+308 and 6.0");
}

TEST_CASE("format and version") {
  const auto read = [](JsonCursor& root) { root.require_format("p/q", 2); };
  CHECK(errors_of("{\"format\": \"p/q\", \"version\": 2}", read) == "");
  CHECK(errors_of("{\"format\": \"p/r\", \"version\": 3}", read) ==
        "f:1: format: expected \"p/q\", found \"p/r\"");
  CHECK(errors_of("{\"format\": \"p/q\", \"version\": 3}", read) ==
        "f:1: version: unsupported version 3; this program reads version 2 "
        "(write the file again with this version of pipewright)");
  CHECK(errors_of("{\"format\": 1, \"version\": \"2\"}", read) ==
        "f:1: format: expected text, found an integer\n"
        "f:1: version: expected an integer, found text");
  CHECK(errors_of("{}", read) ==
        "f:1: missing key \"format\" (here it is \"p/q\")");
  CHECK(errors_of("[]", read) == "f:1: expected an object, found an array");
}

TEST_CASE("a missing key does not suggest a key that is in use") {
  CHECK(errors_of("{\"stages\": 1}", [](JsonCursor& root) {
          root.at("stages");
          root.at("stage");
        }) == "f:1: missing key \"stage\"");
}

TEST_CASE("members of an object whose keys are data") {
  errors_of("{\"x\": {\"b\": 1, \"a\": 2}}", [](JsonCursor& root) {
    std::string seen;
    for (auto& [key, value] : root.at("x").members())
      seen += key + value.path() + std::to_string(value.integer());
    CHECK(seen == "bx.b1ax.a2");
  });
}

TEST_CASE("errors beyond the limit are only counted") {
  std::string text = "{";
  for (int i = 0; i < 70; ++i) text += "\"k" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const std::string errors =
      errors_of(text, [](JsonCursor& root) { root.refuse_other_keys(); });
  CHECK(std::count(errors.begin(), errors.end(), '\n') == 50);
  CHECK(errors.find("f: and 20 more errors") != std::string::npos);
}

}  // namespace pipewright
