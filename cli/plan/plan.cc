// pipewright plan: where to cut a model, which device gets which stage, and the
// order of the microbatches.

#include "pipewright/plan/plan.h"

#include <algorithm>
#include <iostream>

#include "cli/plan/minibatch_choice.h"
#include "cli/plan/planning.h"
#include "cli/plan/stages_text.h"
#include "cli/plan_derived_times.h"
#include "cli/validate/memory_proof.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/cluster_table.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/planner_parts.h"
#include "pipewright/profile/split_profile.h"

namespace pipewright::cli {
namespace {

struct PlanOptions {
  ProblemOptions problem;
  std::string planner, method = "sync", file;
  std::vector<std::string> settings;  // "coarse-partition=off"
  Output output;
};

std::string planner_of(const PlanOptions& options) {
  return options.planner.empty() ? "auto" : options.planner;
}

// The parts that --set switches off.
Result<std::vector<std::string>> parts_off(const PlanOptions& options) {
  std::vector<std::string> parts;
  for (const std::string& setting : options.settings) {
    const std::size_t equals = std::min(setting.find('='), setting.size());
    const std::string value = setting.substr(equals);
    if (equals == 0 || (value != "=off" && value != "=on"))
      return bad_configuration("--set " + setting + ": expected PART=off",
                               "plan --help lists the parts of planners");
    if (value == "=off") parts.push_back(setting.substr(0, equals));
  }
  return parts;
}

Result<Candidate> best_candidate(const PlanOptions& options,
                                 const LoadedProblem& loaded,
                                 const MinibatchChoice& minibatch) {
  if (minibatch.was_interrupted) return minibatch.chosen();
  PIPEWRIGHT_TRY(const std::vector<Method> methods,
                 parse_methods({options.method}));
  PIPEWRIGHT_TRY(const std::vector<std::string> off, parts_off(options));
  const std::string name = planner_of(options);
  PIPEWRIGHT_TRY(const Planner* planner, find_planner(name));
  std::unique_ptr<Planner> without;
  if (!off.empty()) {
    PIPEWRIGHT_TRY(without, planner_without(name, off));
    planner = without.get();
  }
  Watch watch;
  std::vector<Candidate> all;
  for (Method method : methods)
    all.push_back(candidate_of(*planner, loaded, method, watch));
  sort_by_step(all);
  if (all.front().planned) return std::move(all.front());
  Error error = bad_configuration(all.front().refusal);
  for (std::size_t i = 1; i < all.size(); ++i)
    error.others.push_back(bad_configuration(all[i].refusal));
  return error;
}

std::string stages_table(const Planned& planned, const LoadedProblem& loaded,
                         int width) {
  using Align = TextTable::Align;
  const std::vector<Stage> stages = whole_stages(planned.plan);
  bool split = false;
  for (const Stage& stage : stages)
    split = split || stage.forward != stage.backward;
  std::vector<TextTable::Column> columns = {{"stage", Align::Right},
                                            {"layers", Align::Left}};
  if (split) columns.push_back({"backward", Align::Left});
  columns.push_back({"devices", Align::Left});
  columns.push_back({"memory", Align::Right});
  TextTable table(columns);
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    std::vector<DeviceId> devices;
    Bytes memory;
    for (WorkerId worker : stage.workers) {
      devices.push_back(planned.plan.devices[worker.index()]);
      memory = std::max(memory, planned.estimate.memory[worker.index()]);
    }
    std::vector<std::string> row = {
        std::to_string(s), layers_text(stage.forward, *loaded.profile) +
                               (stage.recompute ? ", recompute" : "")};
    if (split) row.push_back(layers_text(stage.backward, *loaded.profile));
    std::sort(devices.begin(), devices.end());
    row.push_back(devices_text(devices, *loaded.cluster));
    row.push_back(to_text(memory));
    table.add_row(row);
  }
  return table.to_text(width) + memory_note(*loaded.cluster) +
         time_overheads_text(*loaded.cluster);
}

// "1 of 4 devices is not used: V100.3", or "".
std::string unused_text(const Plan& plan, const Cluster& cluster) {
  const std::vector<DeviceId> unused = unused_devices(plan, cluster);
  if (unused.empty()) return "";
  return std::to_string(unused.size()) + " of " +
         counted(cluster.num_devices(), "device") +
         (unused.size() == 1 ? " is" : " are") +
         " not used: " + devices_text(unused, cluster) + "\n";
}

// What asynchronous methods change, or "".
std::string staleness_line(const Planned& planned) {
  if (!is_asynchronous(planned.plan.method)) return "";
  const double age = planned.estimate.staleness;
  return "weights are up to " + to_text(age) + (age == 1 ? " step" : " steps") +
         " old when they are read, which changes training\n";
}

// ", in bfloat16 with float32 masters"; "" for a profile, which does not say.
std::string numbers_text(const std::string& type) {
  if (type.empty()) return "";
  return ", in " + type + (has_masters(type) ? " with float32 masters" : "");
}

void print_plan(const Candidate& candidate, const LoadedProblem& loaded,
                const std::vector<DerivedTimes>& derived,
                const PlanOptions& options) {
  const Planned& planned = *candidate.planned;
  const Plan& plan = planned.plan;
  std::cout << stages_table(planned, loaded, options.output.width)
            << unused_text(plan, *loaded.cluster) << "\n"
            << plan.planner << ", " << to_text(plan.method) << ", "
            << (plan.schedule_name.empty() ? "own order" : plan.schedule_name)
            << ": " << counted(plan.num_microbatches(), "microbatch") << " of "
            << counted(plan.microbatch, "sample")
            << numbers_text(plan.number_type) << "\n"
            << "step " << to_text(planned.estimate.step) << ", bubble "
            << percent(planned.estimate.bubble) << ", sent "
            << to_text(planned.estimate.traffic) << " per step, planned in "
            << to_text(candidate.planning) << "\n"
            << staleness_line(planned) << derived_line(derived);
  if (planned.lower_bound > Seconds(0)) std::cout << gap_text(planned) << "\n";
  std::cout << layer_groups_text(candidate, *loaded.profile);
  if (!planned.why.empty()) std::cout << planned.why << "\n";
}

// Planners only choose plans that can be lowered.
std::vector<DerivedTimes> derived_times_of(const Candidate& candidate,
                                           const LoadedProblem& loaded) {
  const auto program = lower(candidate.planned->plan, *loaded.profile);
  if (!program) return {};
  return plan_derived_times(*program, *loaded.profile, *loaded.cluster);
}

// The simulated peak fits, but it depends on timing; only the memory bound does
// not. Computing the bound takes time proportional to the square of the
// workers, so it is skipped for many workers and if there is plenty of memory.
void warn_if_memory_is_tight(const Planned& planned,
                             const LoadedProblem& loaded) {
  constexpr std::size_t kMaxWorkers = 128;
  bool is_plenty = true;
  std::vector<Bytes> limits;
  for (DeviceId device : planned.plan.devices) {
    limits.push_back(loaded.problem.memory_of(device));
    const Bytes peak = planned.estimate.memory[limits.size() - 1];
    is_plenty = is_plenty && peak * std::int64_t{2} < limits.back();
  }
  if (is_plenty || limits.size() > kMaxWorkers) return;
  const auto program = lower(planned.plan, *loaded.profile);
  if (!program) return;
  const auto proof = memory_proof(*program, limits);
  if (proof) return;
  const std::string& why = proof.error().message;  // ends with a drawing
  std::cerr << "warning: the plan fits in the simulation, but may not fit if "
               "transfers are late: "
            << proof.error().where << ": " << why.substr(0, why.find('\n'))
            << "\n";
}

// The size, with a table of those that were tried.
Result<MinibatchChoice> minibatch_of(const PlanOptions& options) {
  if (options.problem.minibatch > 0)
    return MinibatchChoice{{}, options.problem.minibatch};
  PIPEWRIGHT_TRY(const std::vector<Method> methods,
                 parse_methods({options.method}));
  Watch watch;
  return choose_minibatch(options.problem, planner_of(options), methods.front(),
                          watch);
}

// `auto` compares plans of one model.
bool may_split_layers(const PlanOptions& options) {
  return !options.planner.empty() && options.planner != "auto";
}

// From here on the problem is that of the model that the plan is for.
Result<void> follow_splits(Planned& planned, LoadedProblem& loaded) {
  if (planned.plan.model == loaded.profile->model) return {};
  PIPEWRIGHT_TRY(Profile split, with_splits(*loaded.profile, planned.plan.model,
                                            loaded.cluster->kinds()));
  loaded.profile = std::make_unique<const Profile>(std::move(split));
  loaded.problem.profile = loaded.profile.get();
  set_estimators(loaded.problem);
  planned.lower_bound = lower_bound(loaded.problem);
  return {};
}

void run_plan(PlanOptions options, Exit& exit) {
  const auto minibatch = minibatch_of(options);
  if (!minibatch) {
    report(minibatch.error(), exit);
    if (Watch::was_interrupted()) exit.code = kInterruptedExit;
    return;
  }
  options.problem.minibatch = minibatch->minibatch;
  auto loaded = load_problem(options.problem);
  if (!loaded) return report(loaded.error(), exit);
  loaded->problem.may_split_layers = may_split_layers(options);
  auto best = best_candidate(options, *loaded, *minibatch);
  if (!best) report(best.error(), exit);
  if (Watch::was_interrupted()) exit.code = kInterruptedExit;
  if (!best) return;
  if (auto follows = follow_splits(*best->planned, *loaded); !follows)
    return report(follows.error(), exit);
  if (Watch::was_interrupted())
    std::cerr << "interrupted: this is the best plan so far\n";
  if (!options.file.empty()) {
    const Json json = to_json(best->planned->plan);
    if (auto written = write_file(options.file, json.to_text()); !written)
      return report(written.error(), exit);
    std::cerr << "wrote " << options.file << "\n";
  }
  warn_if_memory_is_tight(*best->planned, *loaded);
  const std::vector<DerivedTimes> derived = derived_times_of(*best, *loaded);
  if (options.output.json) {
    Json json = to_json(*best, *loaded);
    if (!minibatch->tried.empty())
      json.set("minibatches", minibatch_json(*minibatch));
    json.set("derived_times", to_json(derived));
    std::cout << json.to_text();
    return;
  }
  if (!minibatch->tried.empty())
    std::cout << minibatch_table(*minibatch, options.output.width);
  print_plan(*best, *loaded, derived, options);
}

std::string planner_list() {
  std::string list = "Planners:";
  for (const auto& planner : planners()) {
    const std::string name = planner->name();
    list += "\n  " + name +
            std::string(name.size() < 15 ? 15 - name.size() : 1, ' ') +
            planner->summary();
  }
  return list;
}

std::string part_list() {
  std::string list =
      "Parts of planners for --set PART=off, and what is done without them:";
  for (const PlannerPart& part : planner_parts()) {
    const std::string name = part.planner + ": " + part.name;
    list += "\n  " + name + std::string(33 - name.size(), ' ') + part.instead;
  }
  return list;
}

}  // namespace

void add_plan(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "plan", "Plan the stages, devices and schedule for a model on a cluster");
  auto options = std::make_shared<PlanOptions>();
  add_problem_options(*command, options->problem);
  command->add_option("--planner", options->planner,
                      "Planner, see below; default: auto");
  command
      ->add_option("--set", options->settings,
                   "Switch a part of the planner off, PART=off, see below; "
                   "may be given several times")
      ->expected(1)
      ->take_all();
  command->footer(planner_list() + "\n" + part_list());
  command
      ->add_option("--method", options->method,
                   "Training method: sync, stash, vertical-sync, 2bw, "
                   "pipemare or naive; all: the one with the fastest plan")
      ->capture_default_str();
  command->add_option("-o,--output", options->file,
                      "Write the plan to this file");
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_plan(*options, exit); });
}

}  // namespace pipewright::cli
