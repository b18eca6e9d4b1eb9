#include "pipewright/profile/formats/sailor_files.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/profile/formats/assembly.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMaxBytes = static_cast<std::int64_t>(kMaxImportedBytes);

SailorLayerSizes layer_sizes(JsonCursor cursor) {
  SailorLayerSizes sizes;
  sizes.parameters = cursor.at("params_bytes").integer(0, kMaxBytes);
  sizes.output = cursor.at("act_output_bytes").integer(0, kMaxBytes);
  sizes.input = cursor.at("act_input_bytes").integer(0, kMaxBytes);
  sizes.memory = cursor.at("act_mem_bytes").integer(0, kMaxBytes);
  for (const char* floats : {"params_floats", "act_output_floats",
                             "act_input_floats", "act_mem_floats"})
    cursor.find(floats);  // the same in another unit
  cursor.refuse_other_keys();
  return sizes;
}

// A curve's name is the path of keys that lead to it:
//   KIND, GPUS | inter or intra, KIND, GPUS | ZONE, KIND, GPUS, twice
void name_table(const std::vector<std::string>& keys, const JsonCursor& at,
                BandwidthTable& table) {
  auto devices = [&](const std::string& key) { return count_key(key, at); };
  if (keys.size() == 2) {
    table.operation = "intra-node";
    table.from = table.to = keys[0];
    table.devices = devices(keys[1]);
  } else if (keys.size() == 3) {
    table.operation = keys[0] + "-node";
    table.from = table.to = keys[1];
    table.devices = devices(keys[2]);
  } else if (keys.size() == 6) {
    table.operation = "inter-zone";
    table.from =
        keys[0] + "/" + std::to_string(devices(keys[2])) + "x" + keys[1];
    table.to = keys[3] + "/" + std::to_string(devices(keys[5])) + "x" + keys[4];
  } else {
    at.fail("expected a curve under 2, 3 or 6 keys, found it under " +
            std::to_string(keys.size()));
  }
}

class SailorNetworkReader {
 public:
  std::vector<BandwidthTable> tables;

  void walk(const JsonCursor& cursor) {
    if (cursor.json() && cursor.json()->if_array()) {
      leaf(cursor);
      return;
    }
    for (const auto& [key, member] : cursor.members()) {
      keys_.push_back(key);
      walk(member);
      keys_.pop_back();
    }
  }

 private:
  void leaf(const JsonCursor& cursor) {
    const auto parts = cursor.elements();
    const auto coefficients =
        parts.empty() ? std::vector<JsonCursor>{} : parts[0].elements();
    if (parts.size() != 2 || coefficients.size() != 3) {
      cursor.fail("expected [[c2, c1, c0], peak]");
      return;
    }
    BandwidthTable table;
    BandwidthFit fit;
    for (std::size_t i = 0; i < 3; ++i)
      fit.c[i] = coefficients[i].real(-1e9, 1e9);
    fit.peak = BytesPerSecond(parts[1].real(1, 1e18));
    table.fit = fit;
    name_table(keys_, cursor, table);
    tables.push_back(std::move(table));
  }

  std::vector<std::string> keys_;
};

// [[[KIND, COUNT, ZONE], ...], TP]
void add_replica(const JsonCursor& cursor, PublishedStage& stage) {
  const auto parts = cursor.elements();
  if (parts.size() != 2) {
    cursor.fail("expected [[[kind, count, zone], ...], degree]");
    return;
  }
  std::vector<std::string> kinds;  // each once
  std::string zone;
  std::int64_t gpus = 0;
  for (const JsonCursor& group : parts[0].elements()) {
    const auto fields = group.elements();
    if (fields.size() != 3) {
      group.fail("expected [kind, count, zone]");
      return;
    }
    const std::string kind = fields[0].text();
    if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end())
      kinds.push_back(kind);
    gpus += fields[1].integer(1, kMaxImportedCount);
    zone = fields[2].text();
  }
  stage.devices.push_back(join(kinds, "+"));
  stage.zones.push_back(zone);
  stage.gpus.push_back(
      static_cast<int>(std::min<std::int64_t>(gpus, kMaxImportedCount)));
  stage.tensor_parallel.push_back(
      static_cast<int>(parts[1].integer(1, kMaxImportedCount)));
}

