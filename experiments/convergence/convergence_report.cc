#include "experiments/convergence/convergence_report.h"

#include <algorithm>

#include "experiments/convergence/loss_plot.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

constexpr int kWindow = 20;

const ArmResult* found(const std::vector<ArmResult>& results,
                       const std::string& name, int depth) {
  for (const ArmResult& result : results)
    if (result.arm.name == name && result.depth == depth &&
        result.refusal.empty())
      return &result;
  return nullptr;
}

// Synchronous training is the same at every depth; its time is not.
const ArmResult& sync_at(const std::vector<ArmResult>& results, int depth) {
  const ArmResult* at = found(results, "sync", depth);
  return at ? *at : results.front();
}

std::string result_text(const Task& task, const ArmResult& result) {
  if (!result.refusal.empty()) return "-";
  const int diverged = result.num_diverged();
  if (diverged == static_cast<int>(result.outcomes.size())) return "diverged";
  const double unit = task.counts_right_answers ? 100 : 1;
  std::string text = to_text(result.mean() * unit, 4) + " +-" +
                     to_text(result.spread() * unit / 2, 2);
  if (diverged > 0) text += ", " + std::to_string(diverged) + " diverged";
  return text;
}

std::string time_text(const ArmResult& result, const ArmResult& sync) {
  if (!result.refusal.empty()) return "-";
  const double target = synchronous_level(sync);
  const double steps = steps_to(result, target);
  if (steps < 0) return "never";
  // Fewer stages for the same layers take longer each.
  const double share = static_cast<double>(result.depth) / result.stages;
  const double own = steps * result.facts.step.value() * share;
  const double reference = steps_to(sync, target) * sync.facts.step.value();
  return to_text(own / reference, 3) + "x";
}

std::vector<int> depths(const std::vector<ArmResult>& results) {
  std::vector<int> all;
  for (const ArmResult& result : results)
    if (std::find(all.begin(), all.end(), result.depth) == all.end())
      all.push_back(result.depth);
  return all;
}

}  // namespace

int ArmResult::num_diverged() const {
  return static_cast<int>(
      std::count_if(outcomes.begin(), outcomes.end(),
                    [](const Outcome& outcome) { return outcome.diverged; }));
}

double ArmResult::mean() const {
  double sum = 0;
  int count = 0;
  for (const Outcome& outcome : outcomes)
    if (!outcome.diverged) sum += outcome.result, ++count;
  return count > 0 ? sum / count : 0;
}

double ArmResult::spread() const {
  double least = 1e300, most = -1e300;
  for (const Outcome& outcome : outcomes) {
    if (outcome.diverged) continue;
    least = std::min(least, outcome.result);
    most = std::max(most, outcome.result);
  }
  return most >= least ? most - least : 0;
}

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
    const auto losses = smoothed(outcome.losses, kWindow);
    if (losses.empty()) return 0;
    sum += losses[losses.size() / 2];
  }
  return sum / static_cast<double>(sync.outcomes.size());
}

std::string report_text(const Task& task,
                        const std::vector<ArmResult>& results) {
  using Align = TextTable::Align;
  TextTable table(
      {{"method"},
       {"P", Align::Right},
       {"delay", Align::Right},
       {task.counts_right_answers ? "accuracy %" : "test loss", Align::Right},
       {"used", Align::Right},
       {"weights", Align::Right},
       {"activations", Align::Right},
       {"time to sync", Align::Right}});
  for (std::size_t i = 0; i < results.size(); ++i) {
    const ArmResult& result = results[i];
    if (i > 0 && result.depth != results[i - 1].depth) table.add_rule();
    if (!result.refusal.empty()) {
      table.add_row({result.arm.name, std::to_string(result.stages), "", "-"});
      continue;
    }
    table.add_row({result.arm.name, std::to_string(result.stages),
                   to_text(result.facts.delay), result_text(task, result),
                   to_text(result.facts.utilisation * 100) + " %",
                   to_text(result.facts.weights),
                   to_text(result.facts.activations),
                   time_text(result, sync_at(results, result.depth))});
  }
  return task.name + ": " + std::to_string(task.model.num_layers()) +
         " layers, " + std::to_string(task.num_weighted()) + " with weights, " +
         std::to_string(task.microbatches()) + " microbatches of " +
         std::to_string(task.microbatch) + ", " + std::to_string(task.steps) +
         " steps, " + task.optimizer.name + " at " + to_text(task.rate) + ", " +
         std::to_string(results.front().outcomes.size()) + " seeds\n\n" +
         table.to_text(120);
}

std::string verdict_text(const Task& task,
                         const std::vector<ArmResult>& results) {
  const double unit = task.counts_right_answers ? 100 : 1;
  const std::string points = task.counts_right_answers ? " points" : "";
  std::string text;
  for (const int depth : depths(results)) {
    const ArmResult& sync = sync_at(results, depth);
    const ArmResult* both = found(results, "pipemare T1+T2", depth);
    const ArmResult* naive = found(results, "naive", depth);
    const ArmResult* stash = found(results, "stash", depth);
    if (!both || !naive) continue;
    text += "P = " + std::to_string(depth) + ": pipemare T1+T2 ";
    text += both->num_diverged() > 0
                ? "diverges"
                : "is " + to_text((both->mean() - sync.mean()) * unit, 2) +
                      points + " from sync";
    text += ", naive ";
    text += naive->num_diverged() > 0
                ? "diverges"
                : "is " + to_text((naive->mean() - sync.mean()) * unit, 2) +
                      points + " from sync";
    text += "; utilisation over sync " +
            to_text(both->facts.utilisation / sync.facts.utilisation) + "x";
    if (stash)
      text += ", weights of stash over pipemare " +
              to_text(stash->facts.weights / both->facts.weights) + "x";
    text += "\n";
  }
  return text;
}

std::string plot_text(const Task& task, const std::vector<ArmResult>& results,
                      int depth) {
  std::vector<LossLine> lines;
  for (const ArmResult& result : results)
    if (result.depth == depth && result.refusal.empty())
      lines.push_back(
          {result.arm.name, result.outcomes.front().losses,
           result.facts.step.value() * result.depth / result.stages});
  return loss_plot(task.name + ", " + std::to_string(depth) + " stages", lines,
                   kWindow);
}

}  // namespace pipewright
