// Profile files with errors: line, key path, and all errors at once.

#include <doctest/doctest.h>

#include <random>

#include "pipewright/profile/profile.h"

using namespace pipewright;

namespace {

const std::string kSample = R"({
  "format": "pipewright/profile", "version": 1,
  "model": "two",
  "origin": {"source": "measured", "split_is_estimated": true},
  "parameters": [{"name": "w", "bytes": 400}],
  "layers": [
    {"name": "a", "kind": "linear", "inputs": [], "parameters": ["w"]},
    {"name": "b", "kind": "relu", "inputs": ["a"], "keeps_input": [true]}
  ],
  "sizes": [{"microbatch": 4, "output_bytes": [16, 16]}],
  "times": [
    {"device": "cpu", "microbatch": 4, "forward_seconds": [1, 0.5],
     "backward_seconds": [2, 0.5]}
  ]
})";

std::string sample_with(std::string_view from, std::string_view to) {
  std::string text = kSample;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// The error's whole text must hold each of these.
void check_refused(const std::string& text,
                   const std::vector<std::string>& parts) {
  const auto refused = parse_profile(text, "p.json");
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::MalformedInput);
  const std::string message = refused.error().to_text();
  for (const std::string& part : parts) {
    CAPTURE(message);
    CHECK(message.find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a short file as a person would write it is read") {
  const auto profile = parse_profile(kSample, "p.json");
  REQUIRE(profile);
  CHECK(profile->num_layers() == 2);
  CHECK(profile->times.at("cpu").at(4)[0].backward_weight == Seconds(2));
  CHECK(profile->times.at("cpu").at(4)[1].backward_input == Seconds(0.5));
  CHECK(profile->layers[0].parameters == std::vector{ParameterId(0)});
}

TEST_CASE("errors name the line and the key path, and give a hint") {
  check_refused("", {"p.json"});
  check_refused("[]", {"expected an object"});
  check_refused(sample_with("pipewright/profile", "pipewright/plan"),
                {"p.json:2", "format"});
  check_refused(sample_with("\"version\": 1", "\"version\": 2"), {"version 2"});
  check_refused(
      sample_with("\"inputs\": [\"a\"]", "\"inputs\": [\"b\"]"),
      {"p.json:8", "layers[1].inputs[0]", "no layer \"b\" is defined before"});
  check_refused(sample_with("[\"w\"]", "[\"v\"]"), {"no parameter \"v\""});
  check_refused(sample_with("\"name\": \"b\"", "\"name\": \"a\""),
                {"duplicate name \"a\""});
  check_refused(sample_with("[16, 16]", "[16]"), {"1 numbers for 2 layers"});
  check_refused(sample_with("[16, 16]", "[16, -1]"),
                {"sizes[0].output_bytes[1]", "-1 is not between"});
  check_refused(sample_with("[16, 16]", "[16, 99999999999999999]"),
                {"is not between"});
  check_refused(sample_with("[true]", "[true, false]"), {"2 entries for 1"});
  check_refused(sample_with("\"kind\": \"relu\"", "\"kinds\": \"relu\""),
                {"missing key \"kind\"", "found \"kinds\""});
  check_refused(sample_with(", \"split_is_estimated\": true", ""),
                {"set origin.split_is_estimated"});
  check_refused(sample_with("\"microbatch\": 4, \"forward", "\"forward"),
                {"missing key \"microbatch\""});
  check_refused(sample_with("\"sizes\": [",
                            "\"sizes\": [{\"microbatch\": 4, "
                            "\"output_bytes\": [1, 1]}, "),
                {"duplicate microbatch size 4"});
}

TEST_CASE("all errors of a file are reported at once") {
  std::string text = sample_with("[16, 16]", "[16, \"x\"]");
  text.replace(text.find("[1, 0.5]"), 8, "[1, -5]");
  text.replace(text.find("\"bytes\""), 7, "\"byte\"");
  const auto refused = parse_profile(text, "p.json");
  REQUIRE(!refused);
  CHECK(refused.error().others.size() == 3);  // missing and unknown key, too
}

TEST_CASE("truncated and mutated files are rejected or read") {
  for (std::size_t length = 0; length + 1 < kSample.size(); ++length)
    CHECK(!parse_profile(kSample.substr(0, length), "p.json"));
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 10000; ++round) {
    std::string text = kSample;
    for (int i = 0; i < 1 + round % 4; ++i)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto profile = parse_profile(text, "p.json");
    if (profile)
      REQUIRE(profile->check(""));
    else
      ++refused;
  }
  CHECK(refused > 5000);
}