void read_pipeline(JsonCursor pipeline, PublishedPlan& plan) {
  const std::size_t num_stages =
      pipeline.at("num_stages").integer(1, kMaxImportedCount);
  const auto layers = pipeline.at("layers_per_stage").elements();
  const auto replicas = pipeline.at("tmp_per_stage").elements();
  const auto counts = pipeline.at("dp").elements();
  pipeline.refuse_other_keys();
  if (layers.size() != num_stages || replicas.size() != num_stages ||
      counts.size() != num_stages) {
    pipeline.fail("expected " + std::to_string(num_stages) +
                  " stages in layers_per_stage, tmp_per_stage and dp");
    return;
  }
  for (std::size_t i = 0; i < num_stages; ++i) {
    PublishedStage stage;
    for (const JsonCursor& layer : layers[i].elements())
      stage.layers.push_back(
          static_cast<int>(layer.integer(0, kMaxImportedCount)));
    for (const JsonCursor& replica : replicas[i].elements())
      add_replica(replica, stage);
    stage.replicas = static_cast<int>(counts[i].integer(1, kMaxImportedCount));
    if (std::ssize(stage.devices) != stage.replicas)
      replicas[i].fail("expected " + std::to_string(stage.replicas) +
                       " replicas, as in dp, found " +
                       std::to_string(stage.devices.size()));
    plan.stages.push_back(std::move(stage));
  }
}

// A group has as many GPUs as share its layers.
void note_other_counts(PublishedPlan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PublishedStage& stage = plan.stages[s];
    for (std::size_t r = 0; r < stage.gpus.size(); ++r)
      if (stage.gpus[r] != stage.tensor_parallel[r]) {
        plan.notes.push_back(
            "assumed: a group of stage " + std::to_string(s) + " has " +
            counted(stage.tensor_parallel[r], "GPU") +
            ", its tensor-parallel degree, and not the " +
            std::to_string(stage.gpus[r]) + " that " + plan.source + " counts");
        break;
      }
  }
}

// Microbatches per replica, if all stages have the same number of replicas.
int microbatches_of(const PublishedPlan& plan) {
  if (plan.stages.empty()) return 0;
  const std::int64_t replicas = plan.stages.front().replicas;
  for (const PublishedStage& stage : plan.stages)
    if (stage.replicas != replicas) return 0;
  const std::int64_t samples = replicas * plan.microbatch;
  if (samples == 0 || plan.minibatch % samples != 0) return 0;
  return static_cast<int>(plan.minibatch / samples);
}

// The driver's count less PyTorch's, as Sailor's authors measured and wrote it
// into their simulator (sailor/Planner/simulations/simulator.py,
// "megatron_mem"): 4.76 GB of loaded kernels and 0.3 GB on the GH200 machines,
// elsewhere 2 GB, or 3 GB in tensor-parallel groups.
Bytes runtime_memory(const std::string& kind, int degree) {
  if (kind == "GH-96") return Bytes(5'060'000'000);
  return Bytes(degree == 1 ? 2'000'000'000 : 3'000'000'000);
}

// Adding a microbatch's gradients to those before, or copying them into the
// flat buffer of the sum: small kernels for each tensor, as many for each
// microbatch. From the runs without replicas, where "red_grads" sums nothing:
// 8.2 and 8.0 ms for 26 layers, 4.1 ms for the 12 and 14 of two stages.
constexpr Seconds kGradientOverhead{0.31e-3};

void set_base_memory(PublishedPlan& plan) {
  for (const PublishedStage& stage : plan.stages)
    for (std::size_t r = 0; r < stage.devices.size(); ++r) {
      const int degree = stage.tensor_parallel[r];
      plan.base_memory[group_kind(stage.devices[r], degree)] =
          runtime_memory(stage.devices[r], degree);
    }
}

// A plan may come with more that was measured.
std::vector<std::string> keys_beside(const JsonCursor& object,
                                     const std::set<std::string>& known) {
  std::vector<std::string> others;
  for (const auto& [key, value] : object.members())
    if (!known.count(key)) others.push_back("\"" + shortened(key, 60) + "\"");
  return others;
}

// What was not measured is missing, null, or something else than a number, such
// as "OOM", which the plan then lists.
std::optional<double> measurement(JsonCursor& root, const char* key,
                                  double most, PublishedPlan& plan) {
  const JsonCursor value = root.find(key);
  if (!value.exists() || value.json()->is_null()) return std::nullopt;
  if (value.is_number()) return value.real(0, most);
  plan.not_measured.push_back(std::string(key) + " is " +
                              shortened(value.json()->to_line(), 60));
  return std::nullopt;
}

void read_measurements(JsonCursor& root, PublishedPlan& plan) {
  if (const auto step = measurement(root, "real", kMaxImportedSeconds, plan))
    plan.measured_step = Seconds(*step);
  if (const auto reduce =
          measurement(root, "red_grads", kMaxImportedSeconds, plan))
    plan.measured_reduce = Seconds(*reduce);
  if (const auto memory = measurement(root, "max_mem", kMaxImportedBytes, plan))
    plan.measured_memory = whole_bytes(*memory);
}

// The nodes, N, are used where they are a number.
void read_hosts(JsonCursor& root, PublishedPlan& plan) {
  const JsonCursor value = root.find("N");
  if (!value.exists() || value.json()->is_null()) return;
  const double number = value.is_number() ? value.real(-1e300, 1e300) : 0;
  if (number >= 1 && number <= kMaxImportedCount &&
      number == std::floor(number))
    plan.hosts = static_cast<int>(number);
  else
    plan.unread.push_back("\"N\"");
}

// Python writes NaN, Infinity and -Infinity, which JSON does not have. Here
// they become text.
std::string with_quoted_nans(std::string_view text) {
  std::string quoted;
  bool is_in_text = false;
  while (!text.empty()) {
    std::size_t length = 1;
    for (std::string_view word : {"NaN", "Infinity", "-Infinity"})
      if (!is_in_text && text.starts_with(word)) length = word.size();
    if (is_in_text && text.front() == '\\') length = 2;
    if (text.front() == '"') is_in_text = !is_in_text;
    const std::string_view next = text.substr(0, length);
    const bool is_word = !is_in_text && length > 1;
    quoted += is_word ? "\"" + std::string(next) + "\"" : std::string(next);
    text.remove_prefix(next.size());
  }
  return quoted;
}

}  // namespace

