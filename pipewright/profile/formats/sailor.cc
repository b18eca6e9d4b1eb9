// Imports Sailor's layer times as a profile, with sizes if llm_info.json is
// imported too; and its network curves, machines and measured plans.
//
// The model and the kind of GPU are only in the path, MODEL/KIND/profile.json.
// A group of tensor-parallel GPUs is one device of kind KIND-tpN, with the
// weights, activations, memory and links of the group. Imported with a plan,
// the degrees are the plan's. llm_info gives the bytes kept for backward,
// output included, as one number for one GPU. What a backward needs beside that
// while it computes is in no file: each value that a layer keeps has a gradient
// of its size, so as much is counted as workspace.

#include <algorithm>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/import_usage.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/formats/sailor_files.h"
#include "pipewright/profile/formats/sailor_times.h"
#include "pipewright/profile/lowered_times.h"

namespace pipewright {
namespace {

enum class SailorPart {
  None,
  Times,
  Sizes,
  Network,
  Machines,
  Plan
};

// {"1":{"2":{"0":[ : three levels of numbers above an array.
bool opens_like_times(const std::string& first) {
  std::size_t at = 0;
  for (int level = 0; level < 3; ++level) {
    if (first.compare(at, 2, "{\"") != 0) return false;
    const std::size_t digits = at + 2;
    at = first.find_first_not_of("0123456789", digits);
    if (at == std::string::npos || at == digits) return false;
    if (first.compare(at, 2, "\":") != 0) return false;
    at += 2;
  }
  return first.compare(at, 1, "[") == 0;
}

SailorPart sailor_part_of(const SourceFile& file) {
  if (contains(file.text, "\"pipeline_list\"")) return SailorPart::Plan;
  if (contains(file.text, "\"act_output_bytes\"")) return SailorPart::Sizes;
  if (contains(file.text, "\"gpus_per_node\"")) return SailorPart::Machines;
  const std::string first = opening(file.text);
  if (opens_like_times(first)) return SailorPart::Times;
  const std::size_t leaf = first.find("\":[[");
  if (leaf != std::string::npos && leaf + 4 < first.size() &&
      std::string_view("-0123456789").find(first[leaf + 4]) !=
          std::string_view::npos)
    return SailorPart::Network;
  return SailorPart::None;
}

bool recognises_sailor(const SourceFile& file) {
  return sailor_part_of(file) != SailorPart::None;
}

// What the degrees of tensor parallelism are: those of a plan, or one for all.
class SailorDegrees {
 public:
  // `plan` may be null.
  SailorDegrees(const PublishedPlan* plan, int without_plan)
      : plan_(plan), without_plan_(without_plan) {}

  bool are_of_plan() const { return plan_ != nullptr; }

  // Of the plan's GPUs; none without a plan.
  std::set<std::string> kinds() const {
    std::set<std::string> kinds;
    if (plan_)
      for (const PublishedStage& stage : plan_->stages)
        kinds.insert(stage.devices.begin(), stage.devices.end());
    return kinds;
  }

  std::set<int> of_kind(const std::string& kind) const {
    if (!plan_) return {without_plan_};
    std::set<int> degrees;
    for (const PublishedStage& stage : plan_->stages)
      for (std::size_t r = 0; r < stage.devices.size(); ++r)
        if (stage.devices[r] == kind) degrees.insert(stage.tensor_parallel[r]);
    return degrees;
  }

  // Several where replicas of its stage differ.
  std::set<int> of_layer(std::size_t layer) const {
    if (!plan_) return {without_plan_};
    for (const PublishedStage& stage : plan_->stages)
      if (std::find(stage.layers.begin(), stage.layers.end(),
                    static_cast<int>(layer)) != stage.layers.end() &&
          !stage.tensor_parallel.empty())
        return {stage.tensor_parallel.begin(), stage.tensor_parallel.end()};
    return {without_plan_};
  }

 private:
  const PublishedPlan* plan_;
  int without_plan_;
};

class SailorProfile {
 public:
  SailorProfile(const ImportOptions& options, Imported& imported)
      : options_(options),
        imported_(imported),
        degrees_(nullptr, options.tensor_parallel) {}

