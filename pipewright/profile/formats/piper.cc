// Imports Piper's instances (piper_instance.h), and makes a profile of the
// layers at one tensor-parallel degree.
//
// The source gives forward and backward of a layer as one time. It also gives
// the time with recomputation, which runs forward once more: the difference is
// the forward time.
//
// Weights and memory in the source are those of one device, also at higher
// degrees, and its bandwidth is that "from each device to the outside". Here a
// tensor-parallel group is one device, which has all of that of the group. What
// is sent along an edge is the same at all degrees.

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/import_usage.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright {
namespace {

bool recognises_piper(const SourceFile& file) {
  return contains(file.text, "\"TMPCs\"") ||
         contains(file.text, "\"mbsInBatch\"");
}

std::map<int, double> sync_times(const JsonCursor& object, int num_nodes) {
  std::map<int, double> times;
  for (const auto& [key, value] : object.members()) {
    auto id = parse_integer(key);
    if (!id || *id < 0 || *id > kMaxImportedNodes || num_nodes == 0)
      value.fail("expected the id of a node as key, found \"" + key + "\"");
    else
      times[static_cast<int>(*id)] = value.real(0, kMaxImportedBytes);
  }
  return times;
}

class PiperReader {
 public:
  PiperReader(const Json& json, std::string file)
      : file_(file), errors_(std::move(file)), root_(json, errors_) {}

  Result<PiperInstance> read() {
    instance_.max_devices =
        static_cast<int>(root_.at("maxDevices").integer(1, kMaxImportedNodes));
    instance_.max_memory_bytes = root_.at("maxMemoryPerDevice").real(0, 1e18);
    instance_.bandwidth = root_.at("bandwidth").real(0, 1e18);
    instance_.microbatches =
        static_cast<int>(root_.at("mbsInBatch").integer(1, kMaxImportedNodes));
    read_nodes();
    if (errors_.empty()) read_edges();
    root_.refuse_other_keys();
    if (!errors_.empty()) return errors_.error();
    return ordered();
  }

 private:
  PiperAlternative alternative(JsonCursor& cursor, int num_nodes) {
    PiperAlternative way;
    way.id = cursor.at("id").text();
    way.time_per_sample =
        cursor.at("timePerSample").real(0, kMaxImportedSeconds);
    way.parameter_bytes = cursor.at("parameterSize").real(0, kMaxImportedBytes);
    way.memory_a = cursor.at("memoryUsageA").real(0, kMaxImportedBytes);
    way.memory_b = cursor.at("memoryUsageB").real(0, kMaxImportedBytes);
    way.sync_forward = sync_times(cursor.at("syncTimeFw"), num_nodes);
    way.sync_backward = sync_times(cursor.at("syncTimeBw"), num_nodes);
    cursor.refuse_other_keys();
    return way;
  }

  void read_nodes() {
    auto cursors = root_.at("nodes").elements();
    const int num_nodes = static_cast<int>(cursors.size());
    for (JsonCursor& cursor : cursors) {
      PiperNode node;
      node.id = static_cast<int>(cursor.at("id").integer(0, kMaxImportedNodes));
      node.name = cursor.at("name").text();
      for (const auto& [degree, ways] : cursor.at("TMPCs").members()) {
        auto number = parse_integer(degree);
        if (!number || *number < 1 || *number > kMaxImportedNodes) {
          ways.fail("expected a tensor-parallel degree as key, found \"" +
                    degree + "\"");
          continue;
        }
        auto& list = node.alternatives[static_cast<int>(*number)];
        for (JsonCursor& way : ways.elements())
          list.push_back(alternative(way, num_nodes));
      }
      cursor.refuse_other_keys();
      if (!index_of_.emplace(node.id, instance_.nodes.size()).second)
        cursor.fail("duplicate id " + std::to_string(node.id));
      instance_.nodes.push_back(std::move(node));
    }
    if (instance_.nodes.empty()) root_.fail("the instance has no nodes");
  }

  int end_of(const JsonCursor& id) {
    auto found =
        index_of_.find(static_cast<int>(id.integer(0, kMaxImportedNodes)));
    if (id.exists() && found == index_of_.end()) id.fail("no node has this id");
    return found == index_of_.end() ? 0 : static_cast<int>(found->second);
  }

  void read_edges() {
    for (JsonCursor& cursor : root_.at("edges").elements()) {
      PiperEdge edge;
      edge.source = end_of(cursor.at("sourceId"));
      edge.dest = end_of(cursor.at("destId"));
      edge.bytes = cursor.at("communicationCost").real(0, kMaxImportedBytes);
      cursor.refuse_other_keys();
      instance_.edges.push_back(edge);
    }
  }

  Result<PiperInstance> ordered() {
    std::vector<std::pair<int, int>> pairs;
    for (const PiperEdge& edge : instance_.edges)
      pairs.emplace_back(edge.source, edge.dest);
    const int num_nodes = static_cast<int>(instance_.nodes.size());
    const std::vector<int> order = topological_order(num_nodes, pairs);
    if (order.empty()) {
      const int at = node_on_cycle(num_nodes, pairs);
      return malformed("the edges form a cycle through the node " +
                           std::to_string(instance_.nodes[at].id),
                       file_);
    }
    std::sort(pairs.begin(), pairs.end());
    const auto twice = std::adjacent_find(pairs.begin(), pairs.end());
    if (twice != pairs.end())
      return malformed("duplicate edge from " +
                           std::to_string(instance_.nodes[twice->first].id) +
                           " to " +
                           std::to_string(instance_.nodes[twice->second].id),
                       file_);
    std::vector<int> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i)
      place[order[i]] = static_cast<int>(i);
    return renumbered(order, place);
  }

  Result<PiperInstance> renumbered(const std::vector<int>& order,
                                   const std::vector<int>& place) {
    PiperInstance sorted = instance_;
    sorted.nodes.clear();
    for (int i : order) {
      PiperNode node = instance_.nodes[i];
      for (auto& [degree, ways] : node.alternatives)
        for (PiperAlternative& way : ways)
          for (auto* sync : {&way.sync_forward, &way.sync_backward}) {
            std::map<int, double> by_index;
            for (const auto& [id, time] : *sync) {
              auto found = index_of_.find(id);
              if (found == index_of_.end())
                return malformed("the sync times of " + node.name +
                                     " name the node " + std::to_string(id) +
                                     ", which does not exist",
                                 file_);
              by_index[place[found->second]] = time;
            }
            *sync = std::move(by_index);
          }
      sorted.nodes.push_back(std::move(node));
    }
    for (PiperEdge& edge : sorted.edges) {
      edge.source = place[edge.source];
      edge.dest = place[edge.dest];
    }
    return sorted;
  }

  std::string file_;
  JsonErrors errors_;
  JsonCursor root_;
  PiperInstance instance_;
  std::unordered_map<int, std::size_t> index_of_;
};

// The plain alternative and the one that recomputes.
struct Ways {
  const PiperAlternative* plain = nullptr;
  const PiperAlternative* recomputing = nullptr;
};

Ways ways_at(const PiperNode& node, int degree) {
  Ways ways;
  auto found = node.alternatives.find(degree);
  if (found == node.alternatives.end()) return ways;
  for (const PiperAlternative& way : found->second) {
    if (way.id == "vanilla") ways.plain = &way;
    if (way.id == "activation recomp") ways.recomputing = &way;
  }
  return ways;
}

std::string why_no_profile(const PiperInstance& instance, int degree) {
  for (const PiperNode& node : instance.nodes) {
    Ways ways = ways_at(node, degree);
    if (!ways.plain)
      return "the node " + node.name +
             " has no alternative \"vanilla\" at degree " +
             std::to_string(degree);
    if (!ways.recomputing)
      return "the node " + node.name +
             " has no alternative \"activation recomp\", from which the "
             "forward "
             "time is derived";
    if (ways.recomputing->time_per_sample < ways.plain->time_per_sample ||
        ways.recomputing->time_per_sample > 2 * ways.plain->time_per_sample)
      return "recomputing the node " + node.name +
             " does not take between one and two times its plain time, so its "
             "forward time cannot be derived";
  }
  return "";
}

// An output may have different sizes on two edges: the larger one counts.
std::vector<double> outputs_of(const PiperInstance& instance) {
  std::vector<double> bytes(instance.nodes.size(), 0);
  for (const PiperEdge& edge : instance.edges) {
    double& known = bytes[edge.source];
    known = std::max(known, edge.bytes);
  }
  return bytes;
}

Profile piper_profile(const PiperInstance& instance, const std::string& device,
                      int degree, Seconds unit) {
  Profile profile;
  const std::vector<double> outputs = outputs_of(instance);
  std::vector<std::vector<LayerId>> inputs(instance.nodes.size());
  for (const PiperEdge& edge : instance.edges)
    inputs[edge.dest].push_back(LayerId(edge.source));
  auto& sizes = profile.sizes[1];
  auto& times = profile.times[device][1];
  for (std::size_t i = 0; i < instance.nodes.size(); ++i) {
    const PiperNode& node = instance.nodes[i];
    const Ways ways = ways_at(node, degree);
    ProfileLayer layer;
    layer.name = "node" + std::to_string(node.id);
    layer.kind = node.name;
    layer.inputs = inputs[i];
    std::sort(layer.inputs.begin(), layer.inputs.end());
    layer.keeps_input.assign(layer.inputs.size(), false);
    add_layer(profile, std::move(layer),
              group_bytes(ways.plain->parameter_bytes, degree));
    sizes.push_back({whole_bytes(outputs[i]),
                     group_bytes(ways.plain->memory_a, degree), Bytes(0)});
    const double forward =
        ways.recomputing->time_per_sample - ways.plain->time_per_sample;
    times.push_back(times_of(unit * forward,
                             unit * (ways.plain->time_per_sample - forward),
                             profile.layers.back()));
  }
  profile.origin.split_is_estimated = true;
  return profile;
}

// A layer of GPT-3 (175 billion weights) takes about 0.2 s for a sample on an
// A100: longer times are more likely in another unit.
constexpr Seconds kImplausibleTime{1};

void add_unit_notes(const Profile& profile, const ImportOptions& options,
                    std::vector<std::string>& notes) {
  if (options.time_unit == Seconds(0))
    notes.push_back(
        "assumed: times are in seconds, like the bandwidth; the source does "
        "not say (set it with --time-unit ms)");
  const std::vector<LayerTimes>& times = profile.times.begin()->second.at(1);
  const auto time = [](const LayerTimes& row) {
    return row.forward + row.backward();
  };
  const auto longest = std::max_element(
      times.begin(), times.end(),
      [&](const auto& a, const auto& b) { return time(a) < time(b); });
  if (time(*longest) <= kImplausibleTime) return;
  const auto count = std::count_if(
      times.begin(), times.end(),
      [&](const auto& row) { return time(row) > kImplausibleTime; });
  const std::size_t slowest = longest - times.begin();
  notes.push_back(
      "implausible: more than " + to_text(kImplausibleTime) +
      " per sample in " + std::to_string(count) + " of " +
      counted(std::ssize(times), "layer") + ", most in " +
      profile.layers[slowest].name + ": " + to_text(time(*longest)) +
      "; if the source has milliseconds, as PipeDream's profiles, import it "
      "with --time-unit ms");
}

std::string piper_kind(const ImportOptions& options) {
  return group_kind(options.device.empty() ? "accelerator" : options.device,
                    options.tensor_parallel);
}

// As many groups as the devices make, each with what its devices have.
void add_piper_devices(const ImportOptions& options, Imported& imported) {
  const PiperInstance& instance = *imported.piper;
  const int degree = options.tensor_parallel;
  const int rest = instance.max_devices % degree;
  if (rest > 0)
    imported.notes.push_back("dropped: " + std::to_string(rest) + " of " +
                             counted(instance.max_devices, "device") +
                             ", which are not enough for a group of " +
                             std::to_string(degree));
  if (instance.max_devices < degree) return;
  const double memory = std::min(instance.max_memory_bytes * degree, 1e18);
  const double bandwidth = std::min(instance.bandwidth * degree, 1e18);
  imported.devices = {{piper_kind(options), instance.max_devices / degree,
                       Bytes(static_cast<std::int64_t>(memory)),
                       BytesPerSecond(bandwidth)}};
}

void add_piper_profile(const SourceFile& file, const ImportOptions& options,
                       Imported& imported) {
  const PiperInstance& instance = *imported.piper;
  const int degree = options.tensor_parallel;
  imported.no_profile = why_no_profile(instance, degree);
  if (!imported.no_profile.empty()) return;
  const std::string device = piper_kind(options);
  const Seconds unit =
      options.time_unit > Seconds(0) ? options.time_unit : Seconds(1);
  Profile profile = piper_profile(instance, device, degree, unit);
  auto name = path_parts(file.name, 1);
  profile.model = !options.model.empty() ? options.model
                  : name.empty()         ? file.name
                                 : name[0].substr(0, name[0].rfind('.'));
  profile.origin.source = "piper";
  profile.origin.description = file.name;
  const ProfileTotals totals = totals_of(profile, device, 1);
  imported.totals.forward = totals.forward;
  imported.totals.backward = totals.backward;
  imported.totals.parameters = totals.parameters;
  imported.notes.push_back(
      "derived: forward is the time that recomputation adds, backward is the "
      "rest");
  add_unit_notes(profile, options, imported.notes);
  if (degree > 1) imported.notes.push_back(group_note(device));
  imported.profile = std::move(profile);
}

Result<Imported> read_piper(std::span<const SourceFile> files,
                            const ImportOptions& options) {
  if (files.size() > 1)
    return bad_configuration("more than one Piper instance: " + files[1].name,
                             "import one at a time");
  const SourceFile& file = files.front();
  PIPEWRIGHT_TRY(Json json, parse_json(file.text, file.name));
  Imported imported;
  imported.what = "Piper instance";
  PIPEWRIGHT_TRY(imported.piper, PiperReader(json, file.name).read());
  const PiperInstance& instance = *imported.piper;
  imported.totals.nodes = static_cast<int>(instance.nodes.size());
  imported.totals.edges = static_cast<int>(instance.edges.size());
  add_piper_devices(options, imported);
  add_piper_profile(file, options, imported);
  return imported;
}

std::string piper_usage(const SourceFile& file) {
  return profile_usage(file, "--tensor-parallel N --cluster our-cluster.json");
}

}  // namespace

Importer piper_importer() {
  return {"piper", "Piper's instances with tensor-parallel degrees",
          recognises_piper, read_piper, piper_usage};
}

}  // namespace pipewright
