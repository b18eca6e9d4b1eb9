// A named setting with type, default and bounds. The attributes of a kind of
// layer and the settings of a zoo model are lists of these.
//
//   {.name = "kernel", .type = SettingType::Pair, .min = 1}

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/layer.h"

namespace pipewright {

enum class SettingType : std::uint8_t {
  Flag,
  Integer,
  Real,
  Text,
  Pair,  // one number for both, or [height, width]
};

struct SettingRule {
  std::string name = {};
  SettingType type = SettingType::Integer;
  // Without either of these two, the setting must be given.
  std::optional<Attribute> fallback = {};
  std::string same_as = {};  // the value of another setting
  // Bounds of a number, or of each number of a pair.
  double min = 0;
  double max = 1 << 30;
  std::vector<std::string> choices = {};  // of a text

  bool is_required() const { return !fallback && same_as.empty(); }
};

// The value in the type of the rule (3 becomes {3, 3} for a pair, 3.0 for a
// real). Fails with MalformedInput, naming the setting.
Result<Attribute> checked_setting(const SettingRule& rule,
                                  const Attribute& value);

// Parses "12", "0.1", "true", "3x5", or a choice.
Result<Attribute> parse_setting(const SettingRule& rule, std::string_view text);

// The given settings, checked, and the defaults of the others. Fails with
// MalformedInput for an unknown name, a wrong value or a missing setting.
Result<Attributes> completed_settings(std::span<const SettingRule> rules,
                                      const Attributes& given);

// The settings that differ from their default.
Attributes written_settings(std::span<const SettingRule> rules,
                            const Attributes& complete);

const SettingRule* find_rule(std::span<const SettingRule> rules,
                             std::string_view name);
std::vector<std::string> rule_names(std::span<const SettingRule> rules);

std::string setting_text(const Attribute& value);  // as parse_setting reads it

}  // namespace pipewright
