#include "experiments/convergence/convergence_report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "experiments/convergence/loss_plot.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

constexpr int kWindow = 20;

bool has_outcomes(const ArmResult& result) {
  return result.refusal.empty() && !result.outcomes.empty();
}

const ArmResult* found(const std::vector<ArmResult>& results,
                       const std::string& name, int depth) {
  for (const ArmResult& result : results)
    if (result.arm.name == name && result.depth == depth &&
        has_outcomes(result))
      return &result;
  return nullptr;
}

// Synchronous training is the same at every depth; its time is not.
const ArmResult& sync_at(const std::vector<ArmResult>& results, int depth) {
  const ArmResult* at = found(results, "sync", depth);
  return at ? *at : results.front();
}

std::string result_text(const Task& task, const ArmResult& result) {
  const int diverged = result.num_diverged();
  if (diverged == static_cast<int>(result.outcomes.size())) return "diverged";
  const double unit = task.counts_right_answers ? 100 : 1;
  std::string text = to_text(result.mean() * unit, 4) + " +-" +
                     to_text(result.spread() * unit / 2, 2);
  if (diverged > 0) text += ", " + std::to_string(diverged) + " diverged";
  return text;
}

std::string loss_text(const std::optional<Outcome>& outcome) {
  if (!outcome) return "-";
  return outcome->diverged ? "diverged" : to_text(outcome->final_loss());
}

std::string mean_loss_text(const ArmResult& result) {
  const double loss = result.final_loss();
  return std::isfinite(loss) ? to_text(loss) : "-";
}

// "12 %"; nothing where the arm has no T1.
std::string annealing_text(const Arm& arm, double annealing) {
  return arm.rescheduling ? to_text(annealing * 100) + " %" : "";
}

// "-0.3 points", or how many seeds diverged.
std::string distance_text(const Task& task, const ArmResult& result,
                          const ArmResult& sync) {
  if (!has_outcomes(result)) return "-";
  if (result.num_diverged() > 0)
    return "diverged " + std::to_string(result.num_diverged()) + " of " +
           std::to_string(result.outcomes.size());
  const bool points = task.counts_right_answers;
  const double distance = (result.mean() - sync.mean()) * (points ? 100 : 1);
  return (distance > 0 ? "+" : "") + to_text(distance, 2) +
         (points ? " points" : "");
}

std::string time_text(const ArmResult& result, const ArmResult& sync) {
  if (!has_outcomes(sync)) return "-";
  const double target = synchronous_level(sync);
  const double steps = steps_to(result, target);
  if (steps < 0) return "never";
  // Fewer stages for the same layers take longer each.
  const double share = static_cast<double>(result.depth) / result.stages;
  const double own = steps * result.facts.step.value() * share;
  const double reference = steps_to(sync, target) * sync.facts.step.value();
  return to_text(own / reference, 3) + "x";
}

// Arms by the day and machine of their trainings, which differ where stored
// ones were added to: "trained 2026-11-16 on x86_64 with 16 cores: sync,
// naive".
std::string origins_text(const std::vector<ArmResult>& results) {
  std::map<std::string, std::vector<std::string>> arms;
  const auto add = [&](const Outcome& outcome, const std::string& name) {
    std::vector<std::string>& names = arms[outcome.origin];
    if (std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  };
  for (const ArmResult& result : results) {
    for (const Trial& trial : result.trials)
      if (trial.outcome) add(*trial.outcome, result.arm.name);
    for (const Outcome& outcome : result.outcomes)
      add(outcome, result.arm.name);
  }
  std::string text;
  for (const auto& [origin, names] : arms)
    text += "trained " + origin + ": " + join(names, ", ") + "\n";
  return text;
}

std::vector<int> depths(const std::vector<ArmResult>& results) {
  std::vector<int> all;
  for (const ArmResult& result : results)
    if (std::find(all.begin(), all.end(), result.depth) == all.end())
      all.push_back(result.depth);
  return all;
}

}  // namespace

double steps_to(const ArmResult& result, double target) {
  double sum = 0;
  for (const Outcome& outcome : result.outcomes) {
    const auto losses = smoothed(outcome.losses, kWindow);
    std::size_t at = kWindow;
    while (at < losses.size() && losses[at] > target) ++at;
    if (at >= losses.size()) return -1;
    sum += static_cast<double>(at + 1);
  }
  return sum / static_cast<double>(result.outcomes.size());
}

double synchronous_level(const ArmResult& sync) {
  double sum = 0;
  for (const Outcome& outcome : sync.outcomes) {
    if (outcome.diverged) return 0;
    sum += outcome.final_loss() + 0.05 * outcome.losses.front();
  }
  return sum / static_cast<double>(sync.outcomes.size());
}

