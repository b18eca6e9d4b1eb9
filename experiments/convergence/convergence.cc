// Does it train? Every method on the same data in the same order, from the same
// weights, at several depths.
//
// Prints two tables per task: what each learning rate and K came to, and what
// the best of each method did. `convergence --help` lists the options.

#include <ATen/Context.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <thread>

#include "cli/program_arguments.h"
#include "experiments/convergence/convergence_recipes.h"
#include "experiments/convergence/convergence_report.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/devices/device_registry.h"

namespace pipewright {
namespace {

struct Options {
  bool quick = false;
  std::vector<std::string> only;
  StudySettings study;
  std::string plots;
  std::vector<std::string> changes;  // "steps=100"
  std::string device = "cpu";

  bool is_on_gpu() const { return device != "cpu"; }
};

Result<void> write_plots(const Task& task, const std::string& folder,
                         const std::vector<ArmResult>& results) {
  if (folder.empty()) return {};
  std::filesystem::create_directories(folder);
  int last = 0;
  for (const ArmResult& result : results) {
    if (result.depth == last) continue;
    last = result.depth;
    const std::string file =
        folder + "/" + task.recipe.task + "-" + std::to_string(last) + ".svg";
    if (auto written = write_file(file, plot_text(task, results, last));
        !written)
      return written;
  }
  return {};
}

// What continuous integration asks for: at one rate synchronous training and
// PipeMare stay above the floor, and naive training does not, without which the
// floor would say nothing. Far from all of them, so that other kernels pass.
bool is_fine(const std::vector<ArmResult>& results) {
  constexpr double kFloor = 0.85;
  const auto passes = [&](const std::string& name) {
    return std::any_of(
        results.begin(), results.end(), [&](const ArmResult& result) {
          return result.arm.name == name && !result.outcomes.empty() &&
                 result.num_diverged() == 0 && result.mean() > kFloor;
        });
  };
  return passes("sync") && passes("pipemare T1+T2") && !passes("naive");
}

// In the order of --only, so that what matters most can come first.
std::vector<Recipe> wanted_recipes(const Options& options) {
  std::vector<Recipe> all = options.quick ? quick_recipes() : recipes();
  const std::vector<Recipe> for_gpus = gpu_recipes();
  if (options.only.empty()) return options.is_on_gpu() ? for_gpus : all;
  all.insert(all.end(), for_gpus.begin(), for_gpus.end());
  std::vector<Recipe> wanted;
  for (const std::string& name : options.only)
    for (const Recipe& recipe : all)
      if (recipe.task.starts_with(name)) wanted.push_back(recipe);
  return wanted;
}

Result<std::vector<Task>> tasks(const Options& options) {
  std::vector<Task> tasks;
  for (Recipe& recipe : wanted_recipes(options)) {
    for (const std::string& text : options.changes)
      if (auto changed = change(recipe, text); !changed) return changed.error();
    recipe.device = options.device;
    Result<Task> task = make_task(recipe);
    if (task)
      tasks.push_back(*std::move(task));
    else if (task.error().code == ErrorCode::MissingInput)
      std::cout << recipe.task << ": skipped, " << task.error().message << " ("
                << task.error().hint << ")\n\n";
    else
      return task.error();
  }
  return tasks;
}

void print(const Task& task, const std::vector<ArmResult>& results) {
  std::cout << report_text(task, results) << "\n"
            << trials_text(results) << "\n"
            << verdict_text(task, results) << std::endl;
}

// One for each training at a time.
Result<void> find_devices(const Options& options) {
  if (options.study.only_stored || !options.is_on_gpu()) return {};
  const auto count = static_cast<std::size_t>(options.study.threads);
  return pipewright::find_devices(
      std::vector<std::string>(count, options.device));
}

Result<bool> run(const Options& options) {
  if (auto found = find_devices(options); !found) return found.error();
  PIPEWRIGHT_TRY(const std::vector<Task> wanted, tasks(options));
  bool fine = true, has_results = wanted.empty();
  Result<void> written;
  const Result<void> studied =
      study(wanted, options.study,
            [&](const Task& task, const std::vector<ArmResult>& results) {
              if (results.empty()) return;
              has_results = true;
              print(task, results);
              if (written) written = write_plots(task, options.plots, results);
              if (options.quick) fine = is_fine(results);
            });
  if (!studied) return studied.error();
  if (!has_results) return bad_configuration("no such arm");
  if (!written) return written.error();
  return fine;
}

void add_options(CLI::App& app, Options& options) {
  app.add_flag("--quick", options.quick,
               "The task floor alone, in seconds; fails unless PipeMare learns "
               "there what naive training does not");
  const auto add_list = [&](const char* name, std::vector<std::string>& values,
                            const char* text) {
    app.add_option(name, values, text)->allow_extra_args(false);
  };
  add_list("--only", options.only,
           "TASK: those tasks whose names begin so; may be repeated");
  add_list("--arm", options.study.arms, "NAME: that arm; may be repeated");
  app.add_option_function<std::string>(
      "--seeds",
      [&](const std::string& count) {
        options.changes.push_back("seeds=" + count);
      },
      "Trainings per arm");
  options.study.threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  app.add_option("--threads", options.study.threads,
                 "Trainings at a time; default: one per core")
      ->check(CLI::PositiveNumber);
  app.add_option("--plots", options.plots, "Draw losses into this folder");
  add_list("--set", options.changes,
           "KEY=VALUE of the recipes, as steps=100; may be repeated");
  CLI::Option* const results =
      app.add_option("--results", options.study.results,
                     "Keep trainings that have ended in this folder, and do "
                     "not run them again");
  app.add_flag("--stored", options.study.only_stored,
               "Run nothing: print what --results has")
      ->needs(results);
  app.add_option("--device", options.device,
                 "cuda or, for several trainings side by side, cuda-stream: "
                 "the tasks that are made for a GPU, unless --only names "
                 "others")
      ->capture_default_str();
}

}  // namespace
}  // namespace pipewright

int main(int argc, char** argv) {
  pipewright::Options options;
  CLI::App app{
      "Trains with every method on the same data in the same order, from the "
      "same weights, at several depths; prints two tables per task"};
  pipewright::add_options(app, options);
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  // For convolutions as small as these oneDNN takes several times as long as
  // ATen's own kernels.
  at::globalContext().setUserEnabledMkldnn(false);
  const auto done = pipewright::run(options);
  if (!done) {
    std::cerr << done.error().to_text() << "\n";
    return static_cast<int>(done.error().code);
  }
  if (!*done) std::cerr << "the methods did not do what they should\n";
  return *done ? 0 : 1;
}