  // Imported together with its plan, a profile is for that plan's devices.
  void take_plan(const PublishedPlan& plan) {
    degrees_ = SailorDegrees(&plan, options_.tensor_parallel);
  }

  void take_sizes(SailorSizes sizes, const std::string& file) {
    sizes_file_ = file;
    for (auto& [model, degrees] : sizes) sizes_[model] = std::move(degrees);
  }

  Result<void> take_times(const SourceFile& file) {
    auto parts = path_parts(file.name, 3);
    const bool has_path = parts.size() == 3 && parts[2] == "profile.json";
    const std::string kind = !options_.device.empty() ? options_.device
                             : has_path               ? parts[1]
                                                      : "accelerator";
    const std::string model = !options_.model.empty() ? options_.model
                              : has_path              ? parts[0]
                                                      : "";
    if (!names_.empty() && model != profile_.model)
      return bad_configuration(
          file.name + " is for a different model than " + names_.front(),
          "import the files of one model at a time");
    profile_.model = model;
    const std::set<int> degrees = degrees_.of_kind(kind);
    if (degrees.empty()) {
      imported_.notes.push_back("not used by the plan: " + file.name);
      unused_.push_back(file.name + " is of " + kind);
    }
    for (const int degree : degrees)
      if (Result<void> taken = take_degree(file, kind, degree); !taken)
        return taken;
    return {};
  }

  bool has_times() const { return !names_.empty(); }

  // Why there are no times.
  std::string no_times() const {
    if (unused_.empty()) return "no file has layer times";
    const std::set<std::string> kinds = degrees_.kinds();
    const std::string wanted =
        join(std::vector<std::string>(kinds.begin(), kinds.end()), " and ");
    return "its GPUs are " + wanted + ", but " + join(unused_, ", ") +
           "; a file's kind is its folder, as in MODEL/" + *kinds.begin() +
           "/profile.json, unless --device KIND names it";
  }

  Result<void> finish() {
    Result<void> sized = find_sizes();
    if (!sized) return sized;
    const std::size_t num_layers =
        has_sizes() ? num_layers_
                    : profile_.times.begin()->second.begin()->second.size();
    for (std::size_t i = 0; i < num_layers; ++i) add_layer_of(i);
    profile_.layers.back().keeps_output = has_sizes();
    Result<void> checked = check_tables();
    if (!checked) return checked;
    spread_updates();
    int lowered = 0;
    for (auto& [kind, tables] : profile_.times)
      lowered += lower_outliers(tables);
    if (lowered > 0)
      imported_.notes.push_back(
          "derived: in " + std::to_string(lowered) +
          " cases a layer took longer than with the next larger microbatch; "
          "its times there follow from the next two");
    split_backward();
    if (Result<void> added = add_size_tables(); !added) return added;
    add_notes();
    profile_.origin.source = "sailor";
    profile_.origin.description = names_of(names_);
    profile_.origin.split_is_estimated = true;
    profile_.origin.keeps_is_estimated = !has_sizes();
    if (profile_.model.empty()) profile_.model = "sailor";
    add_totals();
    imported_.profile = std::move(profile_);
    return {};
  }

 private:
  Result<void> take_degree(const SourceFile& file, const std::string& kind,
                           int degree) {
    const std::string name = group_kind(kind, degree);
    if (profile_.times.count(name))
      return bad_configuration(
          "two files have the device kind " + name + ": " + file.name,
          "import one file per device kind");
    PIPEWRIGHT_TRY(profile_.times[name],
                   parse_sailor_times(file, degree, degrees_.are_of_plan()));
    file_of_[name] = file.name;
    names_.push_back(file.name);
    return {};
  }

  bool has_sizes() const { return model_sizes_ != nullptr; }

