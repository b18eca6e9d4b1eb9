// The plan file: "pipewright/plan", version 2.
//
//   {"format": "pipewright/plan", "version": 2, "model": "mlp",
//    "planner": "uniform", "method": "sync", "minibatch": 64, "microbatch": 8,
//    "replication": "split", "optimizer_words": 1, "number_type": "float32",
//    "devices": [0, 1, 2], "device_kinds": ["V100", "V100", "T4"],
//    "stages": [{"layers": "0-3", "workers": [0]},
//               {"layers": "4-5", "workers": [1, 2], "samples": [6, 2]},
//               {"layers": "6-7", "workers": [1, 2], "samples": [6, 2],
//                "bucket": true}],
//    "schedule_name": "1f1b", "schedule": ["schedule v1 stages=2 ...", ...]}
//
// Layers are runs "first-last" or single numbers, separated by commas.
// Version 1 has no "samples" and no "bucket".

#include <algorithm>
#include <map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/layer.h"
#include "pipewright/plan/plan.h"

namespace pipewright {
namespace {

constexpr int kVersion = 2, kOldestVersion = 1;
constexpr int kMaxLayersNamed = 1 << 20;

// Older programs read what they know.
int version_of(const Plan& plan) {
  for (const Stage& stage : plan.stages)
    if (stage.bucket || !stage.samples.empty()) return kVersion;
  return kOldestVersion;
}

std::string layers_text(const std::vector<LayerId>& layers) {
  std::vector<std::string> runs;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t j = i;
    while (j + 1 < layers.size() && layers[j + 1].value == layers[j].value + 1)
      ++j;
    std::string run = std::to_string(layers[i].value);
    if (j > i) run += "-" + std::to_string(layers[j].value);
    runs.push_back(run);
    i = j + 1;
  }
  return join(runs, ",");
}

// `left` is how many more layers the plan may name: a short text can name very
// many.
std::vector<LayerId> read_layers(const JsonCursor& cursor, std::int64_t& left) {
  std::vector<LayerId> layers;
  const std::string text = cursor.text();
  if (text.empty()) return layers;
  for (std::string_view run : split(text, ',')) {
    const std::size_t dash = run.find('-');
    const auto first = parse_integer(run.substr(0, dash));
    const auto last = dash == std::string_view::npos
                          ? first
                          : parse_integer(run.substr(dash + 1));
    if (!first || !last || *first < 0 || *last < *first ||
        *last >= kMaxLayersNamed) {
      cursor.fail("\"" + std::string(run) + "\" is not a range of layers",
                  "write it like \"0-12,15\"");
      return layers;
    }
    left -= *last - *first + 1;
    if (left < 0) {
      cursor.fail("the stages name more than " +
                  std::to_string(kMaxLayersNamed) + " layers");
      return layers;
    }
    for (std::int64_t l = *first; l <= *last; ++l)
      layers.push_back(LayerId(static_cast<std::int32_t>(l)));
  }
  if (std::adjacent_find(layers.begin(), layers.end(),
                         std::greater_equal<>()) != layers.end())
    cursor.fail("layers are not ascending");
  return layers;
}

Stage read_stage(JsonCursor cursor, std::int64_t& left) {
  Stage stage;
  stage.forward = read_layers(cursor.at("layers"), left);
  JsonCursor backward = cursor.find("backward_layers");
  stage.backward =
      backward.exists() ? read_layers(backward, left) : stage.forward;
  for (const JsonCursor& worker : cursor.at("workers").elements())
    stage.workers.push_back(
        WorkerId(static_cast<std::int32_t>(worker.integer(0, 1 << 20))));
  JsonCursor recompute = cursor.find("recompute");
  stage.recompute = recompute.exists() && recompute.boolean();
  JsonCursor continues = cursor.find("continues_segment");
  stage.continues = continues.exists() && continues.boolean();
  if (JsonCursor samples = cursor.find("samples"); samples.exists())
    for (const JsonCursor& count : samples.elements())
      stage.samples.push_back(static_cast<int>(count.integer(1, 1 << 30)));
  JsonCursor bucket = cursor.find("bucket");
  stage.bucket = bucket.exists() && bucket.boolean();
  cursor.refuse_other_keys();
  return stage;
}

void read_schedule(const JsonCursor& cursor, Plan& plan,
                   const std::string& file) {
  if (cursor.json() && !cursor.json()->if_array()) {
    cursor.elements();  // says that it is no list
    return;
  }
  std::string text;
  for (const JsonCursor& line : cursor.elements()) text += line.text() + "\n";
  if (!cursor.exists()) return;
  Result<Schedule> schedule = Schedule::parse(text, file + ": schedule");
  if (schedule)
    plan.schedule = *std::move(schedule);
  else
    cursor.fail(schedule.error().to_text());
}

// One kind per device, or the key is left out.
void read_device_kinds(JsonCursor cursor, Plan& plan) {
  if (!cursor.exists()) return;
  for (const JsonCursor& kind : cursor.elements())
    plan.device_kinds.push_back(kind.text());
  if (plan.device_kinds.size() != plan.devices.size())
    cursor.fail(std::to_string(plan.device_kinds.size()) + " kinds for " +
                    std::to_string(plan.devices.size()) + " devices",
                "name one kind per device");
}

// A device computes one action at a time and has its memory once.
void refuse_shared_devices(const JsonCursor& cursor, const Plan& plan) {
  std::map<DeviceId, std::size_t> worker_on;
  std::size_t worker = 0;
  for (const JsonCursor& at : cursor.elements()) {
    const DeviceId device = plan.devices[worker];
    const auto [first, is_new] = worker_on.emplace(device, worker);
    if (!is_new)
      at.fail("workers " + std::to_string(first->second) + " and " +
                  std::to_string(worker) + " are both on device " +
                  std::to_string(device.value),
              "give each worker a device of its own; a worker can hold several "
              "stages");
    ++worker;
  }
}

void read_number_type(const JsonCursor& cursor, Plan& plan) {
  if (!cursor.exists()) return;
  plan.number_type = cursor.text();
  const auto type = parse_number_type(plan.number_type);
  if (cursor.is_text() && (!type || !is_floating(*type)))
    cursor.fail(
        "weights cannot be of type \"" + shortened(plan.number_type, 60) + "\"",
        "known: float64, float32, float16, bfloat16");
}

void require_plan_format(JsonCursor& root) {
  JsonCursor version = root.find("version");
  const bool is_old = version.exists() && version.is_number() &&
                      version.integer() == kOldestVersion;
  root.require_format("pipewright/plan", is_old ? kOldestVersion : kVersion);
}

void read_settings(JsonCursor& root, Plan& plan) {
  plan.model = root.at("model").text();
  plan.planner = root.at("planner").text();
  JsonCursor method = root.at("method");
  if (auto known = parse_method(method.text()))
    plan.method = *known;
  else if (method.is_text()) {
    std::vector<std::string> names;
    for (Method m : kMethods) names.push_back(to_text(m));
    method.fail("unknown method", suggestion(method.text(), names));
  }
  plan.minibatch = static_cast<int>(root.at("minibatch").integer(1, 1 << 30));
  plan.microbatch = static_cast<int>(root.at("microbatch").integer(1, 1 << 30));
  JsonCursor replication = root.find("replication");
  if (replication.exists() && replication.text() == "rotate")
    plan.replication = Replication::Rotate;
  else if (replication.exists() && replication.text() != "split")
    replication.fail("expected \"split\" or \"rotate\"");
  JsonCursor words = root.find("optimizer_words");
  if (words.exists())
    plan.optimizer_words = static_cast<int>(words.integer(0, 16));
  read_number_type(root.find("number_type"), plan);
  JsonCursor name = root.find("schedule_name");
  if (name.exists()) plan.schedule_name = name.text();
}

}  // namespace

