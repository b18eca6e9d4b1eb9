// pipewright simulate PLAN: the timeline that a plan predicts.

#include "pipewright/simulate/simulate.h"

#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "cli/command.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/lower.h"
#include "pipewright/plan/validate.h"
#include "pipewright/timeline/chrome_trace.h"
#include "pipewright/timeline/critical_path.h"
#include "pipewright/timeline/draw.h"
#include "pipewright/timeline/svg.h"
#include "pipewright/timeline/timeline_json.h"

namespace pipewright::cli {
namespace {

struct Options {
  std::string plan, profile, cluster;
  std::string trace, svg;
  bool draw = false;
  int minibatches = 0;
  Output output;
};

struct Simulated {
  Program program;
  Timeline timeline;
};

Result<Simulated> simulated(const Options& options) {
  PIPEWRIGHT_TRY(const std::string plan_text, read_file(options.plan));
  PIPEWRIGHT_TRY(const Plan plan, parse_plan(plan_text, options.plan));
  PIPEWRIGHT_TRY(const std::string profile_text, read_file(options.profile));
  PIPEWRIGHT_TRY(const Profile profile,
                 parse_profile(profile_text, options.profile));
  PIPEWRIGHT_TRY(const Cluster cluster, load_cluster(options.cluster));
  PIPEWRIGHT_TRY(Program program, lower(plan, profile));
  PIPEWRIGHT_TRY(const ProgramFacts facts, validate(program));
  static_cast<void>(facts);
  PIPEWRIGHT_TRY(const Costs costs, costs_of(program, profile, cluster));
  SimulateOptions how;
  how.minibatches = options.minibatches;
  Timeline timeline = simulate(program, costs, how);
  return Simulated{std::move(program), std::move(timeline)};
}

bool wants_colour() {
  const char* refused = std::getenv("NO_COLOR");
  return ::isatty(STDOUT_FILENO) && (refused == nullptr || *refused == '\0');
}

bool write(const std::string& file, const std::string& text, Exit& exit) {
  if (file.empty()) return true;
  const auto written = write_file(file, text);
  if (!written) {
    report(written.error(), exit);
    return false;
  }
  std::cerr << "wrote " << file << "\n";
  return true;
}

void print(const Options& options, const Simulated& done) {
  const Timeline& timeline = done.timeline;
  const std::string bound =
      bottleneck_text(critical_path(done.program, timeline));
  if (options.output.json) {
    Json json = to_json(timeline);
    json.set("bound_by", bound);
    std::cout << json.to_text();
    return;
  }
  if (options.draw)
    std::cout << draw(timeline, {options.output.width, wants_colour()}) << "\n";
  std::cout << workers_text(timeline, options.output.width) << "\n"
            << "step " << to_text(timeline.step_seconds) << ", bubble "
            << to_text(timeline.bubble * 100) << " %\n"
            << bound << "\n";
}

void run(const Options& options, Exit& exit) {
  const auto done = simulated(options);
  if (!done) return report(done.error(), exit);
  if (!options.trace.empty() &&
      !write(options.trace, chrome_trace(done->program, done->timeline), exit))
    return;
  if (!options.svg.empty() &&
      !write(options.svg, svg(done->program, done->timeline), exit))
    return;
  print(options, *done);
}

}  // namespace

void add_simulate(CLI::App& app, Exit& exit) {
  CLI::App* command =
      app.add_subcommand("simulate", "The timeline that a plan predicts");
  auto options = std::make_shared<Options>();
  command->add_option("PLAN", options->plan, "Plan file")->required();
  command->add_option("--profile", options->profile, "Profile file")
      ->required();
  command
      ->add_option("--cluster", options->cluster,
                   "As 4xV100@1GB/s, or a cluster file")
      ->required();
  command->add_flag("--draw", options->draw, "Draws the timeline");
  command->add_option("--trace", options->trace,
                      "Writes a trace that Perfetto opens");
  command->add_option("--svg", options->svg, "Writes a picture");
  command
      ->add_option("--minibatches", options->minibatches,
                   "Minibatches to run; default: one, or until steady")
      ->check(CLI::Range(1, 100000));
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run(*options, exit); });
}

}  // namespace pipewright::cli
