#include "pipewright/plan/parameter_group.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr double kMaxFigure = 1e6;
constexpr const char* kExample = "for example \"*.bias,*norm*:weight-decay=0\"";

Error bad_group(std::string_view text, const std::string& why) {
  return bad_configuration(
      "parameter group \"" + std::string(text) + "\": " + why, kExample);
}

// Reads "lr=0.1" into the group; says what is wrong with it, or "".
std::string read_setting(std::string_view text, ParameterGroup& group) {
  const std::size_t equals = std::min(text.find('='), text.size());
  const std::string name(trim(text.substr(0, equals)));
  if (name != "lr" && name != "weight-decay")
    return "unknown setting \"" + name + "\"; a group has lr and weight-decay";
  std::optional<double>& figure =
      name == "lr" ? group.rate : group.weight_decay;
  if (figure) return "duplicate " + name;
  if (equals < text.size()) figure = parse_real(trim(text.substr(equals + 1)));
  return figure ? "" : "there is no number after " + name + "=";
}

std::string wrong_figure(const char* name, std::optional<double> figure) {
  if (!figure) return "";
  const bool is_good =
      std::isfinite(*figure) && *figure >= 0 && *figure <= kMaxFigure;
  return is_good ? ""
                 : std::string(name) + " is " + to_text(*figure) +
                       "; it is at least 0 and at most " + to_text(kMaxFigure);
}

// The first pattern that matches no parameter, or null.
const std::string* unmatched(const ParameterGroup& group, const Model& model) {
  for (const std::string& pattern : group.patterns)
    if (std::none_of(model.parameters().begin(), model.parameters().end(),
                     [&pattern](const Parameter& parameter) {
                       return is_match(pattern, parameter.name);
                     }))
      return &pattern;
  return nullptr;
}

Error no_parameter(const std::string& pattern, const Model& model) {
  std::vector<std::string> names;
  for (const Parameter& parameter : model.parameters())
    names.push_back(parameter.name);
  const std::string nearest = nearest_name(pattern, names);
  constexpr std::size_t kMaxNames = 12;
  std::string known = "parameters: ";
  for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i)
    known += (i > 0 ? ", " : "") + names[i];
  if (names.size() > kMaxNames)
    known += " and " + std::to_string(names.size() - kMaxNames) + " more";
  return bad_configuration(
      "no parameter of " + model.name() + " matches \"" + pattern + "\"",
      nearest.empty() ? known : "did you mean \"" + nearest + "\"?");
}

}  // namespace

std::string to_text(const ParameterGroup& group) {
  std::string text = join(group.patterns, ",") + ":";
  if (group.rate) text += "lr=" + exact_text(*group.rate);
  if (group.rate && group.weight_decay) text += ",";
  if (group.weight_decay)
    text += "weight-decay=" + exact_text(*group.weight_decay);
  return text;
}

Result<ParameterGroup> parse_parameter_group(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return bad_group(text, "there is no colon between patterns and settings");
  ParameterGroup group;
  for (const std::string_view pattern : split(text.substr(0, colon), ','))
    group.patterns.emplace_back(trim(pattern));
  for (const std::string_view setting : split(text.substr(colon + 1), ','))
    if (const std::string wrong = read_setting(setting, group); !wrong.empty())
      return bad_group(text, wrong);
  if (auto good = check_group(group); !good) return good.error();
  return group;
}

Result<void> check_group(const ParameterGroup& group) {
  std::string wrong = wrong_figure("lr", group.rate);
  if (wrong.empty()) wrong = wrong_figure("weight-decay", group.weight_decay);
  if (!group.rate && !group.weight_decay) wrong = "it sets nothing";
  const auto& patterns = group.patterns;
  if (patterns.empty() ||
      std::find(patterns.begin(), patterns.end(), "") != patterns.end())
    wrong = "a pattern is empty";
  if (wrong.empty()) return {};
  return bad_group(to_text(group), wrong);
}

bool is_match(std::string_view pattern, std::string_view name) {
  constexpr std::size_t kNone = std::string_view::npos;
  std::size_t p = 0, n = 0;
  std::size_t star = kNone, end = 0;  // the last *, and where its text ends
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      end = n;
    } else if (p < pattern.size() &&
               (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != kNone) {  // it stands for one more character
      p = star + 1;
      n = ++end;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == kNone;
}

Result<std::vector<int>> groups_of(const std::vector<ParameterGroup>& groups,
                                   const Model& model) {
  std::vector<int> result(model.parameters().size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    if (const std::string* pattern = unmatched(groups[g], model))
      return no_parameter(*pattern, model);
    for (std::size_t i = 0; i < result.size(); ++i) {
      const auto matches = [&](const std::string& pattern) {
        return is_match(pattern, model.parameters()[i].name);
      };
      const auto& patterns = groups[g].patterns;
      if (result[i] < 0 &&
          std::any_of(patterns.begin(), patterns.end(), matches))
        result[i] = static_cast<int>(g);
    }
  }
  return result;
}

}  // namespace pipewright
