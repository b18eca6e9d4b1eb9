// pipewright profile: what each layer of a model costs, measured on this
// machine, estimated for a device kind, or read from a profile file.

#include <iostream>

#include "cli/command.h"
#include "cli/load_profile.h"
#include "cli/number_in.h"
#include "cli/runtime_link.h"
#include "cli/train/machine_memory.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/presets.h"
#include "pipewright/model/model.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/profile/profile_table.h"

namespace pipewright::cli {
namespace {

struct ProfileOptions {
  std::string model;
  std::vector<int> microbatches;
  int workers = 1;
  std::string optimizer = "momentum";
  bool analytic = false;
  std::vector<std::string> devices;
  std::string number_type;
  std::string file;
  std::string shown;
  Output output;
};

Error profile_usage(std::string message, std::string hint) {
  return {ErrorCode::Usage, std::move(message), {}, std::move(hint), {}};
}

// What is measured computes in the types of the model.
Result<std::string> model_to_measure(const ProfileOptions& options) {
  if (options.number_type.empty()) return options.model;
  const std::string typed = with_type(options.model, options.number_type);
  if (typed == options.model)
    return profile_usage(
        "--number-type " + options.number_type +
            " cannot change the types of " + options.model,
        "measure a model of the zoo that does not say its type, write the type "
        "into the model file, or estimate with --analytic");
  return typed;
}

// Weights, and what is kept for backward when the last forward is done: a lower
// bound for what a step holds.
Bytes held_after_forward(const Model& model, int microbatch) {
  const Profile graph = profile_graph(model);
  const std::vector<LayerSizes> sizes = model_sizes(model, microbatch);
  const std::vector<LayerId> storages = graph.storages();
  std::vector<bool> is_kept(sizes.size());
  Bytes held = graph.parameter_bytes();
  for (std::size_t l = 0; l < sizes.size(); ++l) {
    const ProfileLayer& layer = graph.layers[l];
    held += sizes[l].keeps_private;
    if (layer.keeps_output) is_kept[storages[l].index()] = true;
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i])
        is_kept[storages[layer.inputs[i].index()].index()] = true;
  }
  for (std::size_t l = 0; l < sizes.size(); ++l)
    if (is_kept[l]) held += sizes[l].output;
  return held;
}

Result<void> check_memory_to_measure(const Model& model,
                                     const ProfileOptions& options) {
  const MachineMemory memory = machine_memory();
  for (const int size : options.microbatches)
    if (const Bytes held = held_after_forward(model, size); held > memory.bytes)
      return Error{ErrorCode::OutOfMemory,
                   "a microbatch of " + counted(size, "sample") +
                       " takes at least " + to_text(held) + ", but " +
                       memory.text + " " + to_text(memory.bytes),
                   {},
                   "measure smaller microbatches, or estimate with --analytic",
                   {}};
  return {};
}

Result<Profile> measure(const ProfileOptions& options, const Exit& exit) {
  if (options.devices.size() > 1)
    return profile_usage("one kind of device is measured at a time",
                         "estimate several with --analytic --device KIND,KIND");
  const std::string device =
      options.devices.empty() ? "cpu" : options.devices.front();
  if (device != "cpu" && device.rfind("cuda", 0) != 0)
    return profile_usage(
        "only cpu, cuda, cuda/N and cuda-stream can be measured",
        "estimate other devices with --analytic --device KIND");
  ProfilerOptions profiler;
  PIPEWRIGHT_TRY(profiler.optimizer, optimizer_named(options.optimizer));
  PIPEWRIGHT_TRY(const std::string typed, model_to_measure(options));
  PIPEWRIGHT_TRY(const Model model, load_model(typed));
  if (device == "cpu")
    if (auto fits = check_memory_to_measure(model, options); !fits)
      return fits.error();
  enter_runtime(exit.arguments);
  profiler.workers = options.workers;
  profiler.device = device;
  profiler.progress = [](double share) { show_progress("measuring", share); };
  PIPEWRIGHT_TRY(Profile profile,
                 measure_profile(model, options.microbatches, profiler));
  profile.model = typed;
  return profile;
}

Result<void> check_number_type(const ProfileOptions& options,
                               const DeviceKind& kind) {
  const std::string& type = options.number_type;
  if (type.empty() || kind.achievable.contains(type)) return {};
  std::vector<std::string> known;
  for (const auto& [name, rate] : kind.achievable) known.push_back(name);
  return bad_configuration(kind.name + " has no rate in \"" + type + "\"",
                           suggestion(type, known));
}

