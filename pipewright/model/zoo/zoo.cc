#include "pipewright/model/zoo/zoo.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/model/zoo/families.h"
#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

std::vector<ZooEntry> all_entries() {
  std::vector<ZooEntry> entries;
  for (const auto& family : {
           mlp_family,
           lenet_family,
           alexnet_family,
           vgg_family,
           resnet_family,
           squeezenet_family,
           densenet_family,
           inception_family,
           gnmt_family,
           transformer_family,
           bert_family,
           gpt_family,
       })
    for (ZooEntry& entry : family()) {
      entry.settings.push_back(
          {.name = "type",
           .type = SettingType::Text,
           .fallback = std::string("float32"),
           .choices = {"float32", "float16", "bfloat16", "float64"}});
      entry.settings.push_back({.name = "split",
                                .type = SettingType::Text,
                                .fallback = std::string()});
      entries.push_back(std::move(entry));
    }
  return entries;
}

std::vector<std::string> entry_names() {
  std::vector<std::string> names;
  for (const ZooEntry& entry : zoo()) names.push_back(entry.name);
  return names;
}

// "vgg" means one of vgg11, vgg13, ...; otherwise the nearest name.
std::string name_hint(std::string_view name) {
  std::vector<std::string> longer;
  for (const std::string& known : entry_names())
    if (!name.empty() && known.compare(0, name.size(), name) == 0)
      longer.push_back(known);
  if (!longer.empty()) return "did you mean " + join(longer, ", ") + "?";
  return suggestion(name, entry_names(), "`pipewright models` shows details");
}

Error of_entry(const ZooEntry& entry, const Error& error) {
  return bad_configuration(entry.name + ": " + error.message, error.hint);
}

// "layers=12,hidden=768" after the colon.
Result<Attributes> parse_settings(const ZooEntry& entry,
                                  std::string_view text) {
  Attributes given;
  for (std::string_view part : split(text, ',')) {
    const std::size_t equals = part.find('=');
    if (equals == std::string_view::npos)
      return bad_configuration(
          "expected a setting key=value, found \"" + std::string(part) + "\"",
          "for example gpt:layers=12,hidden=768");
    const std::string name(trim(part.substr(0, equals)));
    const SettingRule* rule = find_rule(entry.settings, name);
    if (!rule)
      return bad_configuration(entry.name + " has no setting \"" + name + "\"",
                               suggestion(name, rule_names(entry.settings)));
    if (given.count(name))
      return bad_configuration("duplicate setting \"" + name + "\"");
    auto value = parse_setting(*rule, trim(part.substr(equals + 1)));
    if (!value) return of_entry(entry, value.error());
    given[name] = *value;
  }
  return given;
}

std::string canonical_name(const ZooEntry& entry, const Attributes& settings) {
  std::string text = entry.name;
  char separator = ':';
  const Attributes written = written_settings(entry.settings, settings);
  for (const SettingRule& rule : entry.settings) {
    auto found = written.find(rule.name);
    if (found == written.end()) continue;
    text += separator + rule.name + "=" + setting_text(found->second);
    separator = ',';
  }
  return text;
}

}  // namespace

const std::vector<ZooEntry>& zoo() {
  static const std::vector<ZooEntry> entries = all_entries();
  return entries;
}

const ZooEntry* find_zoo_entry(std::string_view name) {
  for (const ZooEntry& entry : zoo())
    if (entry.name == name) return &entry;
  return nullptr;
}

std::string with_splits(std::string text,
                        const std::vector<LayerSplit>& splits) {
  if (splits.empty()) return text;
  for (const char* setting : {":split=", ",split="})
    if (const std::size_t found = text.find(setting);
        found != std::string::npos) {
      const std::size_t end = std::min(text.find(',', found + 1), text.size());
      return text.insert(end, "+" + to_text(splits));
    }
  const std::size_t colon = text.find(':');
  const bool has_settings =
      colon != std::string::npos && find_zoo_entry(text.substr(0, colon));
  return text + (has_settings ? "," : ":") + "split=" + to_text(splits);
}

Result<Model> zoo_model(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const ZooEntry* entry = find_zoo_entry(name);
  if (!entry)
    return bad_configuration("unknown model \"" + std::string(name) + "\"",
                             name_hint(name));
  Attributes given;
  if (colon != std::string_view::npos) {
    PIPEWRIGHT_TRY(given, parse_settings(*entry, text.substr(colon + 1)));
  }
  auto settings = completed_settings(entry->settings, given);
  if (!settings) return of_entry(*entry, settings.error());
  Sketch sketch(canonical_name(*entry, *settings),
                *parse_number_type(pipewright::text(*settings, "type")));
  entry->draw(sketch, *settings);
  auto model = std::move(sketch).build();
  if (!model) return of_entry(*entry, model.error());
  const auto splits = parse_splits(pipewright::text(*settings, "split"));
  if (!splits) return of_entry(*entry, splits.error());
  model = with_splits(*model, *splits);
  if (!model) return of_entry(*entry, model.error());
  return model;
}

}  // namespace pipewright