  // Sets model_sizes_ unless there are no sizes at all.
  Result<void> find_sizes() {
    if (sizes_.empty()) return {};
    if (profile_.model.empty() && sizes_.size() == 1)
      profile_.model = sizes_.begin()->first;
    auto model = sizes_.find(profile_.model);
    std::vector<std::string> known;
    for (const auto& [name, degrees] : sizes_) known.push_back(name);
    if (model == sizes_.end())
      return bad_configuration(
          "no sizes for the model \"" + profile_.model + "\"",
          suggestion(profile_.model, known));
    model_sizes_ = &model->second;
    PIPEWRIGHT_TRY(const auto* first,
                   sizes_at_degree(*degrees_.of_layer(0).begin()));
    num_layers_ = first->size();
    for (std::size_t i = 0; i < num_layers_; ++i)
      for (const int degree : degrees_.of_layer(i)) {
        PIPEWRIGHT_TRY(const auto* sizes, sizes_at_degree(degree));
        if (sizes->size() != num_layers_)
          return malformed("it gives " + profile_.model +
                               " different numbers of layers at two degrees of "
                               "tensor parallelism",
                           sizes_file_);
      }
    return {};
  }

  Result<const std::vector<SailorLayerSizes>*> sizes_at_degree(
      int degree) const {
    auto found = model_sizes_->find(degree);
    if (found == model_sizes_->end())
      return bad_configuration("no sizes for " + profile_.model +
                               " at tensor-parallel degree " +
                               std::to_string(degree));
    return &found->second;
  }

  // A profile has one size of a layer on all devices: where replicas of its
  // stage have different degrees, the largest.
  SailorLayerSizes group_sizes(std::size_t layer) const {
    SailorLayerSizes largest;
    for (const int degree : degrees_.of_layer(layer)) {
      const SailorLayerSizes sizes = group_sizes(layer, degree);
      largest.parameters = std::max(largest.parameters, sizes.parameters);
      largest.output = std::max(largest.output, sizes.output);
      largest.memory = std::max(largest.memory, sizes.memory);
    }
    return largest;
  }

  // The whole group's. The source gives one GPU's; the output is the same on
  // all of them (or each has its part, after the last layer) and is sent once.
  SailorLayerSizes group_sizes(std::size_t layer, int degree) const {
    SailorLayerSizes sizes = model_sizes_->at(degree)[layer];
    const auto of_group = [&](std::int64_t of_one) {
      return std::min(of_one * degree,
                      static_cast<std::int64_t>(kMaxImportedBytes));
    };
    sizes.parameters = of_group(sizes.parameters);
    sizes.memory = of_group(sizes.memory);
    return sizes;
  }

  // A layer keeps its input, which is the output of the one before, and what
  // the source counts beside the output.
  void add_layer_of(std::size_t i) {
    add_to_chain(profile_, "layer" + std::to_string(i), "layer",
                 has_sizes() ? Bytes(group_sizes(i).parameters) : Bytes(0));
    auto& keeps_input = profile_.layers.back().keeps_input;
    keeps_input.assign(keeps_input.size(), has_sizes());
  }

  Result<void> check_tables() {
    for (const auto& [kind, tables] : profile_.times)
      for (const auto& [microbatch, rows] : tables)
        if (rows.size() != profile_.layers.size())
          return malformed(
              std::to_string(rows.size()) + " layers on " + kind +
                  " at microbatch " + std::to_string(microbatch) + ", but " +
                  std::to_string(profile_.layers.size()) + " of " +
                  profile_.model + " in " +
                  (has_sizes() ? sizes_file_
                               : file_of_.at(profile_.times.begin()->first)),
              file_of_.at(kind), "import the times and the sizes of one model");
    return {};
  }

  // Where all layers have the same number, it is one optimizer step of a model
  // with two blocks, repeated: Adam moves seven times the weights, and the
  // number is right for two blocks, while the whole model would need more than
  // the memory's bandwidth. A layer gets its weights' share.
  void spread_updates() {
    const double blocks = two_block_parameters();
    for (auto& [kind, tables] : profile_.times)
      for (auto& [microbatch, rows] : tables) {
        const Seconds step = rows.front().update;
        const bool is_repeated = std::all_of(
            rows.begin(), rows.end(),
            [&](const LayerTimes& row) { return row.update == step; });
        if (!is_repeated || rows.size() < 2) continue;
        has_repeated_step_ = true;
        for (std::size_t i = 0; i < rows.size(); ++i)
          rows[i].update = step * (parameters_of(i) / blocks);
      }
  }

  double parameters_of(std::size_t layer) const {
    return has_sizes() ? static_cast<double>(group_sizes(layer).parameters) : 1;
  }

