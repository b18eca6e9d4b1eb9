// Lowered plans on the simulator: generated schedules keep their closed forms,
// asynchronous ones their period, Bi-Partition its own, PipeMare its delays.

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/simulate/given_costs.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/simulate/steady_state.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Plan plan_of(int stages, int layers_each, int microbatches,
             const std::string& schedule, Method method) {
  Plan plan;
  plan.model = "chain";
  plan.method = method;
  plan.minibatch = microbatches;
  plan.microbatch = 1;
  std::vector<int> cuts;
  for (int s = 1; s < stages; ++s) cuts.push_back(s * layers_each);
  plan.stages = stages_of_cuts(cuts, stages * layers_each);
  for (int d = 0; d < stages; ++d) plan.devices.push_back(DeviceId(d));
  plan.schedule_name = schedule;
  ScheduleRequest request;
  request.workers = stages;
  request.microbatches = microbatches;
  const auto made = generate_schedule(schedule, request);
  REQUIRE(made);
  plan.schedule = *made;
  return plan;
}

// A second for the forward of each layer, two for its backward (the input
// half first), and links that take `latency`.
Costs costs_for(const Program& program, double latency) {
  return given_costs(
      program,
      [](const Operation& operation) {
        const auto f = static_cast<double>(operation.forward.size());
        const auto b = static_cast<double>(operation.backward.size());
        Costs::OperationCost cost;
        cost.compute[static_cast<int>(ActionKind::Forward)] = Seconds(f);
        cost.compute[static_cast<int>(ActionKind::Backward)] = Seconds(2 * b);
        cost.compute[static_cast<int>(ActionKind::BackwardInput)] = Seconds(b);
        cost.compute[static_cast<int>(ActionKind::BackwardWeight)] = Seconds(b);
        return cost;
      },
      Seconds(latency));
}

Program lowered(const Plan& plan, int num_layers) {
  auto program = lower(plan, chain(num_layers));
  REQUIRE(program);
  REQUIRE(validate(*program));
  return *program;
}

TEST_CASE("synchronous schedules keep their closed forms") {
  for (int n = 1; n <= 5; ++n)
    for (int m : {1, 2, 5, 8, 13}) {
      CAPTURE(n);
      CAPTURE(m);
      for (const char* name : {"gpipe", "1f1b", "1f1b-so"}) {
        const Program program =
            lowered(plan_of(n, 2, m, name, Method::Sync), 2 * n);
        CHECK(simulate(program, costs_for(program, 0)).duration.value() ==
              doctest::Approx((m + n - 1) * 6.0).epsilon(1e-12));
      }
      const Program program =
          lowered(plan_of(n, 2, m, "1f1b", Method::Sync), 2 * n);
      const int exposed = n + m - 2 - (m - 1 + n - 1) / n;
      CHECK(
          simulate(program, costs_for(program, 0.3)).duration.value() ==
          doctest::Approx((m + n - 1) * 6 + 2 * 0.3 * exposed).epsilon(1e-12));
    }
}

TEST_CASE("asynchronous pipelines have no bubble in the long run") {
  for (Method method : {Method::PipeMare, Method::Stash, Method::Naive})
    for (int n = 1; n <= 5; ++n)
      for (int m : {1, 2, 4}) {
        CAPTURE(n);
        CAPTURE(m);
        const Program program =
            lowered(plan_of(n, 1, m, "async-1f1b", method), n);
        const Costs costs = costs_for(program, 0);
        const Timeline timeline = simulate(program, costs);
        CHECK(timeline.step_seconds.value() == doctest::Approx(3.0 * m));
        CHECK(timeline.bubble == doctest::Approx(0).epsilon(1e-12));
        SimulateOptions more;
        more.minibatches = timeline.minibatches + 1;
        CHECK(simulate(program, costs, more).duration.value() -
                  timeline.duration.value() ==
              doctest::Approx(3.0 * m));
      }
}

// Between forward and backward of a microbatch stage i (from 1) of P does the
// backwards of P - i others: a delay of (P - i) / M steps on average.
TEST_CASE("PipeMare's delays are those of the schedule") {
  for (int n = 1; n <= 6; ++n)
    for (int m : {1, 2, 3, 5}) {
      const Program program =
          lowered(plan_of(n, 1, m, "async-1f1b", Method::PipeMare), n);
      for (int i = 0; i < n; ++i) {
        const StageDelay& delay = program.delays[static_cast<std::size_t>(i)];
        CHECK(delay.forward ==
              doctest::Approx((n - 1 - i) / static_cast<double>(m)));
        CHECK(delay.backward == 0);
      }
    }
}

// Four layers on two workers with f = 1 and b = 2 a layer. Equal cuts at 2: 6
// each. Forward cut behind layer 3 and backward cut behind layer 1: worker 0
// has 3 + 2, worker 1 has 1 + 6; the other way round 1 + 6 and 3 + 2.
TEST_CASE("Bi-Partition repeats at its busiest worker") {
  struct Row {
    int forward, backward;
    double period;
  };
  for (const Row& row : {Row{2, 2, 6}, Row{3, 1, 7}, Row{3, 2, 7}, Row{1, 3, 7},
                         Row{1, 2, 7}, Row{2, 1, 8}}) {
    CAPTURE(row.forward);
    CAPTURE(row.backward);
    Plan plan = plan_of(2, 2, 2, "async-1f1b", Method::PipeMare);
    plan.stages[0] = {{}, {}, {WorkerId(0)}, false};
    plan.stages[1] = {{}, {}, {WorkerId(1)}, false};
    for (int l = 0; l < 4; ++l) {
      plan.stages[l < row.forward ? 0 : 1].forward.push_back(LayerId(l));
      plan.stages[l < row.backward ? 0 : 1].backward.push_back(LayerId(l));
    }
    const Program program = lowered(plan, 4);
    const double busiest = std::max(row.forward + 2 * row.backward,
                                    4 - row.forward + 2 * (4 - row.backward));
    CHECK(busiest == row.period);
    CHECK(steady_state_period(program, costs_for(program, 0)).value() ==
          doctest::Approx(2 * row.period));
  }
}

}  // namespace
}  // namespace pipewright
