// Imports Sailor's layer times as a profile, with sizes if llm_info.json is
// imported too; and its network curves, machines and measured plans.
//
//   {microbatch: {degree: {layer: [forward_s, backward_s, update_s]}}}
//
// The model and the kind of GPU are only in the path, MODEL/KIND/profile.json.
// A group of tensor-parallel GPUs is one device of kind KIND-tpN. llm_info
// gives the bytes kept for backward as one number.

#include <algorithm>
#include <set>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/formats/sailor_files.h"

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

using Rows = std::vector<LayerTimes>;

LayerTimes row_of(const JsonCursor& cursor) {
  const auto fields = cursor.elements();
  if (fields.size() != 3) {
    cursor.fail("expected [forward, backward, update] in seconds, found " +
                std::to_string(fields.size()) + " numbers");
    return {};
  }
  auto seconds = [&](std::size_t i) {
    return Seconds(fields[i].real(0, kMaxImportedSeconds));
  };
  // Backward as one number, until split_backward().
  return {seconds(0), seconds(1), Seconds(0), seconds(2)};
}

struct TimesFile {
  std::map<int, Rows> at;  // by microbatch, at the requested degree
  std::set<int> degrees;   // that the file has
};

Result<TimesFile> parse_times(const SourceFile& file, int degree) {
  PIPEWRIGHT_TRY(Json json, parse_json(file.text, file.name));
  JsonErrors errors(file.name);
  TimesFile times;
  for (const auto& [size, tables] : JsonCursor(json, errors).members()) {
    const int microbatch = count_key(size, tables);
    for (const auto& [key, layers] : tables.members()) {
      const int found = count_key(key, layers);
      times.degrees.insert(found);
      Rows rows;
      for (const JsonCursor& layer : numbered_members(layers))
        rows.push_back(row_of(layer));
      if (found == degree) times.at[microbatch] = std::move(rows);
    }
  }
  if (!errors.empty()) return errors.error();
  if (times.at.empty()) {
    std::vector<std::string> known;
    for (int d : times.degrees) known.push_back(std::to_string(d));
    return bad_configuration(
        file.name + " has no times at tensor-parallel degree " +
            std::to_string(degree),
        "choose one with --tensor-parallel N: " + join(known, ", "));
  }
  return times;
}

class SailorProfile {
 public:
  SailorProfile(const ImportOptions& options, Imported& imported)
      : options_(options), imported_(imported) {}

  void take_sizes(SailorSizes sizes) {
    for (auto& [model, degrees] : sizes) sizes_[model] = std::move(degrees);
  }

  Result<void> take_times(const SourceFile& file) {
    auto parts = path_parts(file.name, 3);
    const bool has_path = parts.size() == 3 && parts[2] == "profile.json";
    std::string kind = has_path ? parts[1] : "accelerator";
    if (!options_.device.empty()) kind = options_.device;
    if (options_.tensor_parallel > 1)
      kind += "-tp" + std::to_string(options_.tensor_parallel);
    const std::string model = !options_.model.empty() ? options_.model
                              : has_path              ? parts[0]
                                                      : "";
    if (!names_.empty() && model != profile_.model)
      return bad_configuration(
          file.name + " is for a different model than " + names_.front(),
          "import the files of one model at a time");
    profile_.model = model;
    if (profile_.times.count(kind))
      return bad_configuration(
          "two files have the device kind " + kind + ": " + file.name,
          "import one file per device kind");
    PIPEWRIGHT_TRY(TimesFile times,
                   parse_times(file, options_.tensor_parallel));
    profile_.times[kind] = std::move(times.at);
    names_.push_back(file.name);
    return {};
  }

  bool has_times() const { return !names_.empty(); }

