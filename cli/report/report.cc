// pipewright report: a plan as one page to look at and to share.

#include <iostream>

#include "cli/command.h"
#include "cli/plan/problem.h"
#include "cli/simulate/lowered_plan.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/report/page.h"
#include "pipewright/report/plan_report.h"

namespace pipewright::cli {
namespace {

struct ReportOptions {
  std::string plan, file = "report.html";
  PlanInputs inputs;
  Output output;
};

// The problem that the plan answers, as `plan` would have stated it.
Problem problem_of(const LoweredPlan& lowered) {
  Problem problem;
  problem.profile = &lowered.profile;
  problem.cluster = &lowered.cluster;
  problem.minibatch = lowered.plan.minibatch;
  problem.method = lowered.plan.method;
  problem.optimizer_words = lowered.plan.optimizer_words;
  const int minibatch = lowered.plan.minibatch, own = lowered.plan.microbatch;
  problem.microbatches_for = [minibatch, own](const Cluster& cluster) {
    std::vector<int> sizes = default_microbatches(minibatch, cluster);
    if (std::find(sizes.begin(), sizes.end(), own) == sizes.end())
      sizes.push_back(own);
    return sizes;
  };
  problem.microbatches = problem.microbatches_for(lowered.cluster);
  set_estimators(problem);
  return problem;
}

Result<Json> report_of_plan(const ReportOptions& options) {
  PIPEWRIGHT_TRY(const LoweredPlan lowered,
                 load_lowered(options.plan, options.inputs));
  PIPEWRIGHT_TRY(Json plan, plan_report(lowered.plan, problem_of(lowered)));
  Json json = Json::object();
  json.set("format", "pipewright/report");
  json.set("version", 1);
  json.set("title", lowered.profile.model + " on " + lowered.cluster.name());
  json.set("plans", Json(Json::Array{std::move(plan)}));
  return json;
}

Result<void> write_page(const std::string& file, const Json& data) {
  const std::string text = page(*data.find("title")->if_string(), data);
  if (auto written = write_file(file, text); !written) return written;
  say("wrote " + file + "; open it in a browser");
  return {};
}

void run_report(const ReportOptions& options, Exit& exit) {
  const auto data = report_of_plan(options);
  if (!data) return report(data.error(), exit);
  if (options.output.json) {
    std::cout << data->to_text();
    return;
  }
  if (auto written = write_page(options.file, *data); !written)
    return report(written.error(), exit);
  const Json& plan = (*data->find("plans")->if_array())[0];
  for (const Json& said : *plan.find("summary")->if_array())
    std::cout << *said.find("text")->if_string() << "\n";
}

}  // namespace

void add_report(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "report",
      "Write a page that shows a plan: timeline, memory, model, "
      "cluster");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("PLAN", options->plan, "Plan file")->required();
  CLI::Option* profile = command->add_option(
      "--profile", options->inputs.profile, "Profile file with the costs");
  command
      ->add_option("--model", options->inputs.model,
                   "Model whose costs are estimated; default: the plan's")
      ->excludes(profile);
  command
      ->add_option("--cluster", options->inputs.cluster,
                   "Cluster, for example 4xV100@1GB/s, or a cluster file")
      ->required();
  command
      ->add_option("-o,--output", options->file, "Write the page to this file")
      ->capture_default_str();
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_report(*options, exit); });
}

}  // namespace pipewright::cli
