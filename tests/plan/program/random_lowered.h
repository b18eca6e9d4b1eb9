// Random plans of every kind, lowered: all schedules, joined actions, replicas,
// tied weights, split cuts, recomputation, norms, every method.

#pragma once

#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/plan/lowering/lower.h"
#include "tests/plan/chain.h"

namespace pipewright {

struct LoweredPlan {
  Plan plan;
  Profile profile;
  Program program;
};

// Some neighbours joined, if that is a schedule still. Where steps follow
// gradients at once, the action after a gradient may read what they make.
inline Schedule with_random_pairs(const Schedule& schedule,
                                  std::mt19937& random) {
  Schedule::Sections sections = schedule.sections();
  const auto may_step = [&](const ComputeAction& action) {
    return schedule.is_asynchronous() &&
           (action.kind == ComputeKind::Backward ||
            action.kind == ComputeKind::BackwardWeight);
  };
  for (Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    for (auto& order : *orders)
      for (std::size_t i = 0; i + 1 < order.size(); ++i)
        if (random() % 6 == 0 && !order[i].joined && !order[i + 1].joined &&
            !may_step(order[i]) && (i == 0 || !order[i - 1].joined))
          order[i].joined = true;
  auto made = Schedule::create(schedule.num_stages(),
                               schedule.num_microbatches(), sections);
  return made ? *std::move(made) : schedule;
}

class RandomLowered {
 public:
  explicit RandomLowered(unsigned seed) : random_(seed) {}

  LoweredPlan make() {
    for (;;)
      if (auto made = attempt()) return *std::move(made);
  }

 private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  int up_to(int most) {
    return 1 + static_cast<int>(random_() % static_cast<unsigned>(most));
  }

  std::optional<LoweredPlan> attempt() {
    const auto& generators = schedule_generators();
    const std::string& name = generators[random_() % generators.size()].name;
    ScheduleRequest request;
    request.workers = up_to(4);
    request.microbatches = up_to(5);
    request.stages_per_worker = up_to(2);
    Result<Schedule> schedule = generate_schedule(name, request);
    if (!schedule) return std::nullopt;
    Replication replication = Replication::Rotate;
    if (name != "chimera" && one_in(2)) {
      replication = one_in(2) ? Replication::Rotate : Replication::Split;
      std::vector<int> replicas;
      for (int w = 0; w < schedule->num_workers(); ++w)
        replicas.push_back(up_to(3));
      schedule = with_replicas(*schedule, replicas, replication);
      if (!schedule) return std::nullopt;
    }
    const Schedule chosen =
        one_in(2) ? with_random_pairs(*schedule, random_) : *schedule;
    Method method = Method::Sync;
    if (chosen.is_asynchronous())
      method = kMethods[1 + random_() % (kMethods.size() - 1)];
    LoweredPlan made{plan_of_schedule(chosen, method, replication), {}, {}};
    made.profile = profile_of(2 * chosen.num_stages());
    cut(made.plan);
    LowerOptions options;
    options.window = up_to(5);
    options.global_norm = !chosen.is_asynchronous() && one_in(2);
    Result<Program> program = lower(made.plan, made.profile, options);
    if (!program) return std::nullopt;
    made.program = *std::move(program);
    return made;
  }

  // Skip connections, weights that layers share, layers without any.
  Profile profile_of(int num_layers) {
    Profile profile = chain_with_skips(num_layers, random_);
    for (std::size_t l = 1; l < profile.layers.size(); ++l) {
      if (one_in(6))
        profile.layers[l].parameters = {ParameterId(random_() % l)};
      if (one_in(8)) profile.layers[l].parameters = {};
    }
    return profile;
  }

  // Two layers a stage; backward cuts moved by one layer here and there.
  void cut(Plan& plan) {
    for (std::size_t s = 0; s < plan.stages.size(); ++s) {
      plan.stages[s].forward = {LayerId(2 * s), LayerId(2 * s + 1)};
      plan.stages[s].backward = plan.stages[s].forward;
      plan.stages[s].recompute = one_in(4);
    }
    if (one_in(2)) return;
    for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
      auto& here = plan.stages[s].backward;
      auto& next = plan.stages[s + 1].backward;
      if (one_in(3) && here.size() > 1) {
        next.insert(next.begin(), here.back());
        here.pop_back();
      } else if (one_in(3) && next.size() > 1) {
        here.push_back(next.front());
        next.erase(next.begin());
      }
    }
  }

  std::mt19937 random_;
};

}  // namespace pipewright
