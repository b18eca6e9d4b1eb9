// Imports Galvatron's profiles: one layer for everything before the transformer
// layers, the transformer layers (as many as --blocks or a model configuration
// says), and one layer for everything after them.
//
// Only forward was measured; backward is taken as twice forward, as in the
// source's cost model, and the profile says so. The time of embedding and head
// is one number: the last layer gets it. Their weights are a quarter of the
// model states (weight, gradient, two moments).

#include <algorithm>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/galvatron_files.h"
#include "pipewright/profile/formats/import_usage.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright {
namespace {

enum class GalvatronPart {
  None,
  Times,
  Memory,
  Network,
  Plan,
  Model
};

GalvatronPart galvatron_part_of(const SourceFile& file) {
  const std::string first = opening(file.text, 60);
  if (contains(file.text, "\"pp_division\"")) return GalvatronPart::Plan;
  if (contains(file.text, "_act_peak\"") ||
      contains(file.text, "\"tp_activation_per_bsz_dict\""))
    return GalvatronPart::Memory;
  if (contains(file.text, "\"layernum[") || contains(file.text, "\"layertype_"))
    return GalvatronPart::Times;
  for (const char* key : {"{\"allreduce_size_", "{\"all2all_size_",
                          "{\"pp_size_", "{\"overlap_coe\""})
    if (first.rfind(key, 0) == 0) return GalvatronPart::Network;
  if (contains(file.text, "\"n_positions\"") ||
      contains(file.text, "\"window_size\""))
    return GalvatronPart::Model;
  return GalvatronPart::None;
}

bool recognises_galvatron(const SourceFile& file) {
  return galvatron_part_of(file) != GalvatronPart::None;
}

struct Parts {
  GalvatronTimes times;
  GalvatronMemory memory;
  std::vector<std::string> names;  // of the files with times or memory
  bool has_times = false;
  int layers = 0;
};

using At = GalvatronTimes::At;

// Per sample. "layertype_0" alone is for the one batch size that was measured.
Result<void> fill_layer_times(GalvatronTimes& times, const std::string& file) {
  if (!times.layer_ms.empty()) return {};
  if (!times.layer_ms_only)
    return malformed("missing key \"layertype_0\"", file);
  std::set<At> measured;
  for (const auto& [layers, totals] : times.whole_ms)
    for (const auto& [at, ms] : totals) measured.insert(at);
  if (measured.size() != 1)
    return malformed(
        "layertype_0 has no batch size, and layernum[N]_bszN gives " +
            std::to_string(measured.size()) + " of them instead of one",
        file);
  times.layer_ms[*measured.begin()] = *times.layer_ms_only;
  return {};
}

// The time outside the layers: given, or the rest of the smallest model.
double other_ms(const GalvatronTimes& times, At at) {
  if (auto given = times.other_ms.find(at); given != times.other_ms.end())
    return std::max(0.0, given->second);
  for (const auto& [layers, totals] : times.whole_ms)
    if (auto whole = totals.find(at); whole != totals.end() && at.first > 0)
      return std::max(
          0.0, whole->second / at.first - layers * times.layer_ms.at(at));
  return 0;
}

Result<int> chosen_sequence(const GalvatronTimes& times, int wanted) {
  std::set<int> lengths;
  for (const auto& [at, ms] : times.layer_ms) lengths.insert(at.second);
  if (lengths.size() == 1 && (wanted == 0 || *lengths.begin() == 0))
    return *lengths.begin();
  if (lengths.count(wanted)) return wanted;
  std::vector<std::string> known;
  for (int length : lengths) known.push_back(std::to_string(length));
  return bad_configuration(
      "the times are for several sequence lengths",
      "choose one with --sequence N: " + join(known, ", "));
}

class GalvatronProfile {
 public:
  GalvatronProfile(const Parts& parts, const ImportOptions& options,
                   Imported& imported)
      : parts_(parts), options_(options), imported_(imported) {}

  Result<void> make() {
    PIPEWRIGHT_TRY(const int sequence,
                   chosen_sequence(parts_.times, options_.sequence));
    add_layers();
    for (const auto& [at, ms] : parts_.times.layer_ms)
      if (at.second == sequence) add_tables(at, ms);
    if (profile_.sizes.empty())
      return malformed("no layer time is positive", names_of(parts_.names));
    describe();
    const ProfileTotals totals =
        totals_of(profile_, kind(), profile_.sizes.begin()->first);
    imported_.totals = {profile_.num_layers(), totals.edges, totals.forward,
                        totals.backward, totals.parameters};
    imported_.profile = std::move(profile_);
    return {};
  }