std::string trials_text(const std::vector<ArmResult>& results) {
  using Align = TextTable::Align;
  std::vector<double> rates;
  for (const ArmResult& result : results)
    for (const Trial& trial : result.trials)
      if (std::find(rates.begin(), rates.end(), trial.rate) == rates.end())
        rates.push_back(trial.rate);
  std::vector<TextTable::Column> columns = {
      {"tried: training loss"}, {"P", Align::Right}, {"K", Align::Right}};
  for (const double rate : rates)
    columns.push_back({"rate " + to_text(rate), Align::Right});
  TextTable table(columns);
  for (const ArmResult& result : results)
    for (std::size_t i = 0; i < result.trials.size(); i += rates.size()) {
      const double annealing = result.trials[i].annealing;
      std::vector<std::string> row = {result.arm.name,
                                      std::to_string(result.stages),
                                      annealing_text(result.arm, annealing)};
      for (std::size_t j = i; j < i + rates.size(); ++j) {
        const Trial& trial = result.trials[j];
        const bool is_best =
            trial.rate == result.rate && trial.annealing == result.annealing;
        row.push_back(loss_text(trial.outcome) + (is_best ? " *" : "  "));
      }
      table.add_row(row);
    }
  return table.to_text(120);
}

std::string report_text(const Task& task,
                        const std::vector<ArmResult>& results) {
  using Align = TextTable::Align;
  TextTable table(
      {{"method"},
       {"P", Align::Right},
       {"delay", Align::Right},
       {"rate", Align::Right},
       {"K", Align::Right},
       {"seeds", Align::Right},
       {"train loss", Align::Right},
       {task.counts_right_answers ? "accuracy %" : "test loss", Align::Right},
       {"used", Align::Right},
       {"weights", Align::Right},
       {"activations", Align::Right},
       {"time to sync", Align::Right}});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ArmResult& result = results[i];
    if (i > 0 && result.depth != results[i - 1].depth) table.add_rule();
    if (!has_outcomes(result)) {
      table.add_row({result.arm.name, std::to_string(result.stages), "", "", "",
                     "0", "-"});
      continue;
    }
    table.add_row({result.arm.name, std::to_string(result.stages),
                   to_text(result.facts.delay), to_text(result.rate),
                   annealing_text(result.arm, result.annealing),
                   std::to_string(result.outcomes.size()),
                   mean_loss_text(result), result_text(task, result),
                   to_text(result.facts.utilisation * 100) + " %",
                   to_text(result.facts.weights),
                   to_text(result.facts.activations),
                   time_text(result, sync_at(results, result.depth))});
  }
  const Recipe& recipe = task.recipe;
  return recipe.task + ": " + std::to_string(task.model.num_layers()) +
         " layers, " + std::to_string(task.num_weighted()) + " with weights, " +
         std::to_string(task.microbatches()) + " microbatches of " +
         std::to_string(recipe.microbatch) + ", " +
         std::to_string(recipe.steps) + " steps, " + to_text(task.optimizer) +
         "\n\n" + table.to_text(140);
}

std::string verdict_text(const Task& task,
                         const std::vector<ArmResult>& results) {
  std::string text;
  for (const int depth : depths(results)) {
    const ArmResult& sync = sync_at(results, depth);
    const ArmResult* both = found(results, "pipemare T1+T2", depth);
    const ArmResult* stash = found(results, "stash", depth);
    if (!has_outcomes(sync)) continue;
    text += "P = " + std::to_string(depth) + ", from sync:";
    for (const ArmResult& result : results)
      if (result.depth == depth && result.arm.method != Method::Sync)
        text += " " + result.arm.name + " " +
                distance_text(task, result, sync) + ",";
    text.back() = '\n';
    text += "loss tried with sync's rate:";
    for (const ArmResult& result : results)
      if (result.depth == depth && result.arm.method != Method::Sync)
        for (const Trial& trial : result.trials)
          if (trial.rate == sync.rate)
            text += " " + result.arm.name + " " +
                    annealing_text(result.arm, trial.annealing) +
                    (result.arm.rescheduling ? " " : "") +
                    loss_text(trial.outcome) + ",";
    text.back() = '\n';
    if (both)
      text += "utilisation " +
              to_text(both->facts.utilisation / sync.facts.utilisation) +
              " times that of sync\n";
    if (both && stash)
      text += "weights of stash " +
              to_text(stash->facts.weights / both->facts.weights) +
              " times those of pipemare T1+T2\n";
  }
  return text + origins_text(results);
}

std::string plot_text(const Task& task, const std::vector<ArmResult>& results,
                      int depth) {
  std::vector<LossLine> lines;
  for (const ArmResult& result : results)
    if (result.depth == depth && has_outcomes(result))
      lines.push_back(
          {result.arm.name, result.outcomes.front().losses,
           result.facts.step.value() * result.depth / result.stages});
  return loss_plot(task.recipe.task + ", " + std::to_string(depth) + " stages",
                   lines, kWindow);
}

}  // namespace pipewright
