#include "pipewright/model/setting.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

const char* wanted(SettingType type) {
  switch (type) {
    case SettingType::Flag:
      return "true or false";
    case SettingType::Integer:
      return "an integer";
    case SettingType::Real:
      return "a number";
    case SettingType::Text:
      return "text";
    case SettingType::Pair:
      return "an integer or a pair [height, width]";
  }
  return "a value";
}

Error wrong_type(const SettingRule& rule, const std::string& found) {
  return malformed("\"" + rule.name + "\" must be " + wanted(rule.type) +
                   ", not " + found);
}

// 1073741824, not 1.1e+09.
std::string bound_text(double bound) {
  if (std::floor(bound) == bound && std::abs(bound) < 9e15)
    return std::to_string(static_cast<std::int64_t>(bound));
  return exact_text(bound);
}

Result<void> check_bounds(const SettingRule& rule, double number) {
  if (number >= rule.min && number <= rule.max) return {};
  return malformed("\"" + rule.name + "\" is " + bound_text(number) +
                   "; it must be between " + bound_text(rule.min) + " and " +
                   bound_text(rule.max));
}

Result<Attribute> checked_pair(const SettingRule& rule,
                               const Attribute& value) {
  Shape pair;
  if (const auto* n = std::get_if<std::int64_t>(&value))
    pair = {*n, *n};
  else if (const auto* given = std::get_if<Shape>(&value))
    pair = *given;
  if (pair.size() != 2) return wrong_type(rule, setting_text(value));
  for (std::int64_t extent : pair)
    if (auto fits = check_bounds(rule, static_cast<double>(extent)); !fits)
      return fits.error();
  return Attribute(pair);
}

Result<Attribute> checked_text(const SettingRule& rule,
                               const std::string& value) {
  const auto& choices = rule.choices;
  if (!choices.empty() &&
      std::find(choices.begin(), choices.end(), value) == choices.end())
    return malformed("\"" + rule.name + "\" cannot be \"" + value + "\"", "",
                     "choose one of " + join(choices, ", "));
  return Attribute(value);
}

Result<Attribute> checked_number(const SettingRule& rule,
                                 const Attribute& value) {
  const auto* n = std::get_if<std::int64_t>(&value);
  const auto* x = std::get_if<double>(&value);
  const double number = n ? static_cast<double>(*n) : x ? *x : 0;
  const bool whole = std::floor(number) == number && std::abs(number) < 9e15;
  if ((!n && !x) || (rule.type == SettingType::Integer && !whole))
    return wrong_type(rule, setting_text(value));
  if (auto fits = check_bounds(rule, number); !fits) return fits.error();
  if (rule.type == SettingType::Real) return Attribute(number);
  return Attribute(n ? *n : static_cast<std::int64_t>(number));
}

}  // namespace

Result<Attribute> checked_setting(const SettingRule& rule,
                                  const Attribute& value) {
  switch (rule.type) {
    case SettingType::Flag:
      if (std::holds_alternative<bool>(value)) return value;
      return wrong_type(rule, setting_text(value));
    case SettingType::Text:
      if (const auto* text = std::get_if<std::string>(&value))
        return checked_text(rule, *text);
      return wrong_type(rule, setting_text(value));
    case SettingType::Pair:
      return checked_pair(rule, value);
    default:
      return checked_number(rule, value);
  }
}

Result<Attribute> parse_setting(const SettingRule& rule,
                                std::string_view text) {
  if (rule.type == SettingType::Text)
    return checked_setting(rule, std::string(text));
  if (text == "true" || text == "false")
    return checked_setting(rule, text == "true");
  if (auto n = parse_integer(text)) return checked_setting(rule, *n);
  if (auto x = parse_real(text)) return checked_setting(rule, *x);
  Shape pair;
  for (std::string_view part : split(text, 'x'))
    if (auto n = parse_integer(part)) pair.push_back(*n);
  if (rule.type == SettingType::Pair && pair.size() == 2)
    return checked_setting(rule, pair);
  return wrong_type(rule, "\"" + std::string(text) + "\"");
}

Result<Attributes> completed_settings(std::span<const SettingRule> rules,
                                      const Attributes& given) {
  Attributes complete;
  for (const auto& [name, value] : given) {
    const SettingRule* rule = find_rule(rules, name);
    if (!rule)
      return malformed("unknown setting \"" + name + "\"", "",
                       rules.empty() ? "it has no settings"
                                     : suggestion(name, rule_names(rules)));
    PIPEWRIGHT_TRY(complete[name], checked_setting(*rule, value));
  }
  for (const SettingRule& rule : rules) {
    if (complete.count(rule.name)) continue;
    if (rule.fallback)
      complete[rule.name] = *rule.fallback;
    else if (rule.is_required())
      return malformed("missing setting \"" + rule.name + "\"");
    else  // the rule it refers to comes before it
      complete[rule.name] = complete.at(rule.same_as);
  }
  return complete;
}

Attributes written_settings(std::span<const SettingRule> rules,
                            const Attributes& complete) {
  Attributes written;
  for (const SettingRule& rule : rules) {
    const Attribute& value = complete.at(rule.name);
    const bool is_default =
        rule.fallback
            ? value == *rule.fallback
            : !rule.is_required() && value == complete.at(rule.same_as);
    if (!is_default) written[rule.name] = value;
  }
  return written;
}

const SettingRule* find_rule(std::span<const SettingRule> rules,
                             std::string_view name) {
  for (const SettingRule& rule : rules)
    if (rule.name == name) return &rule;
  return nullptr;
}

std::vector<std::string> rule_names(std::span<const SettingRule> rules) {
  std::vector<std::string> names;
  for (const SettingRule& rule : rules) names.push_back(rule.name);
  return names;
}

std::string setting_text(const Attribute& value) {
  if (const bool* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
  if (const auto* n = std::get_if<std::int64_t>(&value))
    return std::to_string(*n);
  if (const auto* x = std::get_if<double>(&value)) return exact_text(*x);
  if (const auto* s = std::get_if<std::string>(&value)) return *s;
  return to_text(std::get<Shape>(value));
}

}  // namespace pipewright