 private:
  std::string kind() const {
    return options_.device.empty() ? "accelerator" : options_.device;
  }

  int blocks() const {
    if (options_.blocks > 0) return options_.blocks;
    return std::max(1, parts_.layers);
  }

  static Bytes of_mb(double mb) { return whole_bytes(mb * kMebibyte); }

  void add_layers() {
    const GalvatronMemory& memory = parts_.memory;
    add_to_chain(profile_, "first", "before the layers",
                 of_mb(memory.first_states_mb / 4));
    for (int i = 0; i < blocks(); ++i)
      add_to_chain(profile_, "layer" + std::to_string(i), "transformer layer",
                   of_mb(memory.parameters_mb));
    add_to_chain(profile_, "last", "after the layers",
                 of_mb(memory.last_states_mb / 4));
  }

  void add_tables(At at, double layer_ms) {
    const int batch = at.first;
    if (batch < 1 || !(layer_ms > 0)) {
      imported_.notes.push_back("skipped: batch size " + std::to_string(batch) +
                                ", whose layer time of " +
                                exact_text(layer_ms) + " ms is not positive");
      return;
    }
    const GalvatronMemory& memory = parts_.memory;
    auto& times = profile_.times[kind()][batch];
    auto& sizes = profile_.sizes[batch];
    auto row = [&](double ms, double kept_mb, double output_mb) {
      const std::size_t i = times.size();
      const Seconds forward(ms * batch * 1e-3);
      times.push_back(times_of(forward, 2.0 * forward, profile_.layers[i]));
      sizes.push_back({of_mb(output_mb * batch), of_mb(kept_mb * batch), {}});
    };
    row(0, memory.first_kept_mb, memory.input_mb);
    for (int i = 0; i < blocks(); ++i)
      row(layer_ms, memory.kept_mb, memory.input_mb);
    row(other_ms(parts_.times, at), memory.last_kept_mb, 0);
  }

  void describe() {
    profile_.model = options_.model.empty() ? "galvatron" : options_.model;
    profile_.origin.source = "galvatron";
    profile_.origin.description = names_of(parts_.names);
    profile_.origin.split_is_estimated = true;
    profile_.origin.keeps_is_estimated = !parts_.memory.is_given;
    auto& notes = imported_.notes;
    notes.push_back(
        "assumed: backward takes twice as long as forward, as in the source's "
        "cost model; only forward was measured");
    notes.push_back(
        "assumed: the last layer takes all of the time that the source gives "
        "for embedding and head together");
    if (parts_.memory.is_given)
      notes.push_back(
          "derived: a layer's output is what is kept when it is recomputed; "
          "weights before and after the layers are a quarter of their model "
          "states");
    else
      notes.push_back(
          "missing: bytes; memory_profiling_*.json has them under layertype_0");
    if (options_.blocks == 0 && parts_.layers == 0)
      notes.push_back(
          "assumed: one transformer layer (set the number with --blocks N, or "
          "import the model's configuration file too)");
    if (options_.device.empty())
      notes.push_back(
          "assumed: a device of kind \"accelerator\"; the source does not say "
          "(set it with --device KIND)");
  }

