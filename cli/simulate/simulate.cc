// pipewright simulate: predicts the timeline of a plan.

#include "pipewright/simulate/simulate.h"

#include <algorithm>
#include <iostream>
#include <optional>

#include "cli/command.h"
#include "cli/number_in.h"
#include "cli/plan_derived_times.h"
#include "cli/simulate/lowered_plan.h"
#include "cli/simulate/pictures.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/plan/lowering/versions_text.h"
#include "pipewright/timeline/bottleneck.h"
#include "pipewright/timeline/timeline_json.h"

namespace pipewright::cli {
namespace {

// A timeline takes about a hundred bytes per action.
constexpr std::int64_t kMaxActions = 10'000'000;

struct SimulationOptions {
  std::string plan;
  PlanInputs inputs;
  bool draw = false;
  int minibatches = 0;
  Pictures pictures;
  Output output;
};

struct Simulated {
  Program program;
  Timeline timeline;
  std::vector<StageDelay> staleness;
  std::optional<Error> shortage;  // of memory
  std::string title;              // of pictures
  std::vector<StageId> shown_as;  // whole_stage_ids()
  std::string number_type;        // of an estimate
  std::vector<DerivedTimes> derived;
};

std::string title_of(const Plan& plan, const Timeline& timeline) {
  return plan.model + ", " + plan.schedule_name + ", " +
         stage_count_text(plan) + ", " +
         counted(plan.num_microbatches(), "microbatch") + " of " +
         std::to_string(plan.microbatch) + ": step " +
         to_text(timeline.step_seconds) + ", bubble " +
         percent(timeline.bubble);
}

// The worker that lacks the most memory.
std::optional<Error> shortage_of(const Timeline& timeline,
                                 const Cluster& cluster) {
  std::optional<Error> error;
  Bytes largest;
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    const WorkerSummary& worker = timeline.workers[w];
    const DeviceKind& kind = cluster.kind_of(worker.device);
    const Bytes missing = worker.peak.total() - kind.memory;
    if (missing <= largest) continue;
    largest = missing;
    error = bad_configuration(
        "worker " + std::to_string(w) + " needs " +
            to_text(worker.peak.total()) + ", but " + kind.name + " has " +
            to_text(kind.memory),
        "the times hold for devices with enough memory; pipewright plan finds "
        "a plan that fits");
  }
  return error;
}

// The timeline has one span per action.
Result<void> check_length(const Program& program, int minibatches) {
  std::int64_t outside = 0, body = 0;
  for (const WorkerProgram& worker : program.workers) {
    outside += static_cast<std::int64_t>(worker.prologue.size() +
                                         worker.epilogue.size());
    body += static_cast<std::int64_t>(worker.body.size());
  }
  const std::int64_t repetitions =
      std::max(1, program.repetitions(minibatches));
  if (outside + body * repetitions <= kMaxActions) return {};
  return bad_configuration(
      with_thousands(minibatches) + " minibatches have " +
          with_thousands(outside + body * repetitions) +
          " actions; the limit is " + with_thousands(kMaxActions),
      "use at most --minibatches " +
          std::to_string(std::max<std::int64_t>(
              1, (kMaxActions - outside) / std::max<std::int64_t>(1, body))) +
          "; the step is the same in a shorter run");
}

Result<Simulated> simulate_plan(const SimulationOptions& options) {
  PIPEWRIGHT_TRY(LoweredPlan lowered,
                 load_lowered(options.plan, options.inputs));
  PIPEWRIGHT_TRY(const Costs costs,
                 costs_of(lowered.program, lowered.profile, lowered.cluster));
  if (auto fine = check_length(lowered.program, options.minibatches); !fine)
    return fine.error();
  SimulateOptions simulation;
  simulation.minibatches = options.minibatches;
  Timeline timeline = simulate(lowered.program, costs, simulation);
  std::string title = title_of(lowered.plan, timeline);
  std::optional<Error> shortage = shortage_of(timeline, lowered.cluster);
  if (shortage) shortage = in_file(options.plan, *std::move(shortage));
  std::vector<DerivedTimes> derived =
      plan_derived_times(lowered.program, lowered.profile, lowered.cluster);
  return Simulated{
      std::move(lowered.program),
      std::move(timeline),
      std::move(lowered.facts.staleness),
      std::move(shortage),
      std::move(title),
      whole_stage_ids(lowered.plan),
      options.inputs.profile.empty() ? lowered.plan.number_type : "",
      std::move(derived)};
}

Json staleness_json(const std::vector<StageDelay>& stages) {
  Json json = Json::array();
  for (const StageDelay& stage : stages)
    json.push(Json::object()
                  .set("forward_steps", stage.forward)
                  .set("backward_steps", stage.backward)
                  .set("corrected", stage.averaging > 0));
  return json;
}

void print_simulated(const SimulationOptions& options, const Simulated& done) {
  const Timeline& timeline = done.timeline;
  const std::string bound =
      bottleneck_text(critical_path(done.program, timeline), done.shown_as);
  if (options.output.json) {
    Json json = to_json(timeline);
    json.set("bound_by", bound);
    json.set("number_type", done.number_type);
    json.set("staleness", staleness_json(done.staleness));
    json.set("fits", !done.shortage.has_value());
    json.set("derived_times", to_json(done.derived));
    std::cout << json.to_text();
    return;
  }
  if (options.draw) std::cout << drawn(timeline, options.output) << "\n";
  std::cout << workers_text(timeline, options.output.width) << "\n"
            << "step " << to_text(timeline.step_seconds) << ", bubble "
            << percent(timeline.bubble)
            << (done.number_type.empty() ? "" : ", in " + done.number_type)
            << "\n"
            << derived_line(done.derived) << bound << "\n";
  if (const std::string stale = staleness_text(done.staleness); !stale.empty())
    std::cout << stale << "\n";
}

void run_simulation(const SimulationOptions& options, Exit& exit) {
  const auto done = simulate_plan(options);
  if (!done) return report(done.error(), exit);
  const auto written = write_pictures(options.pictures, done->program,
                                      done->timeline, done->title);
  if (!written) return report(written.error(), exit);
  print_simulated(options, *done);
  if (done->shortage) report(*done->shortage, exit);
}

}  // namespace

void add_simulate(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("simulate", "Predict the timeline of a plan");
  auto options = std::make_shared<SimulationOptions>();
  command->add_option("PLAN", options->plan, "Plan file")->required();
  CLI::Option* profile = command->add_option(
      "--profile", options->inputs.profile, "Profile file with the costs");
  command
      ->add_option("--model", options->inputs.model,
                   "Model whose costs are estimated; default: the plan's")
      ->excludes(profile);
  // Required only once the plan is read: of a file of another system the user
  // is told that first.
  command
      ->add_option("--cluster", options->inputs.cluster,
                   "Cluster, for example 4xV100@1GB/s, or a cluster file")
      ->type_name("TEXT REQUIRED");
  command->add_flag("--draw", options->draw, "Draw the timeline");
  add_picture_options(*command, options->pictures);
  command
      ->add_option("--minibatches", options->minibatches,
                   "Number of minibatches to simulate; default: one, or until "
                   "the steady state")
      ->check(integer_in(1, 1000000));
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_simulation(*options, exit); });
}

}  // namespace pipewright::cli
