// pipewright profile MODEL: what each layer costs, measured here, estimated for
// a device kind, or shown from a file.

#include <unistd.h>

#include <iostream>

#include "cli/command.h"
#include "cli/runtime_link.h"
#include "pipewright/base/files.h"
#include "pipewright/cluster/presets.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/profile/profile_table.h"

namespace pipewright::cli {
namespace {

struct ProfileOptions {
  std::string model;
  std::vector<int> microbatches;
  int workers = 1;
  bool analytic = false;
  std::vector<std::string> devices;
  std::string numbers;
  std::string file;
  std::string shown;
  Output output;
};

Error profile_usage(std::string message, std::string hint) {
  return {ErrorCode::Usage, std::move(message), {}, std::move(hint), {}};
}

// On a terminal one line that fills up; elsewhere nothing.
void show_progress(double share) {
  if (!::isatty(STDERR_FILENO)) return;
  constexpr int kCells = 30;
  const int full = static_cast<int>(share * kCells);
  std::cerr << "\rmeasuring [" << std::string(full, '#')
            << std::string(kCells - full, ' ') << "] "
            << static_cast<int>(share * 100) << " %"
            << (share >= 1 ? "\r\x1b[K" : "") << std::flush;
}

Result<Profile> measure(const ProfileOptions& options, const Exit& exit) {
  if (!options.devices.empty() &&
      options.devices != std::vector<std::string>{"cpu"})
    return profile_usage("only the device \"cpu\" of this machine is measured",
                         "estimate others with --analytic --device KIND");
  PIPEWRIGHT_TRY(const Model model, load_model(options.model));
  enter_runtime(exit.arguments);
  PIPEWRIGHT_TRY(Profile profile,
                 measure_profile(model, options.microbatches, options.workers,
                                 show_progress));
  profile.model = options.model;
  return profile;
}

Result<Profile> estimated_profile(const ProfileOptions& options,
                                  const Exit& exit) {
  if (options.model.empty())
    return profile_usage("which model?",
                         "as pipewright profile vgg16 --microbatch 32 "
                         "--analytic --device V100; or --show FILE");
  if (options.microbatches.empty())
    return profile_usage("which microbatch sizes?", "as --microbatch 8,16,32");
  if (!options.analytic) return measure(options, exit);
  if (options.devices.empty())
    return profile_usage("on which device?", "as --device V100");
  PIPEWRIGHT_TRY(Model model, load_model(options.model));
  std::vector<DeviceKind> kinds;
  for (const std::string& name : options.devices) {
    PIPEWRIGHT_TRY(KindPreset preset, find_kind(name));
    kinds.push_back(std::move(preset.kind));
  }
  PIPEWRIGHT_TRY(Profile profile,
                 analytic_profile(model, kinds, options.microbatches,
                                  {options.numbers, 0.8}));
  profile.model = options.model;
  return profile;
}

Result<Profile> shown_profile(const ProfileOptions& options) {
  PIPEWRIGHT_TRY(std::string text, read_file(options.shown));
  return parse_profile(text, options.shown);
}

// Every device of the profile at every size of it, unless some are named.
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
    if (sizes.empty()) sizes.push_back(1);  // so that times_at() may explain
    for (int size : sizes) {
      PIPEWRIGHT_TRY(std::string table,
                     profile_table(profile, kind, size, options.output.width));
      text += (text.empty() ? "" : "\n") + table;
    }
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
      "profile", "What each layer of a model costs on a device");
  auto options = std::make_shared<ProfileOptions>();
  command->add_option("MODEL", options->model,
                      "A zoo name with settings, or a model file");
  command
      ->add_option("--microbatch", options->microbatches,
                   "Microbatch sizes, N[,N...]")
      ->delimiter(',');
  command->add_option("--workers", options->workers,
                      "Workers that compute at once while measuring");
  command->add_flag("--analytic", options->analytic,
                    "Estimate from the device's figures; run nothing");
  command
      ->add_option("--device", options->devices,
                   "Device kinds, KIND[,KIND...], as V100")
      ->delimiter(',');
  command->add_option("--numbers", options->numbers,
                      "Compute in this number type, as float16 or int16");
  command->add_option("--show", options->shown,
                      "Shows this profile file instead");
  command->add_option("-o,--output", options->file, "Writes the profile file");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { show_profile(*options, exit); });
}

}  // namespace pipewright::cli
