#include "pipewright/cluster/presets.h"

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/cluster/this_machine.h"

namespace pipewright {
namespace {

constexpr double kMaxRate = 1e24;
constexpr double kMaxLatency = 1e6;  // seconds

std::map<std::string, FlopsPerSecond> read_rates(const JsonCursor& at) {
  std::map<std::string, FlopsPerSecond> rates;
  for (const auto& [type, rate] : at.members())
    rates[type] = FlopsPerSecond(rate.real(0, kMaxRate));
  return rates;
}

Json to_json(const std::map<std::string, FlopsPerSecond>& rates) {
  Json json = Json::object();
  for (const auto& [type, rate] : rates) json.set(type, rate.value());
  return json;
}

// Reads the keys of a kind; the caller rejects other keys.
DeviceKind read_kind_keys(JsonCursor& at) {
  DeviceKind kind;
  kind.name = at.at("name").text();
  if (JsonCursor peak = at.find("peak"); peak.exists())
    kind.peak = read_rates(peak);
  JsonCursor achievable = at.find("achievable");
  kind.achievable = achievable.exists() ? read_rates(achievable) : kind.peak;
  kind.memory = read_memory(at.at("memory"));
  if (JsonCursor bandwidth = at.find("memory_bandwidth"); bandwidth.exists())
    kind.memory_bandwidth = read_bandwidth(bandwidth);
  else if (!kind.peak.empty())
    at.at("memory_bandwidth");
  if (JsonCursor on_chip = at.find("on_chip_memory"); on_chip.exists())
    kind.on_chip_memory = read_memory(on_chip);
  JsonCursor execution = at.find("execution");
  const std::string word = execution.exists() ? execution.text() : "sync";
  if (word == "async")
    kind.execution = ExecutionClass::Async;
  else if (word != "sync")
    execution.fail("expected \"sync\" or \"async\", found \"" + word + "\"");
  if (JsonCursor overlaps = at.find("overlaps_communication");
      overlaps.exists())
    kind.overlaps_communication = overlaps.boolean();
  if (JsonCursor splits = at.find("splits_layers"); splits.exists())
    kind.splits_layers = splits.boolean();
  if (JsonCursor source = at.find("source"); source.exists())
    kind.source = source.text();
  return kind;
}

KindPreset read_kind_preset(JsonCursor at) {
  KindPreset preset;
  if (JsonCursor here = at.find("this_machine"); here.exists()) {
    preset.is_this_machine = here.boolean();
    preset.kind.name = at.at("name").text();
  } else {
    preset.kind = read_kind_keys(at);
  }
  preset.default_link = at.at("default_link").text();
  if (JsonCursor aliases = at.find("link_aliases"); aliases.exists())
    for (const auto& [alias, name] : aliases.members())
      preset.link_aliases[alias] = name.text();
  at.refuse_other_keys();
  return preset;
}

LinkPreset read_link_preset(JsonCursor at) {
  LinkPreset preset;
  preset.name = at.at("name").text();
  preset.link.bandwidth = read_bandwidth(at.at("bandwidth"));
  preset.link.latency = read_latency(at.at("latency"));
  preset.link.duplex = read_duplex(at.find("duplex"));
  preset.source = at.at("source").text();
  at.refuse_other_keys();
  return preset;
}

struct Presets {
  std::vector<KindPreset> kinds;
  std::vector<LinkPreset> links;
};

Presets read_presets() {
  const Json json = parse_json(kPresetsText, "presets").value();
  JsonErrors errors("presets");
  JsonCursor root(json, errors);
  Presets presets;
  for (const JsonCursor& kind : root.at("kinds").elements())
    presets.kinds.push_back(read_kind_preset(kind));
  for (const JsonCursor& link : root.at("links").elements())
    presets.links.push_back(read_link_preset(link));
  PIPEWRIGHT_CHECK(errors.empty(), errors.error().to_text());
  return presets;
}

const Presets& presets() {
  static const Presets kPresets = read_presets();
  return kPresets;
}

}  // namespace

const std::vector<KindPreset>& kind_presets() { return presets().kinds; }
const std::vector<LinkPreset>& link_presets() { return presets().links; }

Result<KindPreset> find_kind(std::string_view name, int num_devices) {
  std::vector<std::string> known;
  for (const KindPreset& preset : kind_presets()) {
    known.push_back(preset.kind.name);
    if (lower_case(preset.kind.name) != lower_case(name)) continue;
    KindPreset found = preset;
    if (preset.is_this_machine) found.kind = this_machine_core(num_devices);
    return found;
  }
  return bad_configuration(
      "unknown device kind \"" + std::string(name) + "\"",
      suggestion(name, known, "a cluster file can define other kinds"));
}

DeviceKind read_kind(JsonCursor at) {
  DeviceKind kind = read_kind_keys(at);
  at.refuse_other_keys();
  return kind;
}

Json to_json(const DeviceKind& kind) {
  Json json = Json::object();
  json.set("name", kind.name);
  if (!kind.peak.empty() || !kind.achievable.empty()) {
    json.set("peak", to_json(kind.peak));
    json.set("achievable", to_json(kind.achievable));
  }
  json.set("memory", kind.memory.value());
  if (kind.memory_bandwidth.value() > 0)
    json.set("memory_bandwidth", kind.memory_bandwidth.value());
  json.set("on_chip_memory", kind.on_chip_memory.value());
  const bool is_async = kind.execution == ExecutionClass::Async;
  json.set("execution", is_async ? "async" : "sync");
  json.set("overlaps_communication", kind.overlaps_communication);
  json.set("splits_layers", kind.splits_layers).set("source", kind.source);
  return json;
}

Duplex read_duplex(const JsonCursor& at) {
  if (!at.exists()) return Duplex::Full;
  const std::string word = at.text();
  if (at.is_text() && word != "full" && word != "half")
    at.fail("expected \"full\" or \"half\", found \"" + word + "\"");
  return word == "half" ? Duplex::Half : Duplex::Full;
}

const char* to_text(Duplex duplex) {
  return duplex == Duplex::Full ? "full" : "half";
}

BytesPerSecond read_bandwidth(const JsonCursor& at) {
  BytesPerSecond bandwidth(1);
  if (at.is_text()) {
    if (auto parsed = parse_bandwidth(at.text()))
      bandwidth = *parsed;
    else
      at.fail("expected a bandwidth, found \"" + at.text() + "\"",
              "for example \"12.5GB/s\", \"100Gb/s\", or a number of bytes per "
              "second");
  } else if (at.exists()) {
    bandwidth = BytesPerSecond(at.real(0, kMaxRate));
  }
  if (bandwidth.value() <= 0) at.fail("the bandwidth must be positive");
  return bandwidth;
}

Seconds read_latency(const JsonCursor& at) {
  if (!at.is_text()) return Seconds(at.real(0, kMaxLatency));
  if (auto parsed = parse_duration(at.text())) return *parsed;
  at.fail("expected a duration, found \"" + at.text() + "\"",
          "for example \"5us\", \"1ms\", or a number of seconds");
  return Seconds(0);
}

Bytes read_memory(const JsonCursor& at) {
  if (!at.is_text()) return Bytes(at.integer(0, std::int64_t{1} << 53));
  if (auto parsed = parse_bytes(at.text())) return *parsed;
  at.fail("expected a size, found \"" + at.text() + "\"",
          "for example \"16GB\", \"32MiB\", or a number of bytes");
  return Bytes(0);
}

}  // namespace pipewright