  // Blocks are the layers of the most frequent size.
  double two_block_parameters() const {
    std::map<double, int> counts;
    for (std::size_t i = 0; i < profile_.layers.size(); ++i)
      ++counts[parameters_of(i)];
    const auto blocks = std::max_element(
        counts.begin(), counts.end(),
        [](const auto& a, const auto& b) { return a.second < b.second; });
    double sum = blocks->first * std::min(2, blocks->second);
    for (const auto& [parameters, count] : counts)
      if (parameters != blocks->first) sum += parameters * count;
    return std::max(sum, 1.0);
  }

  // Once it is known which layers have weights.
  void split_backward() {
    for (auto& [kind, tables] : profile_.times)
      for (auto& [microbatch, rows] : tables)
        for (std::size_t i = 0; i < rows.size(); ++i)
          set_backward(rows[i], rows[i].backward(), profile_.layers[i]);
  }

  Result<void> add_size_tables() {
    for (const auto& [kind, tables] : profile_.times)
      for (const auto& [microbatch, rows] : tables) {
        auto& table = profile_.sizes[microbatch];
        if (!table.empty()) continue;
        table.resize(profile_.layers.size());
        for (std::size_t i = 0; has_sizes() && i < table.size(); ++i) {
          const SailorLayerSizes sizes = group_sizes(i);
          table[i].output = Bytes(sizes.output) * microbatch;
          table[i].keeps_private =
              Bytes(std::max<std::int64_t>(0, sizes.memory - sizes.output)) *
              microbatch;
          table[i].workspace = table[i].keeps_private;
        }
      }
    return {};
  }

  void add_notes() {
    auto& notes = imported_.notes;
    notes.push_back(has_sizes()
                        ? "given as one number: the bytes a layer holds for "
                          "backward, with its output; as much as it keeps "
                          "beside that is its workspace"
                        : "missing: bytes of parameters and outputs; import "
                          "llm_info.json too");
    if (!has_sizes())
      notes.push_back(
          "assumed: 0 bytes of each, so messages and sums of gradients take no "
          "time but latency, and layers no memory");
    if (has_sizes() && has_mixed_degrees())
      notes.push_back(
          "assumed: where replicas of a stage have different tensor-parallel "
          "degrees, a layer has on each the bytes of the largest group");
    if (has_repeated_step_)
      notes.push_back(
          has_sizes()
              ? "derived: a layer's update is its weights' share of the step "
                "that the source gives for two blocks"
              : "assumed: a layer's update is half of the step that the source "
                "gives for two blocks");
    for (const auto& [kind, file] : file_of_)
      if (kind.find("-tp") != std::string::npos) {
        notes.push_back(group_note(kind));
        break;
      }
  }

  bool has_mixed_degrees() const {
    for (std::size_t i = 0; i < num_layers_; ++i)
      if (degrees_.of_layer(i).size() > 1) return true;
    return false;
  }

  void add_totals() {
    imported_.totals.nodes = profile_.num_layers();
    imported_.totals.edges = std::max(0, profile_.num_layers() - 1);
    const auto& [kind, tables] = *profile_.times.begin();
    const ProfileTotals totals =
        totals_of(profile_, kind, tables.begin()->first);
    imported_.totals.forward = totals.forward;
    imported_.totals.backward = totals.backward;
    imported_.totals.parameters = totals.parameters;
  }