  Result<void> finish() {
    PIPEWRIGHT_TRY(std::vector<SailorLayerSizes> sizes, sizes_of_model());
    const Rows& first_rows = profile_.times.begin()->second.begin()->second;
    const std::size_t num_layers =
        sizes.empty() ? first_rows.size() : sizes.size();
    for (std::size_t i = 0; i < num_layers; ++i)
      add_to_chain(profile_, "layer" + std::to_string(i), "layer",
                   sizes.empty() ? Bytes(0) : Bytes(sizes[i].parameters));
    Result<void> checked = check_tables();
    if (!checked) return checked;
    split_backward();
    add_size_tables(sizes);
    imported_.notes.push_back(
        sizes.empty() ? "missing: bytes of parameters and outputs; import "
                        "llm_info.json too"
                      : "given as one number: the bytes a layer holds for "
                        "backward");
    profile_.origin.source = "sailor";
    profile_.origin.description = names_of(names_);
    profile_.origin.split_is_estimated = true;
    profile_.origin.keeps_is_estimated = sizes.empty();
    if (profile_.model.empty()) profile_.model = "sailor";
    add_totals();
    imported_.profile = std::move(profile_);
    return {};
  }

 private:
  // Empty if there are no sizes at all.
  Result<std::vector<SailorLayerSizes>> sizes_of_model() {
    if (sizes_.empty()) return std::vector<SailorLayerSizes>{};
    if (profile_.model.empty() && sizes_.size() == 1)
      profile_.model = sizes_.begin()->first;
    auto model = sizes_.find(profile_.model);
    std::vector<std::string> known;
    for (const auto& [name, degrees] : sizes_) known.push_back(name);
    if (model == sizes_.end())
      return bad_configuration(
          "no sizes for the model \"" + profile_.model + "\"",
          suggestion(profile_.model, known));
    auto degree = model->second.find(options_.tensor_parallel);
    if (degree == model->second.end())
      return bad_configuration("no sizes for " + profile_.model +
                               " at tensor-parallel degree " +
                               std::to_string(options_.tensor_parallel));
    return degree->second;
  }

  Result<void> check_tables() {
    for (const auto& [kind, tables] : profile_.times)
      for (const auto& [microbatch, rows] : tables)
        if (rows.size() != profile_.layers.size())
          return malformed(
              std::to_string(rows.size()) + " layers on " + kind +
                  " at microbatch " + std::to_string(microbatch) + ", but " +
                  std::to_string(profile_.layers.size()) + " elsewhere",
              names_of(names_));
    return {};
  }

  // Once it is known which layers have weights.
  void split_backward() {
    for (auto& [kind, tables] : profile_.times)
      for (auto& [microbatch, rows] : tables)
        for (std::size_t i = 0; i < rows.size(); ++i)
          set_backward(rows[i], rows[i].backward(), profile_.layers[i]);
  }

  void add_size_tables(const std::vector<SailorLayerSizes>& sizes) {
    for (const auto& [kind, tables] : profile_.times)
      for (const auto& [microbatch, rows] : tables) {
        auto& table = profile_.sizes[microbatch];
        if (!table.empty()) continue;
        table.resize(profile_.layers.size());
        for (std::size_t i = 0; i < sizes.size(); ++i) {
          table[i].output = Bytes(sizes[i].output) * microbatch;
          table[i].keeps_private = Bytes(sizes[i].memory) * microbatch;
        }
      }
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
  SailorSizes sizes_;
  std::vector<std::string> names_;
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
      maker.take_sizes(std::move(sizes));
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
  for (const SourceFile& file : files) {
    const SailorPart part = sailor_part_of(file);
    has_sizes = has_sizes || part == SailorPart::Sizes;
    Result<void> done = take_sailor_file(file, part, maker, imported);
    if (!done) return done.error();
  }
  if (maker.has_times()) {
    Result<void> done = maker.finish();
    if (!done) return done.error();
  } else {
    imported.no_profile = "no file has layer times";
  }
  imported.what = what_sailor_is(imported, has_sizes);
  return imported;
}

}  // namespace

Importer sailor_importer() {
  return {"sailor",
          "Sailor's layer times (profile.json), sizes (llm_info.json), network "
          "curves, machines and measured plans",
          recognises_sailor, read_sailor};
}

}  // namespace pipewright
