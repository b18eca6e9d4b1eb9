// pipewright compare: every planner on the same problem, ranked by the
// simulator.

#include <algorithm>
#include <iostream>

#include "cli/plan/planning.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/planners/choice.h"

namespace pipewright::cli {
namespace {

struct CompareOptions {
  ProblemOptions problem;
  std::vector<std::string> methods;  // empty: sync, and the others' best
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

using Part = std::vector<const Candidate*>;  // those with a plan, ranked

Part part_of(const std::vector<Candidate>& ranked, bool asynchronous) {
  Part part;
  for (const Candidate& candidate : ranked)
    if (candidate.planned && is_asynchronous(candidate.method) == asynchronous)
      part.push_back(&candidate);
  return part;
}

// Then to name it in every row tells nobody anything.
bool has_one_planner(const Part& part) {
  return part.size() > 1 &&
         std::all_of(part.begin(), part.end(), [&](const Candidate* candidate) {
           return candidate->planner == part.front()->planner;
         });
}

std::string ranking(const Part& part, const Candidate* yardstick, int width) {
  using Align = TextTable::Align;
  const bool stale = is_asynchronous(part.front()->method);
  const bool alone = has_one_planner(part);
  std::vector<TextTable::Column> columns = {
      {"planner", Align::Left},   {"method", Align::Left},
      {"schedule", Align::Left},  {"stages", Align::Left},
      {"mb", Align::Right},       {"step", Align::Right},
      {"speed-up", Align::Right}, {"bubble", Align::Right},
      {"memory", Align::Right},   {"traffic", Align::Right},
      {"gap", Align::Right}};
  if (stale) columns.push_back({"stale", Align::Right});
  if (alone) columns.erase(columns.begin());
  TextTable table(columns);
  for (const Candidate* candidate : part) {
    const Planned& planned = *candidate->planned;
    const Estimate& estimate = planned.estimate;
    std::vector<std::string> row = {
        candidate->planner,
        to_text(candidate->method),
        schedule_text(planned.plan),
        replicas_text(planned.plan),
        std::to_string(planned.plan.microbatch),
        to_text(estimate.step),
        yardstick ? to_text(yardstick->planned->estimate.step / estimate.step)
                  : "-",
        percent(estimate.bubble),
        to_text(largest_memory(planned)),
        to_text(estimate.traffic),
        percent(gap(planned))};
    if (stale) row.push_back(to_text(estimate.staleness));
    if (alone) row.erase(row.begin());
    table.add_row(row);
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

std::string explanation(const Part& part) {
  if (part.empty()) return "No planner found a plan.";
  const Planned& first = *part[0]->planned;
  const std::string name = part[0]->planner;
  for (const Candidate* other : part) {
    if (other->method != part[0]->method) continue;
    const double ratio = other->planned->estimate.step / first.estimate.step;
    if (ratio > 1.001)
      return name + " is first, " + to_text(ratio, 3) + " times as fast as " +
             other->planner + ", because " + reason(first, *other->planned) +
             ".";
  }
  return name + " is first; the others that found a plan are as fast.";
}

// What is won without waiting for each other, and what it costs.
std::string trade(const Part& drained, const Part& stale) {
  if (drained.empty() || stale.empty()) return "";
  const Planned& first = *stale[0]->planned;
  const double ratio = drained[0]->planned->estimate.step / first.estimate.step;
  if (ratio < 1.005)
    return "None of them is faster than the best synchronous plan.\n";
  return "Without draining, " + to_text(stale[0]->method) + " makes " +
         to_text(ratio, 3) +
         " times the steps of the best synchronous plan, with weights up to " +
         to_text(first.estimate.staleness) + " steps old.\n";
}

void print_ranked(const std::vector<Candidate>& ranked,
                  const CompareOptions& options) {
  const Part drained = part_of(ranked, false), stale = part_of(ranked, true);
  const Candidate* yardstick = data_parallel(ranked);
  if (!drained.empty()) {
    std::cout << ranking(drained, yardstick, options.output.width) << "\n"
              << explanation(drained) << "\n";
    const Planned& first = *drained[0]->planned;
    if (first.lower_bound > Seconds(0))
      std::cout << "No plan can be faster than " << to_text(first.lower_bound)
                << "; the first is within " << percent(gap(first))
                << " of that.\n";
  }
  if (!stale.empty())
    std::cout << (drained.empty() ? "" : "\n")
              << "Asynchronous: no drain between steps; \"stale\" is how many "
                 "steps old weights may be\nwhen read, which changes training. "
                 "The step is that of the steady state.\n"
              << (has_one_planner(stale) ? "The best plan of each method, by " +
                                               stale.front()->planner + ":\n"
                                         : "")
              << ranking(stale, yardstick, options.output.width) << "\n"
              << (drained.empty() ? explanation(stale) + "\n"
                                  : trade(drained, stale));
  if (drained.empty() && stale.empty()) std::cout << explanation({}) << "\n";
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
  const Part drained = part_of(ranked, false);
  json.set("why",
           explanation(drained.empty() ? part_of(ranked, true) : drained));
  json.set("interrupted", Watch::was_interrupted());
  std::cout << json.to_text();
}

// Where no method is asked for: all planners synchronously, and beside them the
// best plan of each method that does not drain.
Result<std::vector<Candidate>> compared(const CompareOptions& options,
                                        const LoadedProblem& loaded) {
  const bool asked = !options.methods.empty();
  PIPEWRIGHT_TRY(
      const std::vector<Method> methods,
      parse_methods(asked ? options.methods
                          : std::vector<std::string>{"sync", "stash", "2bw",
                                                     "pipemare"}));
  Watch watch;
  std::vector<Candidate> all;
  for (Method method : methods) {
    const bool only_best = !asked && is_asynchronous(method);
    if (only_best && Watch::was_interrupted()) break;
    PIPEWRIGHT_TRY(std::vector<Candidate> some,
                   candidates(loaded, only_best ? "auto" : "", method, watch));
    for (Candidate& candidate : some) all.push_back(std::move(candidate));
  }
  rank(all);
  return all;
}

void run_compare(const CompareOptions& options, Exit& exit) {
  const auto loaded = load_problem(options.problem);
  if (!loaded) return report(loaded.error(), exit);
  const auto ranked = compared(options, *loaded);
  if (!ranked) return report(ranked.error(), exit);
  if (Watch::was_interrupted())
    std::cerr << "interrupted: these are the best so far\n";
  if (options.output.json)
    print_json(*ranked, *loaded);
  else
    print_ranked(*ranked, options);
  if (!ranked->front().planned)
    exit.code = static_cast<int>(ErrorCode::BadConfiguration);
  if (Watch::was_interrupted()) exit.code = kInterruptedExit;
}

}  // namespace

void add_compare(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("compare", "Every planner on one problem, ranked");
  auto options = std::make_shared<CompareOptions>();
  add_problem_options(*command, options->problem);
  command
      ->add_option("--method", options->methods,
                   "How weights move, NAME[,NAME...] or all: every planner "
                   "for each; default: sync, and the best of stash, 2bw and "
                   "pipemare")
      ->delimiter(',');
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_compare(*options, exit); });
}

}  // namespace pipewright::cli
