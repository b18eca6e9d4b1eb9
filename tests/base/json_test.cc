#include "pipewright/base/json.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

namespace pipewright {
namespace {

std::string refusal(std::string_view text) {
  auto json = parse_json(text, "f");
  if (json) return "accepted: " + json->to_line();
  CHECK(json.error().code == ErrorCode::MalformedInput);
  return json.error().to_text();
}

// "line:column" of every value, depth first.
void places(const Json& json, std::string& out) {
  out += std::to_string(json.line) + ":" + std::to_string(json.column) + " ";
  if (const auto* array = json.if_array())
    for (const Json& element : *array) places(element, out);
  if (const auto* object = json.if_object())
    for (const auto& [key, member] : *object) places(member, out);
}

std::string places(std::string_view text) {
  auto json = parse_json(text, "f");
  REQUIRE_MESSAGE(json.ok(), text);
  std::string out;
  places(*json, out);
  return out;
}

}  // namespace

TEST_CASE("every value knows its line and first column") {
  CHECK(places("{\n  \"a\": 1,\n  \"b\": [\n 2,\n 3]\n}") ==
        "1:1 2:8 3:8 4:2 5:2 ");
  CHECK(places("[true,false , null,\"x\",-1.5e3,{},[ ]]") ==
        "1:1 1:2 1:7 1:15 1:20 1:24 1:31 1:34 ");
  CHECK(places("42") == "1:1 ");
  CHECK(places("  42\n") == "1:3 ");
  CHECK(places("{\"a\":\n\n7}") == "1:1 3:1 ");
  CHECK(places("[\r\n 1\r\n]") == "1:1 2:2 ");
}

TEST_CASE("comments, escapes and wide characters do not shift positions") {
  CHECK(places("// note [ 1\n/* { \n */ [1 /* , */ , // x\n 2]") ==
        "3:5 3:6 4:2 ");
  CHECK(places("[\"a\\\"]\\\\\", 5]") == "1:1 1:2 1:12 ");
  // Columns are characters: the two bytes of an umlaut are one.
  CHECK(places("[\"\xC3\xA4\xC3\xB6\", 5]") == "1:1 1:2 1:8 ");
  CHECK(places("[1]// end") == "1:1 1:2 ");
  CHECK(places("// a\r[1, // b\r\n2]") == "1:6 1:7 2:1 ");
  CHECK(places("\xEF\xBB\xBF[1]") == "1:1 1:2 ");
}

TEST_CASE("a member knows the line of its key") {
  auto json = parse_json("{\"a\": 0,\n\"b\":\n\n[\n1]}", "f");
  REQUIRE(json);
  CHECK(json->find("a")->key_line == 1);
  CHECK(json->find("b")->key_line == 2);
  CHECK(json->find("b")->line == 4);
  CHECK(json->find("b")->if_array()->at(0).key_line == 0);
}

TEST_CASE("random layouts: positions as in a naive scan") {
  std::mt19937 random(7);
  const std::vector<std::string> gaps = {
      "", " ", "\n", "\t", " \n  ", "/* a\nb */", "// c\n", "/**/", "\r\n"};
  const std::vector<std::string> values = {
      "1", "-2.5", "true", "null", "\"s\"", "\"\\u00e4 , ]\"", "[]", "{}"};
  for (int round = 0; round < 500; ++round) {
    std::string text = "[", expected = "1:1 ";
    const auto add_gap = [&] { text += gaps[random() % gaps.size()]; };
    const int n = 1 + static_cast<int>(random() % 6);
    for (int i = 0; i < n; ++i) {
      if (i > 0) text += ",";
      add_gap();
      const auto line = std::count(text.begin(), text.end(), '\n') + 1;
      const auto column = text.size() - (text.rfind('\n') + 1) + 1;
      expected += std::to_string(line) + ":" + std::to_string(column) + " ";
      text += values[random() % values.size()];
      add_gap();
    }
    text += "]";
    CHECK_MESSAGE(places(text) == expected, text);
  }
}

TEST_CASE("what JSON leaves open is rejected, with its position") {
  CHECK(refusal("{\"a\":1,\n \"a\":2}") ==
        "f:2:2: duplicate key \"a\", first on line 1");
  CHECK(refusal("[1,\n1e999]").substr(0, 6) == "f:2:6:");
  CHECK(refusal("[NaN]").substr(0, 4) == "f:1:");
  CHECK(refusal("[Infinity]").substr(0, 4) == "f:1:");
  CHECK(refusal("[1] 2").substr(0, 6) == "f:1:5:");
  CHECK(refusal("{\n\"a\": tru}").substr(0, 4) == "f:2:");
  CHECK(refusal("").find("the file is empty") != std::string::npos);
  CHECK(refusal(" \n\t").find("the file is empty") != std::string::npos);
  CHECK(refusal("// only a note").substr(0, 4) == "f:1:");
  for (const char* bad :
       {"{", "[", "[1,]", "{\"a\"}", "{\"a\":}", "{a:1}", "'x'", "\"",
        "\"\\q\"", "01", "+1", ".5", "1.", "[1 2]", "/* no end", "/",
        "[\"\\ud800\"]", "]", "nul"})
    CHECK_MESSAGE(refusal(bad).substr(0, 4) == "f:1:", bad);
}

TEST_CASE("a NUL byte is rejected anywhere in the file") {
  using namespace std::string_literals;
  CHECK(refusal("[1]\n\0x"s) ==
        "f:2: the file contains a NUL byte (is this a text file?)");
  CHECK(refusal("// x\0\n[1]"s).substr(0, 4) == "f:1:");
  CHECK(refusal("[\"\0\"]"s).substr(0, 4) == "f:1:");
}

TEST_CASE("text that is not UTF-8 is rejected, and the message is UTF-8") {
  for (const char* bad : {"[\"\xFF\"]", "[\"\xC3\"]", "[\"\xED\xA0\x80\"]",
                          "[\"\xC0\x80\"]", "\xFF\xFE[1]"}) {
    const std::string message = refusal(bad);
    CHECK(message.substr(0, 4) == "f:1:");
    CHECK(parse_json(Json(message).to_line(), "g").ok());
  }
  // A long token does not make a long message.
  CHECK(refusal("[\"" + std::string(100000, 'x')).size() < 400);
}

TEST_CASE("depth and number of values have limits") {
  const auto nested = [](int depth) {
    const auto n = static_cast<std::size_t>(depth);
    return std::string(n, '[') + std::string(n, ']');
  };
  CHECK(parse_json(nested(64), "f").ok());
  CHECK(refusal(nested(65)) == "f:1:65: nested deeper than 64 levels");
  CHECK(refusal(std::string(1 << 20, '[')) ==
        "f:1:65: nested deeper than 64 levels");
  std::string wide = "[";
  for (int i = 0; i < 1'000'000; ++i) wide += "0,";
  wide.back() = ']';
  CHECK(refusal(wide) ==
        "f:1:2000000: the file has more than 1,000,000 values");
}

TEST_CASE("numbers keep their kind and value") {
  const auto value = [](const char* text) {
    auto json = parse_json(text, "f");
    REQUIRE(json);
    return json->value();
  };
  CHECK(std::get<std::int64_t>(value("9223372036854775807")) == INT64_MAX);
  CHECK(std::get<std::int64_t>(value("-9223372036854775808")) == INT64_MIN);
  CHECK(std::get<double>(value("9223372036854775808")) == 0x1p63);
  CHECK(std::get<double>(value("1e3")) == 1000.0);
  CHECK(std::get<double>(value("1e-400")) == 0.0);
  CHECK(std::get<double>(value("123456789012345678901234567890")) ==
        123456789012345678901234567890.0);
}

TEST_CASE("writing: order kept, plain arrays on one line") {
  Json json = Json::object();
  json.set("b", Json(Json::Array{1, 2.0, "x"}));
  json.set("a", Json::object().set("n", Json()));
  json.set("c", Json::array());
  json.set("d", Json(Json::Array{Json::object()}));
  CHECK(json.to_text() ==
        "{\n  \"b\": [1, 2.0, \"x\"],\n  \"a\": {\n    \"n\": null\n  },\n"
        "  \"c\": [],\n  \"d\": [\n    {}\n  ]\n}\n");
  CHECK(json.to_line() ==
        "{\"b\":[1,2.0,\"x\"],\"a\":{\"n\":null},\"c\":[],\"d\":[{}]}");
  // A name in another encoding is written as UTF-8 all the same.
  CHECK(Json("a\xFF\"\\\n\t\x01\xC3\xA4").to_line() ==
        "\"a\xEF\xBF\xBD\\\"\\\\\\n\\t\\u0001\xC3\xA4\"");
  CHECK_THROWS_AS((void)Json(std::numeric_limits<double>::infinity()).to_text(),
                  Bug);
}

TEST_CASE("random numbers and texts come back as they were") {
  std::mt19937_64 random(11);
  for (int round = 0; round < 2000; ++round) {
    double x = 0;
    const std::uint64_t bits = random();
    std::memcpy(&x, &bits, sizeof x);
    if (!std::isfinite(x)) continue;
    std::string text;
    for (std::uint64_t i = random() % 8; i > 0; --i)
      text += static_cast<char>(random() % 128);
    Json json(Json::Array{x, static_cast<std::int64_t>(random()), text});
    auto again = parse_json(json.to_text(), "f");
    REQUIRE(again);
    // A denormal may be read as such or not; all else is equal bit for bit.
    CHECK(again->to_text() == json.to_text());
  }
}

TEST_CASE("every truncation of a file is rejected with a position") {
  const std::string whole =
      "{\"format\": \"x\", // note\n \"n\": [1, -2.5e3, true, null, "
      "\"\\u00e4\"]}";
  REQUIRE(parse_json(whole, "f").ok());
  for (std::size_t n = 0; n < whole.size(); ++n)
    CHECK(refusal(whole.substr(0, n)).substr(0, 2) == "f:");
}

}  // namespace pipewright
