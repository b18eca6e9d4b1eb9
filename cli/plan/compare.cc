// pipewright compare: runs every planner on the same problem and ranks the
// plans by their simulated step.

#include <algorithm>
#include <iostream>

#include "cli/plan/comparison.h"
#include "cli/plan/minibatch_choice.h"
#include "cli/plan/planning.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/cluster_table.h"
#include "pipewright/planners/choice.h"
#include "pipewright/planners/shared_time.h"

namespace pipewright::cli {
namespace {

struct CompareOptions {
  ProblemOptions problem;
  std::vector<std::string> methods;  // empty: sync, and the best of the others
  Output output;
};

// Of the budget: a method with all planners, one with auto alone has 1.
constexpr double kAllPlannersWeight = 6;

const Candidate* data_parallel(const std::vector<Candidate>& ranked) {
  for (const Candidate& candidate : ranked)
    if (candidate.planner == "data-parallel" && candidate.planned &&
        candidate.method == Method::Sync)
      return &candidate;
  return nullptr;
}

// Of the columns that there are.
std::string legend(bool has_speedup) {
  return std::string("stages: number x replicas; samples: per microbatch;") +
         (has_speedup ? " speedup: over data-parallel;" : "") +
         "\nmemory: of the device that uses the most; sent: per step; "
         "gap: above the lower bound;\n+R: with recompute\n";
}

constexpr const char* kCutShortMark = " *";

// "" if every planner had the time that it needs.
std::string cut_short_text(const std::vector<Candidate>& ranked) {
  std::vector<std::string> names;
  for (const Candidate& candidate : ranked)
    if (candidate.was_cut_short)
      names.push_back(is_asynchronous(candidate.method)
                          ? candidate.planner + " (" +
                                to_text(candidate.method) + ")"
                          : candidate.planner);
  if (names.empty()) return "";
  return std::string("*: cut short by ") +
         (Watch::was_interrupted() ? "Ctrl-C" : "the budget") +
         ", with more time the plan may be better: " + join(names, ", ") + "\n";
}

std::string schedule_text(const Plan& plan) {
  std::string text =
      plan.schedule_name.empty() ? "own order" : plan.schedule_name;
  return has_recompute(plan) ? text + "+R" : text;
}

using Part = std::vector<const Candidate*>;  // those with a plan, ranked

Part part_of(const std::vector<Candidate>& ranked, bool asynchronous) {
  Part part;
  for (const Candidate& candidate : ranked)
    if (candidate.planned && is_asynchronous(candidate.method) == asynchronous)
      part.push_back(&candidate);
  return part;
}

// A column that is equal in all rows is left out.
bool has_one_planner(const Part& part) {
  return part.size() > 1 &&
         std::all_of(part.begin(), part.end(), [&](const Candidate* candidate) {
           return candidate->planner == part.front()->planner;
         });
}

bool has_one_method(const Part& part) {
  return std::all_of(part.begin(), part.end(), [&](const Candidate* candidate) {
    return candidate->method == part.front()->method;
  });
}

struct Cell {
  std::string title;
  TextTable::Align align;
  std::string text;
};

std::vector<Cell> cells_of(const Candidate& candidate, const Part& part,
                           const Candidate* baseline) {
  constexpr auto kLeft = TextTable::Align::Left;
  constexpr auto kRight = TextTable::Align::Right;
  const Planned& planned = *candidate.planned;
  const Estimate& estimate = planned.estimate;
  std::vector<Cell> cells;
  if (!has_one_planner(part))
    cells.push_back(
        {"planner", kLeft,
         candidate.planner + (candidate.was_cut_short ? kCutShortMark : "")});
  if (!has_one_method(part))
    cells.push_back({"method", kLeft, to_text(candidate.method)});
  cells.push_back({"schedule", kLeft, schedule_text(planned.plan)});
  cells.push_back({"stages", kLeft, replicas_text(planned.plan)});
  cells.push_back({"samples", kRight, std::to_string(planned.plan.microbatch)});
  cells.push_back({"step", kRight, to_text(estimate.step)});
  if (baseline)
    cells.push_back(
        {"speedup", kRight,
         to_text(baseline->planned->estimate.step / estimate.step)});
  cells.push_back({"bubble", kRight, percent(estimate.bubble)});
  cells.push_back({"memory", kRight, to_text(largest_memory(planned))});
  cells.push_back({"sent", kRight, to_text(estimate.traffic)});
  cells.push_back({"gap", kRight, percent(gap(planned))});
  if (is_asynchronous(candidate.method))
    cells.push_back({"stale", kRight, to_text(estimate.staleness)});
  return cells;
}

std::string ranking(const Part& part, const Candidate* baseline, int width) {
  std::vector<TextTable::Column> columns;
  for (const Cell& cell : cells_of(*part.front(), part, baseline))
    columns.push_back({cell.title, cell.align});
  TextTable table(columns);
  for (const Candidate* candidate : part) {
    std::vector<std::string> row;
    for (const Cell& cell : cells_of(*candidate, part, baseline))
      row.push_back(cell.text);
    table.add_row(row);
  }
  return table.to_text(width);
}

// Why the first plan is faster than the second.
std::string reason(const Planned& first, const Planned& second) {
  std::vector<std::string> reasons;
  const auto devices = [](const Planned& p) { return p.plan.devices.size(); };
  if (first.estimate.bubble < second.estimate.bubble - 0.005)
    reasons.push_back("its bubble is " + percent(first.estimate.bubble) +
                      ", not " + percent(second.estimate.bubble));
  if (first.estimate.traffic < second.estimate.traffic)
    reasons.push_back("it sends " + to_text(first.estimate.traffic) +
                      " per step, not " + to_text(second.estimate.traffic));
  if (devices(first) > devices(second))
    reasons.push_back("it uses " + std::to_string(devices(first)) +
                      " devices, not " + std::to_string(devices(second)));
  if (first.plan.microbatch > second.plan.microbatch)
    reasons.push_back("its microbatches are larger (" +
                      std::to_string(first.plan.microbatch) + ", not " +
                      std::to_string(second.plan.microbatch) + ")");
  if (first.plan.microbatch < second.plan.microbatch)
    reasons.push_back("its microbatches are smaller (" +
                      std::to_string(first.plan.microbatch) + ", not " +
                      std::to_string(second.plan.microbatch) +
                      "), so the pipeline fills sooner");
  if (reasons.empty()) reasons.push_back("its slowest stage is faster");
  return join(reasons, "; ");
}

std::string explanation(const Part& part) {
  if (part.empty()) return "No planner found a plan.";
  const Planned& first = *part[0]->planned;
  const std::string name = part[0]->planner;
  if (part.size() == 1) return "The only plan is that of " + name + ".";
  for (const Candidate* other : part) {
    if (other->method != part[0]->method) continue;
    const double ratio = other->planned->estimate.step / first.estimate.step;
    if (ratio > 1.001)
      return name + " is first, " + to_text(ratio, 3) + " times as fast as " +
             other->planner + ", because " + reason(first, *other->planned) +
             ".";
  }
  return name + " is first; the other plans are as fast.";
}

// What asynchronous plans gain, and what they cost.
std::string trade_off(const Part& synchronous, const Part& stale) {
  if (synchronous.empty() || stale.empty()) return "";
  const Planned& first = *stale[0]->planned;
  const double ratio =
      synchronous[0]->planned->estimate.step / first.estimate.step;
  if (ratio < 1.005)
    return "None of them is faster than the best synchronous plan.\n";
  const double age = first.estimate.staleness;
  return to_text(stale[0]->method) + " makes " + to_text(ratio, 3) +
         " times as many steps per second as the best synchronous plan, with "
         "weights up to " +
         to_text(age) + (age == 1 ? " step old.\n" : " steps old.\n");
}

void print_ranked(const std::vector<Candidate>& ranked,
                  const LoadedProblem& loaded, const CompareOptions& options) {
  const Part synchronous = part_of(ranked, false),
             stale = part_of(ranked, true);
  const Candidate* baseline = data_parallel(ranked);
  if (!synchronous.empty()) {
    std::cout << ranking(synchronous, baseline, options.output.width) << "\n"
              << explanation(synchronous) << "\n";
    const Planned& first = *synchronous[0]->planned;
    if (first.lower_bound > Seconds(0))
      std::cout << "No plan can be faster than " << to_text(first.lower_bound)
                << "; the first takes " << percent(gap(first))
                << " longer than that.\n";
  }
  if (!stale.empty())
    std::cout
        << (synchronous.empty() ? "" : "\n")
        << "Asynchronous plans do not drain the pipeline between steps. "
           "Weights may be up to \"stale\"\nsteps old when they are read, "
           "which changes training. Steps are in steady state.\n"
        << (has_one_planner(stale) ? "The best plan of each method, from " +
                                         stale.front()->planner + ":\n"
                                   : "")
        << ranking(stale, baseline, options.output.width) << "\n"
        << (synchronous.empty() ? explanation(stale) + "\n"
                                : trade_off(synchronous, stale));
  if (synchronous.empty() && stale.empty())
    std::cout << explanation({}) << "\n";
  else
    std::cout << legend(baseline != nullptr) << memory_note(*loaded.cluster)
              << cut_short_text(ranked);
  for (const Candidate& candidate : ranked)
    std::cout << layer_groups_text(candidate, *loaded.profile);
  for (const Candidate& candidate : ranked)
    if (!candidate.planned)
      std::cout << candidate.planner << " (" << to_text(candidate.method)
                << "): " << candidate.refusal << "\n";
}

}  // namespace

Json ranking_json(const std::vector<Candidate>& ranked,
                  const LoadedProblem& loaded) {
  Json rows = Json::array();
  const Candidate* baseline = data_parallel(ranked);
  for (const Candidate& candidate : ranked) {
    Json row = to_json(candidate, loaded);
    if (candidate.planned && baseline)
      row.set("speedup", baseline->planned->estimate.step /
                             candidate.planned->estimate.step);
    rows.push(std::move(row));
  }
  Json json = Json::object();
  json.set("plans", std::move(rows));
  const Part synchronous = part_of(ranked, false);
  json.set("why", explanation(synchronous.empty() ? part_of(ranked, true)
                                                  : synchronous));
  json.set("minibatch", loaded.problem.minibatch);
  json.set("interrupted", Watch::was_interrupted());
  return json;
}

Result<std::vector<Candidate>> ranked_plans(
    const std::vector<std::string>& asked_methods,
    const LoadedProblem& loaded) {
  const bool asked = !asked_methods.empty();
  PIPEWRIGHT_TRY(
      const std::vector<Method> methods,
      parse_methods(asked ? asked_methods
                          : std::vector<std::string>{"sync", "stash", "2bw",
                                                     "pipemare"}));
  Watch watch;
  const auto only_best = [&](Method method) {
    return !asked && is_asynchronous(method);
  };
  const auto weight = [&](Method method) {
    return only_best(method) ? 1 : kAllPlannersWeight;
  };
  double total = 0;
  for (Method method : methods) total += weight(method);
  SharedTime time(loaded.problem.budget, total, 1, watch.clock());
  std::vector<Candidate> all;
  for (Method method : methods) {
    const Seconds limit = time.take(weight(method));
    if (only_best(method)) {
      if (Watch::was_interrupted()) break;
      all.push_back(best_candidate(loaded, method, watch, limit, all));
      continue;
    }
    PIPEWRIGHT_TRY(std::vector<Candidate> some,
                   candidates(loaded, "", method, watch, limit));
    for (Candidate& candidate : some) all.push_back(std::move(candidate));
  }
  sort_by_step(all);
  return all;
}

namespace {

Result<MinibatchChoice> compared_minibatch(const CompareOptions& options) {
  if (options.problem.minibatch > 0)
    return MinibatchChoice{{}, options.problem.minibatch};
  Watch watch;
  PIPEWRIGHT_TRY(
      const MinibatchChoice choice,
      choose_minibatch(options.problem, "auto", Method::Sync, watch));
  if (!options.output.json)
    std::cout << minibatch_table(choice, options.output.width);
  return choice;
}

void run_compare(CompareOptions options, Exit& exit) {
  const auto minibatch = compared_minibatch(options);
  if (!minibatch) {
    report(minibatch.error(), exit);
    if (Watch::was_interrupted()) exit.code = kInterruptedExit;
    return;
  }
  options.problem.minibatch = minibatch->minibatch;
  const auto loaded = load_problem(options.problem);
  if (!loaded) return report(loaded.error(), exit);
  const auto ranked = minibatch->was_interrupted
                          ? std::vector{minibatch->chosen()}
                          : ranked_plans(options.methods, *loaded);
  if (!ranked) return report(ranked.error(), exit);
  if (Watch::was_interrupted())
    std::cerr << "interrupted: these are the best plans so far\n";
  if (options.output.json)
    std::cout << ranking_json(*ranked, *loaded).to_text();
  else
    print_ranked(*ranked, *loaded, options);
  if (!ranked->front().planned)
    exit.code = static_cast<int>(ErrorCode::BadConfiguration);
  if (Watch::was_interrupted()) exit.code = kInterruptedExit;
}

}  // namespace

void add_compare(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "compare", "Run every planner on one problem and rank the plans");
  auto options = std::make_shared<CompareOptions>();
  options->problem.budget = kComparisonSeconds;
  add_problem_options(*command, options->problem, kComparisonBudget);
  command
      ->add_option("--method", options->methods,
                   "Training methods, NAME[,NAME...] or all: sync, stash, "
                   "2bw, pipemare, ... Default: sync with every planner, and "
                   "the best plan of stash, 2bw and pipemare")
      ->delimiter(',');
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_compare(*options, exit); });
}

}  // namespace pipewright::cli