std::vector<JsonCursor> numbered_members(const JsonCursor& object) {
  auto members = object.members();
  std::vector<const JsonCursor*> found(members.size(), nullptr);
  for (const auto& [key, value] : members) {
    auto number = parse_integer(key);
    if (!number || *number < 0 ||
        *number >= static_cast<std::int64_t>(members.size()) ||
        found[*number]) {
      value.fail("expected layers 0 to " + std::to_string(members.size() - 1) +
                 ", each once, found \"" + key + "\"");
      return {};
    }
    found[*number] = &value;
  }
  std::vector<JsonCursor> ordered;
  for (const JsonCursor* value : found) ordered.push_back(*value);
  return ordered;
}

int count_key(const std::string& key, const JsonCursor& value) {
  auto number = parse_integer(key);
  if (number && *number >= 1 && *number <= kMaxImportedCount)
    return static_cast<int>(*number);
  value.fail("expected a number from 1 to " +
             std::to_string(kMaxImportedCount) + " as key, found \"" + key +
             "\"");
  return 0;
}

Result<SailorSizes> parse_sailor_sizes(std::string_view text,
                                       const std::string& file) {
  return read_json(text, file, [&](JsonCursor& root) {
    SailorSizes sizes;
    for (const auto& [model, degrees] : root.members())
      for (const auto& [degree, layers] : degrees.members()) {
        auto& list = sizes[model][count_key(degree, layers)];
        for (const JsonCursor& layer : numbered_members(layers))
          list.push_back(layer_sizes(layer));
      }
    return sizes;
  });
}

Result<std::vector<BandwidthTable>> parse_sailor_network(
    std::string_view text, const std::string& file) {
  Result<std::vector<BandwidthTable>> tables =
      read_json(text, file, [](JsonCursor& root) {
        SailorNetworkReader reader;
        reader.walk(root);
        return reader.tables;
      });
  if (tables && tables->empty())
    return malformed("the file has no curve [[c2, c1, c0], peak]", file);
  return tables;
}

Result<std::vector<ImportedDevices>> parse_sailor_machines(
    std::string_view text, const std::string& file) {
  return read_json(text, file, [&](JsonCursor& root) {
    std::vector<ImportedDevices> devices;
    for (auto& [kind, cursor] : root.members()) {
      if (kind == "zone") continue;
      JsonCursor machine = cursor;
      ImportedDevices found;
      found.kind = kind;
      found.count = static_cast<int>(
          machine.at("gpus_per_node").integer(1, kMaxImportedCount));
      found.memory = Bytes(machine.at("mem_per_gpu").integer(1, kMaxBytes));
      machine.refuse_other_keys();
      devices.push_back(std::move(found));
    }
    return devices;
  });
}

Result<PublishedPlan> parse_sailor_plan(std::string_view text,
                                        const std::string& file) {
  return read_json(with_quoted_nans(text), file, [&](JsonCursor& root) {
    PublishedPlan plan;
    plan.source = file;
    JsonCursor pipelines = root.at("pipeline_list");
    const auto list = pipelines.elements();
    if (pipelines.exists() && list.size() != 1)
      pipelines.fail("expected one pipeline, found " +
                     std::to_string(list.size()));
    for (const JsonCursor& pipeline : list) read_pipeline(pipeline, plan);
    plan.microbatch =
        static_cast<int>(root.at("mbs").integer(1, kMaxImportedCount));
    plan.minibatch =
        static_cast<int>(root.at("gbs").integer(1, kMaxImportedCount));
    plan.microbatches = microbatches_of(plan);
    plan.blocks = true;  // DeepSpeed's pipeline engine sends and waits
    // Adam's moments, and the flat copy in which DeepSpeed sums gradients.
    plan.optimizer_words = 3;
    set_base_memory(plan);
    note_other_counts(plan);
    plan.gradient_overhead = kGradientOverhead;
    read_measurements(root, plan);
    plan.unread = keys_beside(root, {"pipeline_list", "mbs", "gbs", "real",
                                     "red_grads", "max_mem", "zone", "N"});
    read_hosts(root, plan);
    return plan;
  });
}

}  // namespace pipewright