  const ImportOptions& options_;
  Imported& imported_;
  Profile profile_;
  SailorDegrees degrees_;
  SailorSizes sizes_;
  std::string sizes_file_;
  const std::map<int, std::vector<SailorLayerSizes>>* model_sizes_ = nullptr;
  std::size_t num_layers_ = 0;
  bool has_repeated_step_ = false;
  std::map<std::string, std::string> file_of_;  // by kind
  std::vector<std::string> names_;
  std::vector<std::string> unused_;  // files of kinds that the plan has not
};

Result<void> take_sailor_file(const SourceFile& file, SailorPart part,
                              SailorProfile& maker, Imported& imported) {
  switch (part) {
    case SailorPart::None:
    case SailorPart::Times:
      return maker.take_times(file);
    case SailorPart::Sizes: {
      PIPEWRIGHT_TRY(SailorSizes sizes,
                     parse_sailor_sizes(file.text, file.name));
      maker.take_sizes(std::move(sizes), file.name);
      return {};
    }
    case SailorPart::Network: {
      PIPEWRIGHT_TRY(auto tables, parse_sailor_network(file.text, file.name));
      for (BandwidthTable& table : tables)
        imported.bandwidths.push_back(std::move(table));
      return {};
    }
    case SailorPart::Machines: {
      PIPEWRIGHT_TRY(auto devices, parse_sailor_machines(file.text, file.name));
      for (ImportedDevices& device : devices)
        imported.devices.push_back(std::move(device));
      return {};
    }
    case SailorPart::Plan: {
      PIPEWRIGHT_TRY(PublishedPlan plan,
                     parse_sailor_plan(file.text, file.name));
      if (!plan.unread.empty())
        imported.notes.push_back("not read: " + join(plan.unread, ", ") +
                                 " of " + file.name);
      imported.notes.insert(imported.notes.end(), plan.notes.begin(),
                            plan.notes.end());
      for (const std::string& what : plan.not_measured)
        imported.notes.push_back("not measured: " + what +
                                 ", not a number, in " + file.name);
      imported.plans.push_back(std::move(plan));
      return {};
    }
  }
  return {};
}

std::string what_sailor_is(const Imported& imported, bool has_sizes) {
  std::vector<std::string> parts;
  if (imported.profile) parts.push_back("layer times");
  if (has_sizes) parts.push_back("layer sizes");
  if (!imported.bandwidths.empty()) parts.push_back("network curves");
  if (!imported.devices.empty()) parts.push_back("machines");
  if (!imported.plans.empty()) parts.push_back("measured plans");
  return join(parts, ", ");
}

Result<Imported> read_sailor(std::span<const SourceFile> files,
                             const ImportOptions& options) {
  Imported imported;
  SailorProfile maker(options, imported);
  bool has_sizes = false;
  std::vector<const SourceFile*> times;  // read last: they depend on the plan
  for (const SourceFile& file : files) {
    const SailorPart part = sailor_part_of(file);
    has_sizes = has_sizes || part == SailorPart::Sizes;
    if (part == SailorPart::None || part == SailorPart::Times) {
      times.push_back(&file);
      continue;
    }
    Result<void> done = take_sailor_file(file, part, maker, imported);
    if (!done) return done.error();
  }
  if (imported.plans.size() == 1) maker.take_plan(imported.plans.front());
  if (!imported.plans.empty())
    imported.notes.push_back("assumed: each backward of a layer takes " +
                             to_text(imported.plans[0].gradient_overhead) +
                             " more for its gradients, as Sailor's runs "
                             "without replicas took on GH200");
  for (const SourceFile* file : times)
    if (Result<void> done = maker.take_times(*file); !done) return done.error();
  if (maker.has_times()) {
    Result<void> done = maker.finish();
    if (!done) return done.error();
  } else {
    imported.no_profile = maker.no_times();
  }
  imported.what = what_sailor_is(imported, has_sizes);
  return imported;
}

std::string sailor_usage(const SourceFile& file) {
  switch (sailor_part_of(file)) {
    case SailorPart::Plan:
      return plan_usage(
          file,
          "LLM_INFO.json MACHINES.json MODEL/KIND/profile.json... "
          "NETWORK.json...");
    case SailorPart::Sizes:
      return profile_usage(file, "MODEL/KIND/profile.json --tensor-parallel N");
    case SailorPart::Network:
    case SailorPart::Machines:
      return printed_usage(file,
                           "with a plan_config_*.json, it is imported for the "
                           "cluster");
    case SailorPart::None:
    case SailorPart::Times:
      break;
  }
  return profile_usage(file, "LLM_INFO.json --tensor-parallel N");
}

}  // namespace

Importer sailor_importer() {
  return {"sailor",
          "Sailor's layer times (profile.json), sizes (llm_info.json), network "
          "curves, machines and measured plans",
          recognises_sailor, read_sailor, sailor_usage};
}

}  // namespace pipewright
