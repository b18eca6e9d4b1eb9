// pipewright compare: every planner on the same problem, ranked by the
// simulator.

#include <iostream>

#include "cli/planning.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/planners/choice.h"

namespace pipewright::cli {
namespace {

struct Options {
  ProblemOptions problem;
  std::vector<std::string> methods = {"sync"};
  Output output;
};

const Candidate* data_parallel(const std::vector<Candidate>& ranked) {
  for (const Candidate& candidate : ranked)
    if (candidate.planner == "data-parallel" && candidate.planned &&
        candidate.method == Method::Sync)
      return &candidate;
  return nullptr;
}

std::string percent(double share) { return to_text(share * 100) + " %"; }

std::string schedule_text(const Plan& plan) {
  for (const Stage& stage : plan.stages)
    if (stage.recompute) return plan.schedule_name + "+R";
  return plan.schedule_name;
}

std::string ranking(const std::vector<Candidate>& ranked, int width) {
  using Align = TextTable::Align;
  TextTable table({{"planner", Align::Left},
                   {"method", Align::Left},
                   {"schedule", Align::Left},
                   {"stages", Align::Left},
                   {"mb", Align::Right},
                   {"step", Align::Right},
                   {"speed-up", Align::Right},
                   {"bubble", Align::Right},
                   {"memory", Align::Right},
                   {"traffic", Align::Right},
                   {"gap", Align::Right}});
  const Candidate* yardstick = data_parallel(ranked);
  for (const Candidate& candidate : ranked) {
    if (!candidate.planned) continue;
    const Planned& planned = *candidate.planned;
    const Estimate& estimate = planned.estimate;
    table.add_row(
        {candidate.planner, to_text(candidate.method),
         schedule_text(planned.plan), replicas_text(planned.plan),
         std::to_string(planned.plan.microbatch), to_text(estimate.step),
         yardstick ? to_text(yardstick->planned->estimate.step / estimate.step)
                   : "-",
         percent(estimate.bubble), to_text(largest_memory(planned)),
         to_text(estimate.traffic), percent(gap(planned))});
  }
  return table.to_text(width);
}

// What sets the first apart from the second that is really slower.
std::string reason(const Planned& first, const Planned& second) {
  std::vector<std::string> reasons;
  const auto devices = [](const Planned& p) { return p.plan.devices.size(); };
  if (first.estimate.bubble < second.estimate.bubble - 0.005)
    reasons.push_back("its devices wait " + percent(first.estimate.bubble) +
                      " of the time, not " + percent(second.estimate.bubble));
  if (first.estimate.traffic < second.estimate.traffic)
    reasons.push_back("it moves " + to_text(first.estimate.traffic) +
                      " a step, not " + to_text(second.estimate.traffic));
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
  if (reasons.empty()) reasons.push_back("its slowest stage has less to do");
  return join(reasons, "; ");
}

std::string explanation(const std::vector<Candidate>& ranked) {
  if (ranked.empty() || !ranked[0].planned) return "No planner found a plan.";
  const Planned& first = *ranked[0].planned;
  const std::string name = ranked[0].planner;
  for (const Candidate& other : ranked) {
    if (!other.planned || other.method != ranked[0].method) continue;
    const double ratio = other.planned->estimate.step / first.estimate.step;
    if (ratio > 1.001)
      return name + " is first, " + to_text(ratio, 3) + " times as fast as " +
             other.planner + ", because " + reason(first, *other.planned) + ".";
  }
  return name + " is first; the others that found a plan are as fast.";
}

void print(const std::vector<Candidate>& ranked, const Options& options) {
  std::cout << ranking(ranked, options.output.width) << "\n"
            << explanation(ranked) << "\n";
  if (ranked[0].planned && ranked[0].planned->lower_bound > Seconds(0))
    std::cout << "No plan can be faster than "
              << to_text(ranked[0].planned->lower_bound)
              << "; the first is within " << percent(gap(*ranked[0].planned))
              << " of that.\n";
  for (const Candidate& candidate : ranked)
    if (!candidate.planned)
      std::cout << candidate.planner << " (" << to_text(candidate.method)
                << "): " << candidate.refusal << "\n";
}

void print_json(const std::vector<Candidate>& ranked,
                const LoadedProblem& loaded) {
  Json rows = Json::array();
  const Candidate* yardstick = data_parallel(ranked);
  for (const Candidate& candidate : ranked) {
    Json row = to_json(candidate, loaded);
    if (candidate.planned && yardstick)
      row.set("speedup", yardstick->planned->estimate.step /
                             candidate.planned->estimate.step);
    rows.push(std::move(row));
  }
  Json json = Json::object();
  json.set("plans", std::move(rows));
  json.set("why", explanation(ranked));
  json.set("interrupted", Watch::was_interrupted());
  std::cout << json.to_text();
}

void run(const Options& options, Exit& exit) {
  const auto methods = parse_methods(options.methods);
  if (!methods) return report(methods.error(), exit);
  const auto loaded = load_problem(options.problem);
  if (!loaded) return report(loaded.error(), exit);
  auto ranked = candidates(*loaded, "", *methods);
  if (!ranked) return report(ranked.error(), exit);
  rank(*ranked);
  if (Watch::was_interrupted())
    std::cerr << "interrupted: these are the best so far\n";
  if (options.output.json)
    print_json(*ranked, *loaded);
  else
    print(*ranked, options);
  if (!ranked->front().planned)
    exit.code = static_cast<int>(ErrorCode::BadConfiguration);
}

}  // namespace

void add_compare(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("compare", "Every planner on one problem, ranked");
  auto options = std::make_shared<Options>();
  add_problem_options(*command, options->problem);
  command
      ->add_option("--method", options->methods,
                   "How weights move, NAME[,NAME...] or all; default: sync")
      ->delimiter(',');
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run(*options, exit); });
}

}  // namespace pipewright::cli
