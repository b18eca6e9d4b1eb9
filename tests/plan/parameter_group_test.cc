// Parameter groups: their text, their patterns, and which parameter is in
// which.

#include "pipewright/plan/parameter_group.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/plan/optimizer_choice.h"

namespace pipewright {
namespace {

TEST_CASE("a group is read as it was written") {
  const ParameterGroup both{{"*.bias", "norm?.weight"}, 0.001, 0.1};
  CHECK(to_text(both) == "*.bias,norm?.weight:lr=0.001,weight-decay=0.1");
  for (const ParameterGroup& group : {both, ParameterGroup{{"a"}, 1e-7, {}},
                                      ParameterGroup{{"a:b"}, {}, 0.0}})
    CHECK(parse_parameter_group(to_text(group)).value() == group);
  CHECK(parse_parameter_group(" a , b : weight-decay = 0 ").value() ==
        ParameterGroup{{"a", "b"}, {}, 0.0});
}

TEST_CASE("what is no group is refused with the reason") {
  const std::pair<const char*, const char*> cases[] = {
      {"", "no colon"},
      {"*.bias", "no colon"},
      {"*.bias:", "unknown setting \"\""},
      {":lr=1", "a pattern is empty"},
      {"a,,b:lr=1", "a pattern is empty"},
      {"a:lr", "no number after lr="},
      {"a:lr=", "no number after lr="},
      {"a:lr=x", "no number after lr="},
      {"a:lr=-1", "lr is -1"},
      {"a:lr=nan", "no number after lr="},
      {"a:weight-decay=1e7", "weight-decay is 1e+07"},
      {"a:lr=1,lr=2", "duplicate lr"},
      {"a:momentum=1", "unknown setting \"momentum\""}};
  for (const auto& [text, why] : cases) {
    CAPTURE(text);
    const auto group = parse_parameter_group(text);
    REQUIRE(!group.ok());
    CHECK(group.error().code == ErrorCode::BadConfiguration);
    CHECK_MESSAGE(group.error().message.find(why) != std::string::npos,
                  group.error().message);
  }
  OptimizerChoice choice;
  choice.groups = {{{"a"}, {}, {}}};
  CHECK(!memory_of(choice).ok());
}

bool matches_by_definition(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*')
    return matches_by_definition(pattern.substr(1), name) ||
           (!name.empty() && matches_by_definition(pattern, name.substr(1)));
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) &&
         matches_by_definition(pattern.substr(1), name.substr(1));
}

TEST_CASE("patterns match as their definition says") {
  std::mt19937 random(1);
  const auto text = [&random](std::string_view letters) {
    std::string result(random() % 7, ' ');
    for (char& c : result) c = letters[random() % letters.size()];
    return result;
  };
  int matched = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::string pattern = text("ab*?"), name = text("ab");
    CAPTURE(pattern);
    CAPTURE(name);
    const bool expected = matches_by_definition(pattern, name);
    REQUIRE(is_match(pattern, name) == expected);
    matched += expected;
  }
  CHECK(matched > 1000);
}

TEST_CASE("a parameter is in the first group that has a pattern for it") {
  const Model model = load_model("mlp:features=8,hidden=4,classes=3").value();
  const ParameterGroup biases{{"*.bias"}, {}, 0.0}, all{{"*"}, 0.5, {}};
  const auto first = groups_of({biases, all}, model).value();
  int in_first = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const bool is_bias = is_match("*.bias", model.parameters()[i].name);
    CHECK(first[i] == (is_bias ? 0 : 1));
    in_first += is_bias;
  }
  CHECK(in_first > 0);
  const std::vector<int> as_all = groups_of({all, biases}, model).value();
  for (const int group : as_all) CHECK(group == 0);
  const std::vector<int> without = groups_of({}, model).value();
  for (const int group : without) CHECK(group == -1);
  const auto none = groups_of({biases, {{"*.bais"}, {}, 0.0}}, model);
  REQUIRE(!none.ok());
  CHECK(none.error().message.find("matches \"*.bais\"") != std::string::npos);
}

TEST_CASE("a choice says its groups, and their decay counts as memory") {
  OptimizerChoice choice;
  choice.name = "adam";
  CHECK(memory_of(choice).value() == OptimizerMemory{2, 1});
  choice.groups = {{{"*.weight"}, {}, 0.1}};
  CHECK(memory_of(choice).value() == OptimizerMemory{2, 2});
  CHECK(to_text(choice).ends_with(" group=*.weight:weight-decay=0.1"));
  const OptimizerChoice own = choice_of(choice.groups[0], choice);
  CHECK(weight_decay(own) == 0.1);
  CHECK(own.groups.empty());
  CHECK(weight_decay(choice_of({{"a"}, 0.5, {}}, choice)) == 0);
}

}  // namespace
}  // namespace pipewright
