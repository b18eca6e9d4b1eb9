// Does it train? Every method on the same data in the same order, from the same
// weights, at several depths.
//
//   convergence [--quick] [--only TASK] [--arm NAME]... [--seeds N]
//               [--threads N] [--plots DIR] [--set KEY=VALUE]...
//
// Prints two tables a task: what each learning rate came to, and what the best
// of each method did. With --quick digits alone, in a minute or two; fails
// where synchronous training does not learn them, or PipeMare stays far behind.

#include <ATen/Context.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "experiments/convergence/convergence_report.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

struct Options {
  bool quick = false;
  std::vector<std::string> only;
  StudySettings study;
  std::string plots;
  std::vector<std::string> changes;  // "steps=100"
};

// As deep as its number of layers with weights. How fast a delayed stage can
// learn falls with its delay, so the deepest take the most steps and the lowest
// rates.
Recipe deep(int layers, int steps, std::vector<double> rates) {
  Recipe recipe{"deep-" + std::to_string(layers),
                layers / 3 - 1 + (layers % 3 > 0), 32};
  recipe.depths = {layers};
  recipe.steps = steps;
  recipe.trial = 0.25;
  recipe.rates = std::move(rates);
  recipe.momentum = 0;
  recipe.annealing = 0.12;
  return recipe;
}

std::vector<Recipe> recipes(bool quick) {
  Recipe digits{"digits", 2, 6};
  digits.steps = 300;
  digits.rates = {0.05, 0.02, 0.01};
  if (quick) return {digits};
  Recipe fashion{"fashion-mnist", 4, 8};
  fashion.steps = 1200;
  fashion.trial = 0.5;
  fashion.rates = {0.03, 0.01, 0.003};
  fashion.tested_samples = 5000;
  Recipe translation{"translation", 1, 32};
  translation.steps = 1000;
  translation.trial = 0.5;
  translation.rates = {0.03, 0.01, 0.003};
  translation.momentum = 0;
  translation.ramp = 0.05;
  translation.warm_up = 0.2;
  translation.tested_samples = 1000;
  // Twice the microbatches of half the size halve the delays, and with four
  // 3000 steps are too few at this depth.
  Recipe deepest = deep(150, 3000, {0.2, 0.05, 0.01});
  deepest.microbatch = 8;
  deepest.trial = 0.125;
  return {digits,
          fashion,
          translation,
          deep(8, 1000, {0.2, 0.05, 0.01}),
          deep(32, 2000, {0.2, 0.05, 0.01}),
          deep(107, 3500, {0.2, 0.05, 0.01}),
          deepest};
}

Result<std::vector<double>> numbers(std::string_view text) {
  std::vector<double> all;
  for (const std::string_view part : split(text, ',')) {
    const auto number = parse_real(part);
    if (!number || !(*number >= 0 && *number < 1e9))
      return bad_configuration("\"" + std::string(part) + "\" is no number");
    all.push_back(*number);
  }
  return all;
}

Result<void> change(Recipe& recipe, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  PIPEWRIGHT_TRY(
      const std::vector<double> values,
      numbers(equals == std::string::npos ? "" : text.substr(equals + 1)));
  const std::vector<std::pair<std::string, int*>> counts = {
      {"blocks", &recipe.blocks},       {"width", &recipe.width},
      {"minibatch", &recipe.minibatch}, {"microbatch", &recipe.microbatch},
      {"steps", &recipe.steps},         {"tested", &recipe.tested_samples}};
  const std::vector<std::pair<std::string, double*>> shares = {
      {"momentum", &recipe.momentum},   {"ramp", &recipe.ramp},
      {"annealing", &recipe.annealing}, {"decay", &recipe.decay},
      {"trial", &recipe.trial},         {"warm-up", &recipe.warm_up}};
  for (const auto& [name, place] : counts)
    if (name == key) {
      *place = std::max(1, static_cast<int>(values.front()));
      return {};
    }
  for (const auto& [name, place] : shares)
    if (name == key) {
      *place = values.front();
      return {};
    }
  if (key == "rates") {
    recipe.rates = values;
    return {};
  }
  if (key == "depths") {
    recipe.depths.assign(values.begin(), values.end());
    return {};
  }
  return bad_configuration("--set does not know \"" + key + "\"");
}

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

// What continuous integration holds against: far from the figures, so that
// other kernels pass too.
bool is_fine(const std::vector<ArmResult>& results) {
  const auto mean = [&](const std::string& name) {
    for (const ArmResult& result : results)
      if (result.arm.name == name && result.num_diverged() == 0)
        return result.mean();
    return 0.0;
  };
  return mean("sync") > 0.9 && mean("pipemare T1+T2") > mean("sync") - 0.03;
}

bool is_wanted(const Recipe& recipe, const Options& options) {
  return options.only.empty() ||
         std::any_of(options.only.begin(), options.only.end(),
                     [&](const std::string& name) {
                       return recipe.task.starts_with(name);
                     });
}

Result<std::vector<Task>> tasks(const Options& options) {
  std::vector<Task> tasks;
  for (Recipe& recipe : recipes(options.quick)) {
    if (!is_wanted(recipe, options)) continue;
    for (const std::string& text : options.changes)
      if (auto changed = change(recipe, text); !changed) return changed.error();
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

Result<bool> run(const Options& options) {
  PIPEWRIGHT_TRY(const std::vector<Task> wanted, tasks(options));
  bool fine = true, has_results = wanted.empty();
  Result<void> written;
  study(wanted, options.study,
        [&](const Task& task, const std::vector<ArmResult>& results) {
          if (results.empty()) return;
          has_results = true;
          std::cout << report_text(task, results) << "\n"
                    << rates_text(results) << "\n"
                    << verdict_text(task, results) << std::endl;
          if (written) written = write_plots(task, options.plots, results);
          if (options.quick) fine = is_fine(results);
        });
  if (!has_results) return bad_configuration("no such arm");
  if (!written) return written.error();
  return fine;
}

Options parsed(int count, char** words) {
  Options options;
  options.study.threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    const auto value = [&] {
      return std::string(i + 1 < count ? words[++i] : "");
    };
    const auto number = [&] { return std::max(1, std::atoi(value().c_str())); };
    if (word == "--quick")
      options.quick = true;
    else if (word == "--only")
      options.only.push_back(value());
    else if (word == "--arm")
      options.study.arms.push_back(value());
    else if (word == "--seeds")
      options.study.seeds = number();
    else if (word == "--threads")
      options.study.threads = number();
    else if (word == "--plots")
      options.plots = value();
    else if (word == "--set")
      options.changes.push_back(value());
  }
  return options;
}

}  // namespace
}  // namespace pipewright

int main(int count, char** words) {
  // For convolutions as small as these oneDNN takes several times as long as
  // ATen's own kernels.
  at::globalContext().setUserEnabledMkldnn(false);
  const auto done = pipewright::run(pipewright::parsed(count, words));
  if (!done) {
    std::cerr << done.error().to_text() << "\n";
    return static_cast<int>(done.error().code);
  }
  if (!*done) std::cerr << "the methods did not do what they should\n";
  return *done ? 0 : 1;
}
