// SPP's guarantee for its microbatch order, kept by simulated plans: with
// S stages, M microbatches, C the largest load of a stage or channel a
// microbatch and A_s what follows the last backward of stage s,
//   T <= (1 + (4 S - 4) / M) M C + max A.
// Channels here are links with a bandwidth, which carry one message at a time
// in each direction.

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/simulate/simulate.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

struct Instance {
  int stages = 1, microbatches = 1;
  std::vector<ScheduleRequest::StageTimes> times;
  std::vector<Seconds> steps;     // A, per stage
  std::vector<Seconds> channels;  // one way, behind each stage but the last

  Seconds load() const {
    Seconds most;
    for (const auto& t : times)
      most = std::max(most, t.forward + t.backward_input + t.backward_weight);
    for (Seconds channel : channels) most = std::max(most, channel * 2);
    return most;
  }
  Seconds bound() const {
    return load() * (microbatches + 4 * stages - 4) +
           *std::max_element(steps.begin(), steps.end());
  }
};

Instance random_instance(std::mt19937& random) {
  const auto seconds = [&random](unsigned least, unsigned most) {
    return Seconds(static_cast<double>(least + random() % (most - least + 1)));
  };
  Instance made;
  made.stages = 1 + static_cast<int>(random() % 6);
  made.microbatches = 1 + static_cast<int>(random() % 24);
  for (int s = 0; s < made.stages; ++s) {
    made.times.push_back({seconds(1, 9), seconds(1, 9), seconds(1, 9)});
    made.steps.push_back(seconds(0, 20));
    if (s > 0) made.channels.push_back(seconds(0, 14));
  }
  return made;
}

Schedule spp_pe(const Instance& instance, bool knows_times) {
  ScheduleRequest request;
  request.workers = instance.stages;
  request.microbatches = instance.microbatches;
  if (knows_times) request.times = instance.times;
  auto schedule = generate_schedule("spp-pe", request);
  REQUIRE(schedule.ok());
  return *std::move(schedule);
}

Costs bound_costs(const Program& program, const Instance& instance) {
  Costs costs;
  for (const Operation& operation : program.operations) {
    const auto& t = instance.times[operation.stage.index()];
    costs.operations.push_back(
        {{t.forward, t.backward_input + t.backward_weight, t.backward_input,
          t.backward_weight, t.forward},
         instance.steps[operation.stage.index()]});
  }
  for (const Transfer& transfer : program.transfers) {
    const Seconds seconds =
        instance.channels[std::min(transfer.from, transfer.to).index()];
    Costs::TransferCost cost;
    cost.bandwidth = BytesPerSecond(
        seconds.value() > 0
            ? static_cast<double>(transfer.bytes.value()) / seconds.value()
            : std::numeric_limits<double>::infinity());
    costs.transfers.push_back(cost);
  }
  return costs;
}

Seconds simulated_step(const Instance& instance, const Schedule& schedule) {
  LowerOptions options;
  options.window = instance.microbatches;
  const auto program =
      lower(plan_of_schedule(schedule, Method::Sync, Replication::Split),
            chain(instance.stages), options);
  REQUIRE(program.ok());
  REQUIRE(validate(*program).ok());
  SimulateOptions how;
  how.keep_spans = false;
  return simulate(*program, bound_costs(*program, instance), how).duration;
}

TEST_CASE("the bound holds in 400 random plans") {
  std::mt19937 random(7);
  int near = 0;
  for (int trial = 0; trial < 400; ++trial) {
    const Instance instance = random_instance(random);
    const Seconds bound = instance.bound();
    const Seconds time = simulated_step(instance, spp_pe(instance, false));
    CHECK(time.value() <= bound.value() * (1 + 1e-12));
    near += time.value() > 0.9 * bound.value();
    // No schedule is done before its busiest stage or channel direction.
    CHECK(time.value() >= instance.load().value() / 2 * instance.microbatches);
  }
  CHECK(near > 0);  // the bound is not idle
}

TEST_CASE("an order that knows its times keeps the bound over free channels") {
  std::mt19937 random(8);
  for (int trial = 0; trial < 200; ++trial) {
    Instance instance = random_instance(random);
    std::fill(instance.channels.begin(), instance.channels.end(), Seconds(0));
    CHECK(simulated_step(instance, spp_pe(instance, true)) <= instance.bound());
  }
}

}  // namespace
}  // namespace pipewright
