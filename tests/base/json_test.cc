#include "pipewright/base/json.h"

#include <doctest/doctest.h>

#include "pipewright/base/json_cursor.h"

namespace pipewright {

TEST_CASE("a value knows its line") {
  auto json = parse_json("{\n  \"a\": 1,\n  \"b\": [\n 2,\n 3]\n}", "f");
  REQUIRE(json);
  CHECK(json->find("a")->line == 2);
  CHECK(json->find("b")->line == 3);
  CHECK(json->find("b")->if_array()->at(1).line == 5);
}

TEST_CASE("what JSON leaves open is refused") {
  CHECK_FALSE(parse_json("{\"a\":1,\"a\":2}", "f").ok());
  CHECK_FALSE(parse_json("[1e999]", "f").ok());
  CHECK_FALSE(parse_json("[NaN]", "f").ok());
  CHECK_FALSE(parse_json("[1] 2", "f").ok());
  CHECK_FALSE(
      parse_json(std::string(65, '[') + std::string(65, ']'), "f").ok());
  CHECK(parse_json(std::string(64, '[') + std::string(64, ']'), "f").ok());
  CHECK(parse_json("// note\n{}", "f").ok());
  auto error = parse_json("{\n\"a\": tru}", "plan.json").error();
  CHECK(error.code == ErrorCode::MalformedInput);
  CHECK(error.where.substr(0, 11) == "plan.json:2");
}

TEST_CASE("a cursor reports all errors with path, line and nearest key") {
  auto json = parse_json("{\"stages\": [{\"layrs\": 3}],\n \"n\": -1}", "f");
  REQUIRE(json);
  JsonErrors errors("f");
  JsonCursor root(*json, errors);
  for (JsonCursor stage : root.at("stages").elements()) {
    stage.at("layers").integer();
    stage.refuse_other_keys();
  }
  root.at("n").integer(1, 10);
  root.refuse_other_keys();
  REQUIRE(!errors.empty());
  CHECK(errors.error().to_text() ==
        "f:1: stages[0]: the key \"layers\" is missing (there is \"layrs\")\n"
        "f:1: stages[0]: unknown key \"layrs\" (did you mean \"layers\"?)\n"
        "f:2: n: -1 is not between 1 and 10");
}

}  // namespace pipewright
