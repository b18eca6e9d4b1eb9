// pipewright report: a plan, all plans of a problem, or a run as one page to
// look at and to share.

#include <iostream>

#include "cli/command.h"
#include "cli/plan/comparison.h"
#include "cli/plan/problem.h"
#include "cli/report/compared_plans.h"
#include "cli/report/reported_plan.h"
#include "cli/report/run_report.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/report/page.h"

namespace pipewright::cli {
namespace {

struct ReportOptions {
  std::string plan, file = "report.html";
  bool compare = false;
  std::vector<std::string> methods;
  ProblemOptions problem;
  Output output;
};

PlanInputs inputs_of(const ReportOptions& options) {
  const ProblemOptions& problem = options.problem;
  return {problem.profile, problem.model, problem.cluster};
}

Error usage_error(std::string message, std::string hint) {
  return {ErrorCode::Usage, std::move(message), {}, std::move(hint), {}};
}

Result<Json> report_data(const ReportOptions& options) {
  if (options.compare == !options.plan.empty())
    return usage_error("give either a plan file, a run folder or --compare",
                       "for example `report plan.json --cluster 4xV100`");
  if (options.compare && options.problem.minibatch == 0)
    return usage_error("--compare needs --minibatch",
                       "give the samples per optimizer step");
  if (!options.compare && is_run_folder(options.plan))
    return run_report(options.plan);
  if (!options.compare)
    if (const auto plan = read_file(options.plan); !plan) return plan.error();
  if (options.problem.cluster.empty())
    return usage_error("no cluster given", "use --cluster CLUSTER");
  return options.compare ? compared_plans(options.problem, options.methods)
                         : reported_plan(options.plan, inputs_of(options));
}

Result<void> write_page(const std::string& file, const Json& data) {
  const std::string text = page(*data.find("title")->if_string(), data);
  if (auto written = write_file(file, text); !written) return written;
  say("wrote " + file + "; open it in a browser");
  return {};
}

// The sentences of the first plan, or of the run.
void print_summary_of(const Json& data) {
  if (const Json* comparison = data.find("comparison"))
    std::cout << *comparison->find("why")->if_string() << "\n";
  const Json* run = data.find("run");
  const Json& told = run ? *run : (*data.find("plans")->if_array())[0];
  for (const Json& said : *told.find("summary")->if_array())
    std::cout << *said.find("text")->if_string() << "\n";
}

void run_report_command(const ReportOptions& options, Exit& exit) {
  const auto data = report_data(options);
  if (!data) return report(data.error(), exit);
  if (options.output.json) {
    std::cout << data->to_text();
    return;
  }
  if (auto written = write_page(options.file, *data); !written)
    return report(written.error(), exit);
  print_summary_of(*data);
}

}  // namespace

void add_report(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "report", "Write a page that shows a plan, a comparison or a run");
  auto options = std::make_shared<ReportOptions>();
  command->add_option("PLAN", options->plan,
                      "Plan file, or the folder of a run");
  CLI::Option* compare = command->add_flag(
      "--compare", options->compare,
      "Show the plans of all planners, as `compare` ranks them");
  options->problem.budget = kComparisonSeconds;
  add_problem_options(*command, options->problem, kComparisonBudget);
  command
      ->add_option("--method", options->methods,
                   "Methods to compare, as for `compare`")
      ->delimiter(',');
  command->get_option("--cluster")->required(false);
  for (const char* name :
       {"--minibatch", "--microbatch", "--optimizer", "--memory", "--stages",
        "--budget", "--threads", "--method"})
    command->get_option(name)->required(false)->needs(compare);
  command
      ->add_option("-o,--output", options->file, "Write the page to this file")
      ->capture_default_str();
  add_output_options(*command, options->output);
  command->callback([options, &exit] { run_report_command(*options, exit); });
}

}  // namespace pipewright::cli
