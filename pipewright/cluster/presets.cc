#include "pipewright/cluster/presets.h"

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/cluster/this_machine.h"
#include "pipewright/cluster/this_machine_gpu.h"

namespace pipewright {
namespace {

constexpr double kMaxRate = 1e24;
constexpr double kMaxLatency = 1e6;  // seconds
constexpr double kMaxShare = 100;

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

// true: all of it; false: nothing; or a share.
double read_overlap(const JsonCursor& at) {
  if (at.is_number()) return at.real(0, 1);
  return at.boolean() ? 1 : 0;
}

// What a profile of layers does not have.
void read_overheads(JsonCursor& at, DeviceKind& kind) {
  if (JsonCursor base = at.find("base_memory"); base.exists())
    kind.base_memory = read_memory(base);
  if (JsonCursor share = at.find("fragmentation"); share.exists())
    kind.fragmentation = share.real(0, kMaxShare);
  if (JsonCursor share = at.find("layer_overhead"); share.exists())
    kind.layer_overhead = share.real(0, kMaxShare);
  if (JsonCursor gradients = at.find("gradient_overhead"); gradients.exists())
    kind.gradient_overhead = read_latency(gradients);
  if (JsonCursor action = at.find("action_overhead"); action.exists())
    kind.action_overhead = read_latency(action);
  if (JsonCursor step = at.find("step_overhead"); step.exists())
    kind.step_overhead = read_latency(step);
}

void set_overheads(const DeviceKind& kind, Json& json) {
  if (kind.base_memory > Bytes(0))
    json.set("base_memory", kind.base_memory.value());
  if (kind.fragmentation > 0) json.set("fragmentation", kind.fragmentation);
  if (kind.layer_overhead > 0) json.set("layer_overhead", kind.layer_overhead);
  if (kind.gradient_overhead > Seconds(0))
    json.set("gradient_overhead", kind.gradient_overhead.value());
  if (kind.action_overhead > Seconds(0))
    json.set("action_overhead", kind.action_overhead.value());
  if (kind.step_overhead > Seconds(0))
    json.set("step_overhead", kind.step_overhead.value());
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
    kind.overlap = read_overlap(overlaps);
  read_overheads(at, kind);
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
  if (gpu_share(name) > 0) {
    PIPEWRIGHT_TRY(GpuKind gpu, this_machine_gpu(name, num_devices));
    return KindPreset{std::move(gpu.kind),
                      true,
                      std::move(gpu.default_link),
                      {{"pcie", "pcie4"}, {"nvlink", "nvlink4"}}};
  }
  std::vector<std::string> known;
  for (const KindPreset& preset : kind_presets()) {
    known.push_back(preset.kind.name);
    if (lower_case(preset.kind.name) != lower_case(name)) continue;
    KindPreset found = preset;
    if (preset.is_this_machine) found.kind = this_machine_core(num_devices);
    return found;
  }
  for (const char* gpu : {"cuda", "cuda/N", "cuda-stream"})
    known.push_back(gpu);  // of this machine
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
  if (!kind.peak.empty() || kind.memory_bandwidth.value() > 0) {
    json.set("peak", to_json(kind.peak));
    json.set("achievable", to_json(kind.achievable));
  }
  json.set("memory", kind.memory.value());
  if (kind.memory_bandwidth.value() > 0)
    json.set("memory_bandwidth", kind.memory_bandwidth.value());
  json.set("on_chip_memory", kind.on_chip_memory.value());
  const bool is_async = kind.execution == ExecutionClass::Async;
  json.set("execution", is_async ? "async" : "sync");
  const bool is_whole = kind.overlap == 0 || kind.overlap == 1;
  json.set("overlaps_communication",
           is_whole ? Json(kind.overlap == 1) : Json(kind.overlap));
  set_overheads(kind, json);
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

MessageRates read_message_rates(const JsonCursor& at) {
  MessageRates rates;
  if (!at.exists()) return rates;
  for (const JsonCursor& row : at.elements()) {
    const auto pair = row.elements();
    if (pair.size() != 2) {
      row.fail("expected [bytes, bandwidth]");
      return {};
    }
    rates.push_back({read_memory(pair[0]), read_bandwidth(pair[1])});
    if (rates.size() > 1 && rates.back().message <= rates.end()[-2].message)
      row.fail("sizes are not ascending");
  }
  if (rates.empty()) at.fail("expected at least one [bytes, bandwidth]");
  return rates;
}

Json to_json(const MessageRates& rates) {
  Json json = Json::array();
  for (const MessageRate& rate : rates) {
    Json pair = Json::array();
    pair.push(rate.message.value());
    pair.push(rate.rate.value());
    json.push(std::move(pair));
  }
  return json;
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
