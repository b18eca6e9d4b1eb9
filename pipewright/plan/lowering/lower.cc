#include "pipewright/plan/lowering/lower.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/plan/lowering/flat_program.h"
#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/versions.h"

namespace pipewright {
namespace {

// The program whose body is repetition `middle` of the flat one. What comes
// before and after it becomes prologue and epilogue.
Program rolled(FlatProgram flat, int minibatches, int middle) {
  Program program = std::move(flat.program);
  program.minibatches_outside = minibatches - 1;
  for (std::size_t w = 0; w < flat.actions.size(); ++w) {
    WorkerProgram& worker = program.workers[w];
    for (std::size_t k = 0; k < flat.actions[w].size(); ++k) {
      Action action = flat.actions[w][k];
      const std::int32_t repetition = flat.repetitions[w][k];
      if (repetition < middle) {
        worker.prologue.push_back(action);
      } else if (repetition == middle) {
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
      program.life_sets != longer.program.life_sets ||
      program.transfers != longer.program.transfers)
    return false;
  for (std::size_t w = 0; w < longer.actions.size(); ++w) {
    if (unrolled(program, WorkerId(w), minibatches) != longer.actions[w])
      return false;
    if (program.workers[w].held != longer.program.workers[w].held) return false;
  }
  return program.delays == longer.program.delays;
}

// One worker's actions, and where each repetition of them begins.
class Repetitions {
 public:
  Repetitions(const FlatProgram& flat, std::size_t worker, int repetitions)
      : num_microbatches_(flat.program.num_microbatches) {
    const auto& of = flat.repetitions[worker];
    for (int r = 0; r <= repetitions; ++r)
      begins_.push_back(
          flat.actions[worker].begin() +
          (std::lower_bound(of.begin(), of.end(), r) - of.begin()));
  }

  bool is_like_next(int r) const {
    const auto at = begins_.begin() + r;
    return std::equal(at[0], at[1], at[1], at[2],
                      [this](Action a, const Action& b) {
                        a.microbatch += num_microbatches_;
                        a.version += 1;
                        return a == b;
                      });
  }

 private:
  const int num_microbatches_;
  std::vector<std::vector<Action>::const_iterator> begins_;
};

// The first repetition that is like all that follow, but for the last ones,
// which know of the end.
int first_settled(const FlatProgram& flat, int repetitions) {
  int first = 0;
  for (std::size_t w = 0; w < flat.actions.size(); ++w) {
    const Repetitions parts(flat, w, repetitions);
    int r = repetitions - std::max(2, repetitions / 8);
    while (r > first && parts.is_like_next(r - 1)) --r;
    first = std::max(first, r);
  }
  return first;
}

// Versions and receives posted ahead settle after some repetitions: the body is
// the first one after which nothing changes any more.
class Settling {
 public:
  using Flat = std::function<FlatProgram(int minibatches)>;
  Settling(int outside, Flat flat)
      : outside_(outside), flat_(std::move(flat)) {}

  // Mostly it is the second. Otherwise a long run shows about where it is: to
  // try one after the other would take the square of the time.
  std::optional<Program> program() const {
    if (auto second = with_body(1)) return second;
    const int shown = 2 * std::clamp(outside_, 2, kMaxBody) + 1;
    int body =
        std::clamp(first_settled(flat_(outside_ + shown), shown), 2, kMaxBody);
    auto found = with_body(body);
    if (!found) {
      while (!found && ++body <= kMaxBody) found = with_body(body);
      return found;
    }
    while (--body > 1) {
      auto earlier = with_body(body);
      if (!earlier) break;
      found = std::move(earlier);
    }
    return found;
  }

 private:
  static constexpr int kMaxBody = 64;

  std::optional<Program> with_body(int body) const {
    const int minibatches = outside_ + 2 * body + 1;
    Program program = rolled(flat_(minibatches), minibatches, body);
    if (!repeats(program, flat_(minibatches + 1), minibatches + 1))
      return std::nullopt;
    return program;
  }

  const int outside_;
  const Flat flat_;
};

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
  const Settling settling(outside, flat);
  if (auto program = settling.program()) return std::move(*program);
  return bad_configuration(
      "the schedule's minibatches do not settle into a repeating pattern",
      "with replicas that take turns, let their number divide the microbatches "
      "of a minibatch");
}

}  // namespace pipewright
