#include "pipewright/plan/lower.h"

#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/plan/flat_program.h"
#include "pipewright/plan/homes.h"
#include "pipewright/plan/versions.h"

namespace pipewright {
namespace {

// The program whose body is repetition `middle` of the flat one. What comes
// before and behind it becomes prologue and epilogue.
Program rolled(FlatProgram flat, int minibatches, int middle) {
  Program program = std::move(flat.program);
  program.minibatches_outside = minibatches - 1;
  for (std::size_t w = 0; w < flat.actions.size(); ++w) {
    WorkerProgram& worker = program.workers[w];
    for (const FlatAction& item : flat.actions[w]) {
      Action action = item.action;
      if (item.repetition < middle) {
        worker.prologue.push_back(action);
      } else if (item.repetition == middle) {
        worker.body.push_back(action);
      } else {
        action.microbatch -= program.num_microbatches;
        action.version -= 1;
        worker.epilogue.push_back(action);
      }
    }
  }
  return program;
}

Result<void> check_versions(const Plan& plan) {
  const int minibatches = plan.schedule.sections().minibatches_outside + 3;
  const Versions versions(
      plan.method,
      progress_of(plan.schedule.unrolled(minibatches), plan.num_stages(),
                  plan.num_microbatches(), minibatches),
      plan.num_microbatches());
  const StageId early = versions.too_early();
  if (early.is_none()) return {};
  return bad_configuration(
      "with " + std::to_string(plan.num_microbatches()) +
          " microbatches a minibatch, stage " + std::to_string(early.value) +
          " starts minibatches before the weights that method \"" +
          to_text(plan.method) + "\" reads are made",
      "use at least as many microbatches a minibatch as stages");
}

// Whether the program, run one minibatch longer, is the flat one of that
// length.
bool repeats(const Program& program, const FlatProgram& longer,
             int minibatches) {
  if (program.read_sets != longer.program.read_sets ||
      program.transfers != longer.program.transfers)
    return false;
  for (std::size_t w = 0; w < longer.actions.size(); ++w) {
    const auto actions = unrolled(program, WorkerId(w), minibatches);
    if (actions.size() != longer.actions[w].size()) return false;
    for (std::size_t k = 0; k < actions.size(); ++k)
      if (actions[k] != longer.actions[w][k].action) return false;
    if (program.workers[w].held != longer.program.workers[w].held) return false;
  }
  return program.delays == longer.program.delays;
}

}  // namespace

Result<Program> lower(const Plan& plan, const Profile& profile,
                      const LowerOptions& options) {
  if (Result<void> checked = check_plan(plan, profile); !checked)
    return checked.error();
  if (options.global_norm && plan.schedule.is_asynchronous())
    return bad_configuration(
        "clipping needs all gradients of a minibatch at once, and method \"" +
            to_text(plan.method) + "\" never has them",
        "clip in synchronous methods only");
  PIPEWRIGHT_TRY(const std::vector<LayerSizes> sizes,
                 sizes_at(profile, plan.microbatch, Outside::Extrapolate));
  const Homes homes = homes_of(plan, profile);
  const auto flat = [&](int minibatches) {
    return flat_program(plan, profile, homes, sizes, minibatches, options);
  };
  if (options.minibatches > 0) {
    Program program =
        rolled(flat(options.minibatches), options.minibatches, INT32_MAX);
    program.minibatches_outside = options.minibatches;
    return program;
  }
  const int outside = plan.schedule.sections().minibatches_outside;
  if (!plan.schedule.is_asynchronous()) {
    Program program = rolled(flat(1), 1, 0);
    return program;
  }
  if (Result<void> readable = check_versions(plan); !readable)
    return readable.error();
  // Versions and receives posted ahead settle after a few repetitions: the body
  // is the first one behind which nothing changes any more.
  constexpr int kMostSettling = 64;
  for (int settling = 1; settling <= kMostSettling; ++settling) {
    const int minibatches = outside + 2 * settling + 1;
    Program program = rolled(flat(minibatches), minibatches, settling);
    if (repeats(program, flat(minibatches + 1), minibatches + 1))
      return program;
  }
  return bad_configuration(
      "the schedule's minibatches do not settle into a repeating pattern",
      "with replicas that take turns, let their number divide the microbatches "
      "of a minibatch");
}

}  // namespace pipewright