  const Parts& parts_;
  const ImportOptions& options_;
  Imported& imported_;
  Profile profile_;
};

// Hosts and GPUs are only in the name: p2p_bandwidth_2nodes_8gpus_per_node.
void add_machines(const std::string& path, BandwidthTable& table) {
  const auto parts = path_parts(path, 1);
  const std::string name = parts.empty() ? path : parts[0];
  for (const char* form : {"allreduce_bandwidth_#nodes_#gpus_per_node.json",
                           "p2p_bandwidth_#nodes_#gpus_per_node.json",
                           "sp_time_#nodes_#gpus_per_node.json"}) {
    auto numbers = numbers_in(name, form);
    if (!numbers) continue;
    const std::string machines =
        std::to_string((*numbers)[0]) + "x" + std::to_string((*numbers)[1]);
    for (std::string* end : {&table.from, &table.to})
      *end = end->empty() ? machines : machines + " " + *end;
  }
}

Result<void> take_galvatron_file(const SourceFile& file, Parts& parts,
                                 Imported& imported) {
  switch (galvatron_part_of(file)) {
    case GalvatronPart::None:
    case GalvatronPart::Times: {
      if (parts.has_times)
        return bad_configuration(
            "more than one file has layer times: " + file.name,
            "import one at a time");
      PIPEWRIGHT_TRY(parts.times, parse_galvatron_times(file.text, file.name));
      parts.has_times = true;
      parts.names.push_back(file.name);
      return fill_layer_times(parts.times, file.name);
    }
    case GalvatronPart::Memory: {
      PIPEWRIGHT_TRY(parts.memory,
                     parse_galvatron_memory(file.text, file.name));
      parts.names.push_back(file.name);
      return {};
    }
    case GalvatronPart::Network: {
      PIPEWRIGHT_TRY(GalvatronNetwork network,
                     parse_galvatron_network(file.text, file.name));
      for (BandwidthTable& table : network.tables) {
        add_machines(file.name, table);
        imported.bandwidths.push_back(std::move(table));
      }
      if (network.overlap)
        imported.notes.push_back("measured: compute during a transfer takes " +
                                 exact_text(*network.overlap) +
                                 " times as long; not used");
      return {};
    }
    case GalvatronPart::Plan: {
      PIPEWRIGHT_TRY(PublishedPlan plan,
                     parse_galvatron_plan(file.text, file.name));
      if (!plan.unread.empty())
        imported.notes.push_back("not read: " + join(plan.unread, ", ") +
                                 " of " + file.name);
      imported.plans.push_back(std::move(plan));
      return {};
    }
    case GalvatronPart::Model: {
      PIPEWRIGHT_TRY(parts.layers,
                     parse_galvatron_layers(file.text, file.name));
      return {};
    }
  }
  return {};
}

std::string what_galvatron_is(const Imported& imported, const Parts& parts) {
  std::vector<std::string> list;
  if (parts.has_times) list.push_back("layer times");
  if (parts.names.size() > (parts.has_times ? 1u : 0u))
    list.push_back("layer sizes");
  if (parts.layers > 0) list.push_back("model configuration");
  if (!imported.bandwidths.empty()) list.push_back("network rates");
  if (!imported.plans.empty()) list.push_back("plans");
  return list.empty() ? "overlap coefficient" : join(list, ", ");
}

Result<Imported> read_galvatron(std::span<const SourceFile> files,
                                const ImportOptions& options) {
  if (options.tensor_parallel > 1)
    return bad_configuration(
        "Galvatron measures layer times only at tensor-parallel degree 1");
  if (options.blocks > kMaxLayers - 2)
    return bad_configuration("--blocks must be at most " +
                             std::to_string(kMaxLayers - 2));
  Imported imported;
  Parts parts;
  for (const SourceFile& file : files) {
    Result<void> done = take_galvatron_file(file, parts, imported);
    if (!done) return done.error();
  }
  if (parts.has_times) {
    Result<void> done = GalvatronProfile(parts, options, imported).make();
    if (!done) return done.error();
  } else {
    imported.no_profile = "no file has layer times";
  }
  imported.what = what_galvatron_is(imported, parts);
  return imported;
}

bool is_tensor_parallel(const SourceFile& file) {
  const auto plan = parse_galvatron_plan(file.text, file.name);
  if (!plan) return false;
  for (const PublishedStage& stage : plan->stages)
    for (const int degree : stage.tensor_parallel)
      if (degree != 1) return true;
  return false;
}

std::string galvatron_usage(const SourceFile& file) {
  const std::string model = "--blocks N --sequence N --device KIND";
  switch (galvatron_part_of(file)) {
    case GalvatronPart::Plan:
      if (is_tensor_parallel(file))
        return printed_usage(file,
                             "it is tensor parallel, for which Galvatron has "
                             "no layer times");
      return plan_usage(
          file, "COMPUTATION_PROFILING.json MEMORY_PROFILING.json " + model +
                    " --on CLUSTER");
    case GalvatronPart::Memory:
      return profile_usage(file, "COMPUTATION_PROFILING.json " + model);
    case GalvatronPart::Network:
      return printed_usage(file, "no plan can be made of network rates");
    case GalvatronPart::Model:
      return profile_usage(file,
                           "COMPUTATION_PROFILING.json MEMORY_PROFILING.json "
                           "--sequence N --device KIND");
    case GalvatronPart::None:
    case GalvatronPart::Times:
      break;
  }
  return profile_usage(file, "MEMORY_PROFILING.json " + model);
}

}  // namespace

Importer galvatron_importer() {
  return {"galvatron",
          "Galvatron's layer times and memory, all-reduce and point-to-point "
          "rates, plans and model configurations",
          recognises_galvatron, read_galvatron, galvatron_usage};
}

}  // namespace pipewright
