#include "cli/train/train_method.h"

#include <cmath>

#include "cli/number_in.h"
#include "cli/plan/planning.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/method_switch.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/planners/pipemare/pipemare_segments.h"
#include "pipewright/profile/analytic.h"

namespace pipewright::cli {
namespace {

// Eight microbatches per minibatch, or the next smaller number that divides it.
int chosen_microbatch(const MethodOptions& options) {
  if (options.microbatch > 0) return options.microbatch;
  int microbatches = std::min(8, options.minibatch);
  while (options.minibatch % microbatches != 0) --microbatches;
  return options.minibatch / microbatches;
}

Result<Method> chosen_method(const MethodOptions& options) {
  PIPEWRIGHT_TRY(const std::vector<Method> methods,
                 parse_methods({options.method}));
  if (options.vertical_sync && options.method != "stash")
    return bad_configuration("--vertical-sync needs --method stash",
                             "use --method stash --vertical-sync");
  if (options.vertical_sync) return Method::VerticalSync;
  if (methods.size() == 1) return methods.front();
  return bad_configuration("a run has one method",
                           "for example --method pipemare");
}

int segment_length(const MethodOptions& options, const Plan& plan) {
  if (options.segment > 0) return options.segment;
  return std::max(1,
                  static_cast<int>(std::lround(std::sqrt(plan.num_stages()))));
}

Result<void> validated(const Program& program) {
  const Result<ProgramFacts> facts = validate(program);
  if (!facts) return facts.error();
  return {};
}

// The layers of exported models that a program recomputes must give the same
// again.
Result<void> check_recomputed(const Model& model, const Program& program) {
  if (!model.exported()) return {};
  for (std::size_t w = 0; w < program.workers.size(); ++w)
    for (const Action& action : program.workers[w].body) {
      if (action.kind != ActionKind::Recompute) continue;
      for (const LayerId layer :
           program.operation(WorkerId(w), action.stage)->forward)
        if (model.exported()->functions_of(layer).reads_buffers)
          return bad_configuration(
              "stage " + std::to_string(action.stage.value) +
                  " recomputes the layer " + model.layer(layer).name +
                  ", whose output depends on buffers that it changes",
              "plan without recomputation of this stage");
    }
  return {};
}

}  // namespace

void add_method_options(CLI::App& command, MethodOptions& options,
                        CLI::Option* plan) {
  const std::string planned = "Without PLAN";
  const std::string pipemare = "PipeMare";
  command
      .add_option("--model", options.model,
                  "Plans this model here: a zoo name with settings, or a "
                  "model file. With PLAN: where its model is now")
      ->group(planned);
  command
      .add_option("--method", options.method,
                  "How weights move: sync, stash, vertical-sync, 2bw, "
                  "pipemare or naive")
      ->capture_default_str()
      ->excludes(plan)
      ->group(planned);
  command
      .add_flag(
          "--vertical-sync", options.vertical_sync,
          "With stash: all stages read the version that the first one read")
      ->excludes(plan)
      ->group(planned);
  command
      .add_option("--workers", options.workers, "Number of workers (threads)")
      ->capture_default_str()
      ->check(integer_in(1, 256))
      ->excludes(plan)
      ->group(planned);
  command
      .add_option(
          "--stages", options.stages,
          "Stages, given to the workers in turn; default: one per worker")
      ->check(integer_in(1, 100000))
      ->excludes(plan)
      ->group(planned);
  command
      .add_option("--minibatch", options.minibatch,
                  "Samples per optimizer step")
      ->capture_default_str()
      ->check(integer_in(1, 1 << 20))
      ->excludes(plan)
      ->group(planned);
  command
      .add_option("--microbatch", options.microbatch,
                  "Samples per microbatch; default: an eighth of the minibatch")
      ->check(integer_in(1, 1 << 20))
      ->excludes(plan)
      ->group(planned);
  command
      .add_option("--rescheduling-steps", options.rescheduling_steps,
                  "T1: steps until delayed stages have their full rate; "
                  "default: a quarter of all with pipemare, else 0")
      ->check(integer_in(0, std::int64_t{1} << 40))
      ->group(pipemare);
  command.add_flag("--no-rescheduling", options.no_rescheduling, "Without T1")
      ->group(pipemare);
  command
      .add_option("--correction-decay", options.correction_decay,
                  "T2: how much of the velocity is older than the delay")
      ->capture_default_str()
      ->check(number_in(0, 0.999))
      ->group(pipemare);
  command.add_flag("--no-correction", options.no_correction, "Without T2")
      ->group(pipemare);
  command
      .add_option(
          "--recompute", options.segment,
          "Keeps only the inputs of segments of N stages and recomputes "
          "the rest; 0: about the square root of all stages")
      ->check(integer_in(0, 100000))
      ->excludes(plan)
      ->group(pipemare);
  command
      .add_option("--warm-up-steps", options.warm_up_steps,
                  "T3: synchronous steps before the asynchronous ones")
      ->check(integer_in(0, std::int64_t{1} << 40))
      ->group(pipemare);
}

// The cuts are the same for every method, so that runs can be compared.
Result<Plan> planned_here(const MethodOptions& options, int optimizer_words) {
  PIPEWRIGHT_TRY(const Method method, chosen_method(options));
  ProblemOptions asked;
  asked.model = options.model;
  asked.cluster = std::to_string(options.workers) + "xcpu";
  asked.minibatch = options.minibatch;
  asked.microbatches = {chosen_microbatch(options)};
  PIPEWRIGHT_TRY(LoadedProblem loaded, load_problem(asked));
  loaded.problem.method = Method::PipeMare;
  loaded.problem.stages = options.stages;
  loaded.problem.optimizer_words = optimizer_words;
  PIPEWRIGHT_TRY(const Planner* planner, find_planner("pipemare"));
  PIPEWRIGHT_TRY(Planned planned, planner->plan(loaded.problem));
  planned.plan.method = method;
  // Only the cuts are the planner's.
  if (method != Method::PipeMare) planned.plan.planner = "train";
  name_device_kinds(planned.plan, *loaded.cluster);
  if (options.segment >= 0) {
    PIPEWRIGHT_TRY(
        planned.plan,
        recomputing(planned.plan, segment_length(options, planned.plan)));
  }
  return is_asynchronous(method) ? std::move(planned.plan)
                                 : drained(planned.plan);
}

Result<void> lower_with_method(const MethodOptions& options, const Model& model,
                               TrainRequest& request) {
  // Sizes are the model's own, so a plan for another model fails here.
  Profile sizes = profile_graph(model);
  sizes.sizes[request.plan.microbatch] =
      model_sizes(model, request.plan.microbatch);
  LowerOptions lowering;
  lowering.global_norm = request.max_norm > 0;
  PIPEWRIGHT_TRY(request.program, lower(request.plan, sizes, lowering));
  const bool is_pipemare = request.plan.method == Method::PipeMare;
  if (is_pipemare) set_corrected(request.program, !options.no_correction);
  if (auto checked = validated(request.program); !checked) return checked;
  if (auto checked = check_recomputed(model, request.program); !checked)
    return checked;
  MethodSettings& method = request.method;
  method.correction_decay = options.correction_decay;
  method.rescheduling_steps = options.rescheduling_steps;
  if (options.no_rescheduling ||
      (!is_pipemare && method.rescheduling_steps < 0))
    method.rescheduling_steps = 0;
  if (options.warm_up_steps == 0 || !is_asynchronous(request.plan.method))
    return {};
  method.warm_up_steps = options.warm_up_steps;
  PIPEWRIGHT_TRY(method.warm_up,
                 warm_up_program(request.plan, sizes, request.program));
  return validated(method.warm_up);
}

}  // namespace pipewright::cli