Result<Profile> estimated_profile(const ProfileOptions& options,
                                  const Exit& exit) {
  if (options.model.empty())
    return profile_usage("no model given",
                         "for example pipewright profile vgg16 --microbatch 32 "
                         "--analytic --device V100; or --show FILE");
  if (options.microbatches.empty())
    return profile_usage("no microbatch sizes given",
                         "for example --microbatch 8,16,32");
  if (!options.analytic) return measure(options, exit);
  if (options.devices.empty())
    return profile_usage("no device given", "for example --device V100");
  std::vector<DeviceKind> kinds;
  for (const std::string& name : options.devices) {
    PIPEWRIGHT_TRY(KindPreset preset, find_kind(name));
    if (auto fine = check_number_type(options, preset.kind); !fine)
      return fine.error();
    kinds.push_back(std::move(preset.kind));
  }
  const std::string typed = options.number_type.empty()
                                ? with_number_type(options.model, kinds)
                                : options.model;
  PIPEWRIGHT_TRY(const Model model, load_model(typed));
  PIPEWRIGHT_TRY(Profile profile,
                 analytic_profile(model, kinds, options.microbatches,
                                  {options.number_type, 0.8}));
  profile.model = typed;
  return profile;
}

Result<Profile> shown_profile(const ProfileOptions& options) {
  PIPEWRIGHT_TRY(std::string text, read_file(options.shown));
  return parse_profile(text, options.shown);
}

// Every device kind and microbatch size of the profile, unless some are chosen.
Result<std::string> tables(const Profile& profile,
                           const ProfileOptions& options) {
  std::string text;
  const bool choose = !options.shown.empty();
  std::vector<std::string> kinds;
  if (choose) kinds = options.devices;
  if (kinds.empty())
    for (const auto& [kind, tables_of_kind] : profile.times)
      kinds.push_back(kind);
  for (const std::string& kind : kinds) {
    std::vector<int> sizes;
    if (choose) sizes = options.microbatches;
    if (auto known = profile.times.find(kind);
        sizes.empty() && known != profile.times.end())
      for (const auto& [size, rows] : known->second) sizes.push_back(size);
    if (sizes.empty()) sizes.push_back(1);  // times_at() then explains
    for (int size : sizes) {
      PIPEWRIGHT_TRY(std::string table,
                     profile_table(profile, kind, size, options.output.width));
      text += (text.empty() ? "" : "\n") + table;
    }
    text += interpolation_text(profile, kind);
  }
  return text + "\n" + profile.origin.source + ": " +
         profile.origin.description + "\n";
}

void show_profile(const ProfileOptions& options, Exit& exit) {
  const auto profile = options.shown.empty() ? estimated_profile(options, exit)
                                             : shown_profile(options);
  if (!profile) return report(profile.error(), exit);
  if (!options.file.empty()) {
    auto written = write_file(options.file, to_text(*profile));
    if (!written) return report(written.error(), exit);
    std::cerr << "wrote " << options.file << "\n";
  }
  if (options.output.json) {
    std::cout << to_text(*profile);
    return;
  }
  const auto text = tables(*profile, options);
  if (!text) return report(text.error(), exit);
  std::cout << *text;
}

}  // namespace

void add_profile(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "profile", "Measure or estimate what each layer of a model costs");
  auto options = std::make_shared<ProfileOptions>();
  command->add_option("MODEL", options->model,
                      "Model of the zoo with settings, such as gpt:layers=12, "
                      "or a model file");
  command
      ->add_option("--microbatch", options->microbatches,
                   "Microbatch sizes, N[,N...]")
      ->delimiter(',')
      ->check(integer_in(1, kMaxMinibatch));
  command
      ->add_option("--workers", options->workers,
                   "Number of workers that compute at the same time while "
                   "measuring")
      ->check(integer_in(1, kMaxWorkers));
  command
      ->add_option("--optimizer", options->optimizer,
                   "sgd, momentum, adam or adamw: whose update is measured")
      ->capture_default_str();
  command->add_flag("--analytic", options->analytic,
                    "Estimate from the data sheet of the device instead of "
                    "measuring");
  command
      ->add_option(
          "--device", options->devices,
          "Device kinds, KIND[,KIND...], for example V100; to measure: "
          "cpu, cuda, cuda/N (a share of a GPU) or cuda-stream")
      ->delimiter(',');
  command->add_option(
      "--number-type,--numbers", options->number_type,
      "Number type to compute in, for example float16; default: "
      "the model's");
  command->add_option("--show", options->shown,
                      "Show this profile file instead");
  command->add_option("-o,--output", options->file,
                      "Write the profile to this file");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { show_profile(*options, exit); });
}

}  // namespace pipewright::cli
