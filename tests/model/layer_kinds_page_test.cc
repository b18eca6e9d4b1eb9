// docs/reference/formats/layer-kinds.md has a row for every kind of layer, with
// the inputs and attributes that its rule has.

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "pipewright/model/kinds.h"

namespace pipewright {
namespace {

// "1", "1 to 3", "2 or more".
std::string count_text(const KindRule& rule) {
  const std::string least = std::to_string(rule.min_inputs);
  if (rule.max_inputs == rule.min_inputs) return least;
  if (rule.max_inputs > 100) return least + " or more";
  return least + " to " + std::to_string(rule.max_inputs);
}

std::string inputs_text(const KindRule& rule) {
  std::string types;
  for (const InputType type : rule.inputs)
    types += (types.empty() ? "" : ", ") +
             std::string(type == InputType::Index ? "index" : "floating");
  return count_text(rule) + ": " + types;
}

std::string fallback_text(const SettingRule& rule) {
  if (!rule.same_as.empty()) return "=" + rule.same_as;
  if (!rule.fallback) return "";
  const std::string text = setting_text(*rule.fallback);
  return "=" + (text.empty() ? "\"\"" : text);
}

std::string attribute_text(const SettingRule& rule) {
  std::string text = "`" + rule.name + fallback_text(rule) + "`";
  for (std::size_t c = 0; c < rule.choices.size(); ++c)
    text += (c == 0 ? " (" : ", ") + rule.choices[c] +
            (c + 1 == rule.choices.size() ? ")" : "");
  return text;
}

// What the table's row of a kind begins with. Attributes of parts of split
// layers are in model.md.
std::string row_of(const KindRule& rule) {
  std::string attributes;
  for (const SettingRule& each : rule.attributes)
    if (each.name != "part_of" && each.name != "first_output")
      attributes += (attributes.empty() ? "" : ", ") + attribute_text(each);
  return "| `" + rule.name + "` | " + inputs_text(rule) + " | " + attributes +
         (attributes.empty() ? "|" : " |");
}

TEST_CASE("the page of layer kinds has every kind with its attributes") {
  std::ifstream file(PIPEWRIGHT_SOURCE_DIR
                     "/docs/reference/formats/layer-kinds.md");
  std::stringstream page;
  page << file.rdbuf();
  for (const KindRule& rule : kind_rules()) {
    if (rule.kind == LayerKind::Exported) continue;  // not in model files
    if (rule.kind > LayerKind::Exported) continue;   // added by another test
    INFO("missing: ", row_of(rule));
    CHECK(page.str().find("\n" + row_of(rule)) != std::string::npos);
  }
}

}  // namespace
}  // namespace pipewright