Result<Plan> parse_plan(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(const Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  require_plan_format(root);
  Plan plan;
  read_settings(root, plan);
  JsonCursor devices = root.at("devices");
  for (const JsonCursor& device : devices.elements())
    plan.devices.push_back(
        DeviceId(static_cast<std::int32_t>(device.integer(0, 1 << 20))));
  read_device_kinds(root.find("device_kinds"), plan);
  std::int64_t left = kMaxLayersNamed;
  for (const JsonCursor& stage : root.at("stages").elements())
    plan.stages.push_back(read_stage(stage, left));
  read_schedule(root.at("schedule"), plan, file);
  root.refuse_other_keys();
  if (errors.empty()) refuse_shared_devices(devices, plan);
  if (!errors.empty()) return errors.error();
  auto fine = check_plan(plan);
  if (fine) return plan;
  Error error = fine.error();
  error.where = file + ": " + error.where;
  return error;
}

Json to_json(const Plan& plan) {
  Json json = Json::object();
  json.set("format", "pipewright/plan").set("version", version_of(plan));
  json.set("model", plan.model).set("planner", plan.planner);
  json.set("method", to_text(plan.method));
  json.set("minibatch", plan.minibatch).set("microbatch", plan.microbatch);
  json.set("replication",
           plan.replication == Replication::Split ? "split" : "rotate");
  json.set("optimizer_words", plan.optimizer_words);
  if (!plan.number_type.empty()) json.set("number_type", plan.number_type);
  Json devices = Json::array();
  for (DeviceId device : plan.devices) devices.push(device.value);
  json.set("devices", std::move(devices));
  if (!plan.device_kinds.empty()) {
    Json kinds = Json::array();
    for (const std::string& kind : plan.device_kinds) kinds.push(kind);
    json.set("device_kinds", std::move(kinds));
  }
  Json stages = Json::array();
  for (const Stage& stage : plan.stages) {
    Json item = Json::object();
    item.set("layers", layers_text(stage.forward));
    if (stage.backward != stage.forward)
      item.set("backward_layers", layers_text(stage.backward));
    Json workers = Json::array();
    for (WorkerId worker : stage.workers) workers.push(worker.value);
    item.set("workers", std::move(workers));
    if (stage.recompute) item.set("recompute", true);
    if (stage.continues) item.set("continues_segment", true);
    if (!stage.samples.empty()) {
      Json samples = Json::array();
      for (int count : stage.samples) samples.push(count);
      item.set("samples", std::move(samples));
    }
    if (stage.bucket) item.set("bucket", true);
    stages.push(std::move(item));
  }
  json.set("stages", std::move(stages));
  json.set("schedule_name", plan.schedule_name);
  Json lines = Json::array();
  const std::string text = plan.schedule.to_text();
  for (std::string_view line : split(trim(text), '\n')) lines.push(line);
  json.set("schedule", std::move(lines));
  return json;
}

}  // namespace pipewright
