// pipewright train [PLAN]: trains as planned, and compares with the prediction.

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/number_in.h"
#include "cli/runtime_link.h"
#include "cli/train/elastic.h"
#include "cli/train/idle_options.h"
#include "cli/train/machine_memory.h"
#include "cli/train/planned_optimizer.h"
#include "cli/train/predict_run.h"
#include "cli/train/prediction.h"
#include "cli/train/train_devices.h"
#include "cli/train/train_method.h"
#include "cli/train/train_progress.h"
#include "cli/train/train_ranks.h"
#include "cli/train/watching.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/this_machine.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/plan/memory/run_memory.h"
#include "pipewright/profile/analytic.h"

namespace pipewright::cli {
namespace {

struct TrainOptions {
  std::string plan, device, profile, weights, schedule = "constant";
  std::string not_finite = "stop";
  std::vector<std::string> groups;       // of parameters
  std::string tensorboard;               // folder; "": none
  std::int64_t watch = 0;                // port of the page; 0: none
  std::optional<Profile> given_profile;  // the file of that name
  std::optional<double> rate;            // none: usual_rate()
  GivenOptions given;
  std::int64_t warm_up = 0;
  MethodOptions method;
  TrainRequest request;
  RankOptions ranks;
  Output output;
};

void warn_of_cores(const Plan& plan) {
  if (plan.num_workers() > num_cores())
    say("pipewright: warning: " + std::to_string(plan.num_workers()) +
        " workers on " + std::to_string(num_cores()) +
        " cores: they share cores, which the prediction leaves out");
}

void print_summary(const TrainOptions& options, const TrainReport& report,
                   const Result<Timeline>& predicted) {
  const bool has_trained = report.steps > report.first_step;
  if (options.output.json) {
    Json json = Json::object();
    json.set("first_step", report.first_step).set("steps", report.steps);
    if (has_trained) json.set("loss", report.last_loss);
    if (has_trained) json.set("step_seconds", report.step_seconds.value());
    if (report.skipped > 0) json.set("skipped", report.skipped);
    if (report.repeated > 0) json.set("repeated", report.repeated);
    if (report.evaluation) {
      if (report.evaluation->accuracy)
        json.set("accuracy", *report.evaluation->accuracy);
      json.set("held_out_loss", report.evaluation->loss);
    }
    if (has_trained) json.set("checkpoint", report.checkpoint);
    if (!report.weights.empty()) json.set("weights", report.weights);
    if (!report.why_not_recorded.empty())
      json.set("no_graphs", report.why_not_recorded);
    if (!report.recorded_as.empty()) json.set("graphs", report.recorded_as);
    if (!report.kernels.empty()) json.set("kernels", report.kernels);
    if (!report.between_ranks.empty())
      json.set("between_ranks", report.between_ranks);
    if (predicted) json.set("comparison", comparison_json(*predicted, report));
    std::cout << json.to_text();
    return;
  }
  if (!has_trained) {
    std::cout << "nothing to do: " << options.request.run.string() << " has "
              << report.steps << " steps; train on with a larger --steps or "
              << "--epochs\n";
    return;
  }
  std::cout << "steps " << report.first_step << " to " << report.steps
            << ", loss " << to_text(report.first_loss, 4) << " to "
            << to_text(report.last_loss, 4) << "; run in "
            << options.request.run.string() << "\n";
  if (report.skipped > 0)
    std::cout << "steps that were skipped because they were not finite: "
              << report.skipped << "\n";
  if (report.repeated > 0)
    std::cout << "times that steps were finite when they were repeated: "
              << report.repeated << "\n";
  if (!report.weights.empty())
    std::cout << "weights in " << report.weights << "\n";
  if (!report.why_not_recorded.empty())
    std::cout << "kernel by kernel, without CUDA graphs: "
              << report.why_not_recorded << "\n";
  if (!report.recorded_as.empty())
    std::cout << "CUDA graphs: " << report.recorded_as << "\n";
  if (!report.kernels.empty())
    std::cout << "kernels: " << report.kernels << "\n";
  if (!report.between_ranks.empty())
    std::cout << "between ranks: " << report.between_ranks << "\n";
  if (report.evaluation)
    std::cout << "held out: " << evaluation_text(*report.evaluation) << "\n";
  if (predicted)
    std::cout << "\n"
              << comparison_text(*predicted, report, options.output.width);
}

// The plan file, for the model that is given or that the plan names.
Result<Plan> read_plan(const TrainOptions& options) {
  PIPEWRIGHT_TRY(const std::string text, read_file(options.plan));
  PIPEWRIGHT_TRY(Plan plan, parse_plan(text, options.plan));
  if (!options.method.model.empty()) plan.model = options.method.model;
  return plan;
}

// From the plan file, or planned here.
Result<Plan> plan_for(const TrainOptions& options) {
  if (options.plan.empty() && !options.method.model.empty()) {
    PIPEWRIGHT_TRY(const Model model, load_model(options.method.model));
    PIPEWRIGHT_TRY(const StepMemory step,
                   step_memory(options.request.optimizer, false, model, "cpu"));
    return planned_here(options.method, step.optimizer.words);
  }
  if (options.plan.empty())
    return Error{ErrorCode::Usage,
                 "there is no model to train",
                 {},
                 "give a PLAN file or --model MODEL",
                 {}};
  return read_plan(options);
}

// A plan of a profile that another program measured may have other layers than
// our model of that name.
Result<void> checked_layers(const Plan& plan, const std::string& file) {
  PIPEWRIGHT_TRY(const Model model, load_model(plan.model));
  const auto checked = check_plan(plan, profile_graph(model));
  if (checked) return {};
  Error error = checked.error();
  error.where = file + ": " + error.where;
  error.hint = "the plan has other layers than " + plan.model +
               ": train takes plans that were made with --model, or with a "
               "profile that `pipewright profile` measured; others can be "
               "simulated";
  return error;
}

// What can be refused before LibTorch is loaded. Ranks first have to meet, so
// that all end together.
Result<void> checked_early(const TrainOptions& options) {
  if (is_one_of_ranks()) return {};
  const OptimizerChoice& optimizer = options.request.optimizer;
  if (const auto known = memory_of(optimizer); !known) return known.error();
  if (auto applies = check_given(options.given, optimizer); !applies)
    return applies;
  if (options.plan.empty()) return {};
  PIPEWRIGHT_TRY(const Plan plan, read_plan(options));
  if (auto applies = check_given(options.given, plan.method); !applies)
    return applies;
  return checked_layers(plan, options.plan);
}

Result<Plan> plan_of_launch(const TrainOptions& options, Launch& launch) {
  const RankOptions& ranks = options.ranks;
  if (!ranks.elastic || !is_one_of_ranks()) return plan_for(options);
  ElasticOptions elastic;
  elastic.cluster = ranks.cluster;
  elastic.replanning.profile = options.profile;
  return elastic_plan(
      launch, [&options] { return plan_for(options); }, elastic);
}

// Before the run folder is made, or anything is measured. What is in use is
// refused as that.
Result<void> check_resumed(const TrainRequest& request) {
  if (!request.resume || std::filesystem::exists(request.run / "lease.json"))
    return {};
  return find_saved(request.run);
}

// Of ranks rank 0 says it.
void warn_of_idle(const TrainOptions& options) {
  const TrainRequest& request = options.request;
  std::vector<std::string> warnings;
  if (!options.plan.empty())
    warnings.push_back(other_state_text(request.optimizer, request.plan));
  if (are_on_cores(request.plan))
    warnings.push_back(idle_on_cores_text(options.given));
  for (const std::string& text : warnings)
    if (!text.empty()) show_warning(text);
}

Result<void> check_options(const TrainOptions& options) {
  if (auto applies = check_given(options.given, options.request.optimizer);
      !applies)
    return applies;
  return check_given(options.given, options.request.plan.method);
}

// Reads or makes the plan, lowers it into the request, and checks all that can
// be checked before step 0.
Result<Model> prepared(TrainOptions& options, Launch& launch) {
  TrainRequest& request = options.request;
  const std::vector<std::string> gpus = gpus_of_ranks(launch);
  PIPEWRIGHT_TRY(request.plan, plan_of_launch(options, launch));
  if (launch.leads())
    if (auto resumed = check_resumed(request); !resumed) return resumed.error();
  if (auto apply = check_options(options); !apply) return apply.error();
  if (auto chosen =
          choose_devices(options.device, gpus, launch.rank(), request);
      !chosen)
    return chosen.error();
  PIPEWRIGHT_TRY(Model model, load_model(request.plan.model));
  if (!options.weights.empty()) {
    if (!model.exported())
      return bad_configuration("--weights is for exported models; " +
                                   request.plan.model + " is not one",
                               "leave it out, or use --resume");
    model = with_weights(model, options.weights);
  }
  if (auto known = groups_of(request.optimizer.groups, model); !known)
    return known.error();
  const double rate = options.rate.value_or(usual_rate(request.optimizer));
  PIPEWRIGHT_TRY(request.rate,
                 learning_rate(options.schedule, rate, options.warm_up));
  if (auto lowered = lower_with_method(options.method, model, request);
      !lowered)
    return lowered.error();
  if (auto good = check_model(model, request.plan); !good) return good.error();
  if (!options.ranks.inject.empty()) {
    PIPEWRIGHT_TRY(request.injected_step,
                   injected_step(options.ranks.inject, request.program));
  }
  const std::string& device = request.plan.device_kinds.front();
  if (launch.leads() && !options.profile.empty()) {
    PIPEWRIGHT_TRY(options.given_profile,
                   profile_of(options.profile, model, request.program, device));
  }
  const int rank = launch.size() > 1 ? launch.rank() : -1;
  if (auto fits = check_machine_memory(request, model, rank, gpus); !fits)
    return fits.error();
  if (launch.leads()) warn_of_idle(options);
  return model;
}

// A flag without a value counts as 1.
int page_port(std::int64_t watch) {
  constexpr int kDefaultPort = 8765;
  return watch == 1 ? kDefaultPort : static_cast<int>(watch);
}

Result<TrainReport> trained(const TrainOptions& options, const Model& model,
                            const Launch& launch, TrainHooks hooks) {
  warn_of_cores(options.request.plan);
  hooks.on_step = show_step;
  hooks.on_evaluation = show_evaluation;
  hooks.on_warning = show_warning;
  hooks.signal = [&launch] { return launch.signal(); };
  hooks.on_stop = show_stop;
  if (options.watch > 0)
    start_page(options.request.run, page_port(options.watch));
  if (!options.tensorboard.empty())
    hooks = with_events(hooks, options.tensorboard);
  Result<TrainReport> report = run_training(model, options.request, hooks);
  if (report) return report;
  return with_possible_way_out(report.error(), options.request.plan);
}

// Says so where there is none.
Result<Timeline> predicted(const TrainOptions& options, const Model& model,
                           bool is_alone,
                           const std::optional<PipelineRun>& handovers = {}) {
  if (!is_alone && !handovers && !options.given_profile &&
      !are_on_cores(options.request.plan)) {
    show_warning(
        "there is no prediction: what handing over takes between ranks was "
        "not measured");
    return bad_configuration("no prediction");
  }
  if (!options.given_profile)
    show_activity("measuring the layers for the prediction ...");
  Result<Timeline> timeline =
      predict_run(options.request, model, options.given_profile, handovers);
  end_activity();
  if (!timeline)
    show_warning("there is no prediction: " + timeline.error().to_text());
  return timeline;
}

void run_train(TrainOptions& options, Exit& exit) {
  listen_for_signals();
  const auto launch =
      joined_launch(options.ranks, options.request.run, received_signal, exit);
  if (!launch) return;
  const Result<Model> model = prepared(options, *launch);
  if (!is_to_lead(*launch, options.ranks, model, options.request, exit)) return;
  if (options.ranks.elastic && find_saved(options.request.run))
    options.request.resume = true;
  // Ranks share the cores that would be measured: theirs are measured when they
  // have ended.
  const bool is_alone = launch->size() == 1;
  Result<Timeline> expected = bad_configuration("no prediction");
  TrainHooks hooks;
  if (is_alone || options.given_profile)
    hooks.on_start = [&] { expected = predicted(options, *model, is_alone); };
  options.request.measures_handovers = !hooks.on_start;
  const Result<TrainReport> report = trained(options, *model, *launch, hooks);
  end_progress();
  if (!has_ended_well(*launch, report, exit)) return;
  const bool is_compared =
      report->signal == 0 && report->steps > report->first_step;
  if (is_compared && !hooks.on_start) {
    stop_listening();  // what was trained is saved
    expected = predicted(options, *model, is_alone, report->handovers);
  }
  if (!is_compared) expected = bad_configuration("nothing to compare");
  print_summary(options, *report, expected);
  if (report->signal == 0) return;
  exit.code = exit_code_of(report->signal);
  say("pipewright: " + end_by_signal(*report).to_text());
}

std::optional<NotFinitePolicy> policy_of(const std::string& text) {
  if (text == "stop") return NotFinitePolicy::Stop;
  if (text == "repeat") return NotFinitePolicy::Repeat;
  if (text == "skip") return NotFinitePolicy::Skip;
  return std::nullopt;
}

// What is wrong with the text of a policy, or "".
std::string wrong_policy(const std::string& text) {
  return policy_of(text) ? ""
                         : "expected stop, repeat or skip, found \"" +
                               printable(text) + "\"";
}

// What is wrong with the text of a parameter group, or "".
std::string wrong_group(const std::string& text) {
  const auto group = parse_parameter_group(text);
  return group ? "" : group.error().to_text();
}

void add_optimizer_options(CLI::App& command, TrainOptions& options) {
  OptimizerChoice& choice = options.request.optimizer;
  command.add_option("--optimizer", choice.name,
                     "sgd, momentum, adam or adamw; sgd has momentum, too, "
                     "unless --momentum is 0");
  command
      .add_option("--lr", options.rate,
                  "Learning rate; default: 0.05 for sgd, 0.001 for adam and "
                  "adamw")
      ->check(number_in(0, 1e6));
  command.add_option(
      "--lr-schedule", options.schedule,
      "constant, step:N,FACTOR, cosine[:LOWEST] or inverse-sqrt; default: "
      "constant");
  command.add_option("--warm-up", options.warm_up,
                     "Steps over which the learning rate rises to --lr; "
                     "default: 0");
  command
      .add_option("--momentum", choice.momentum,
                  "Momentum of sgd; default: 0.9")
      ->check(number_in(0, 1));
  command.add_flag("--nesterov", choice.nesterov, "Nesterov momentum for sgd");
  command.add_flag_callback(
      "--no-masters", [&choice] { choice.masters = false; },
      "Steps weights of bfloat16 themselves, without float32 masters: less "
      "memory, but small steps are lost");
  command
      .add_option("--beta1", choice.beta1,
                  "Decay of adam's mean of gradients; default: 0.9")
      ->check(number_in(0, 1));
  command
      .add_option("--beta2", choice.beta2,
                  "Decay of adam's mean of squares; default: 0.999")
      ->check(number_in(0, 1));
  command
      .add_option("--epsilon", choice.epsilon,
                  "Added to adam's divisor; default: 1e-8")
      ->check(number_in(0, 1e6));
  command
      .add_option("--clip", options.request.max_norm,
                  "Clips gradients to this global norm")
      ->check(number_in(0, 1e30));
  command
      .add_option("--weight-decay", choice.weight_decay,
                  "Default: 0, or 0.01 for adamw")
      ->check(number_in(0, 1e6));
  command
      .add_option("--group", options.groups,
                  "PATTERNS:SETTINGS: learning rate and weight decay of some "
                  "parameters, as \"*.bias,*norm*:weight-decay=0\" or "
                  "\"head.*:lr=0.001\"; may be repeated")
      ->allow_extra_args(false)
      ->check(wrong_group);
}

void add_evaluation_options(CLI::App& command, TrainRequest& request) {
  auto* data = command.add_option("--eval", request.held_out_data,
                                  "Evaluates on this data, as --data takes it");
  auto* share =
      command
          .add_option(
              "--held-out", request.held_out_share,
              "Evaluates on this share of --data, which is not trained on")
          ->check(number_in(0, 0.9));
  data->excludes(share);
  command
      .add_option("--eval-every", request.evaluate_every,
                  "Steps between evaluations; default: an epoch")
      ->check(integer_in(0, std::int64_t{1} << 40));
}

}  // namespace

void add_train(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "train", "Train as planned, and compare with the prediction");
  auto options = std::make_shared<TrainOptions>();
  TrainRequest& request = options->request;
  CLI::Option* plan = command->add_option(
      "PLAN", options->plan, "Plan file; or use --model to plan here");
  command
      ->add_option("--data", request.data,
                   "digits, fashion-mnist, idx:FOLDER, text:FILE, chars:FILE, "
                   "tokens:FILE, pairs:FILE, trans-de-en, tensors:FILE, "
                   "batches:FILE or synthetic")
      ->required();
  command
      ->add_option("--run", request.run,
                   "Folder for the run's files; default: run")
      ->default_val("run");
  auto* steps = command
                    ->add_option("--steps", request.steps,
                                 "Steps to train; default: one epoch")
                    ->check(integer_in(1, std::int64_t{1} << 40));
  auto* epochs =
      command
          ->add_option("--epochs", request.epochs,
                       "Epochs to train, in place of --steps; default: 1")
          ->check(integer_in(1, std::int64_t{1} << 30));
  steps->excludes(epochs);
  add_evaluation_options(*command, request);
  command->add_option("--seed", request.seed,
                      "Seed of weights, dropout and order of samples; "
                      "default: 1");
  command->add_option("--device", options->device,
                      "Kind of device to train on, instead of the plan's own; "
                      "cpu: threads");
  command->add_flag_callback(
      "--no-graphs", [options] { options->request.may_record = false; },
      "Gives GPUs their kernels one by one, not as CUDA graphs");
  command->add_flag("--tf32", request.kernels.tf32,
                    "Lets GPUs multiply float32 with 10 bits of mantissa");
  command->add_flag("--fast-kernels", request.kernels.is_fast,
                    "Lets GPUs use kernels whose bits change between runs");
  command->add_flag_callback(
      "--no-fused-kernels",
      [options] { options->request.kernels.is_fused = false; },
      "Gives GPUs LibTorch's kernels only, none compiled at run time");
  command->add_option("--weights", options->weights,
                      "Initial weights of an exported model: a safetensors "
                      "file, or a folder with one or with shards; default: "
                      "those it was exported with");
  command->add_option("--profile", options->profile,
                      "Profile for the prediction; default: measured here");
  command
      ->add_option("--checkpoint-every", request.checkpoint_every,
                   "Steps between checkpoints; default: one at the end")
      ->check(integer_in(0, std::int64_t{1} << 40));
  command->add_flag("--resume", request.resume,
                    "Continues from the run's newest checkpoint");
  command
      ->add_option("--not-finite", options->not_finite,
                   "What becomes of a step whose loss or gradient is not "
                   "finite: stop; repeat: it is run once more, and only then "
                   "the end; skip: repeated, too, then left out")
      ->check(wrong_policy)
      ->capture_default_str();
  command
      ->add_flag("--watch", options->watch,
                 "Serves a page that shows the run, on 127.0.0.1, port 8765; "
                 "--watch=PORT: at this port")
      ->check(integer_in(0, 65535));  // 0 is what it has without the flag
  command->add_option("--tensorboard", options->tensorboard,
                      "Writes loss, speed and accuracy for TensorBoard into "
                      "this folder");
  add_optimizer_options(*command, *options);
  add_method_options(*command, options->method, plan);
  add_rank_options(*command, options->ranks);
  add_output_options(*command, options->output);
  command->callback([options, command, steps, epochs, &exit] {
    for (const std::string& group : options->groups)
      options->request.optimizer.groups.push_back(
          parse_parameter_group(group).value());
    options->request.not_finite = policy_of(options->not_finite).value();
    options->given = given_options(*command);
    OptimizerChoice& optimizer = options->request.optimizer;
    if (optimizer.name == "momentum") optimizer.name = "sgd";
    if (auto good = checked_early(*options); !good)
      return report(good.error(), exit);
    enter_runtime(exit.arguments);
    set_compared(*command, options->ranks);
    if (steps->count() + epochs->count() == 0) options->request.epochs = 1;
    run_train(*options, exit);
  });
}

}  // namespace pipewright::cli
