// SPP's order of microbatches: its bounds on random plans, closed forms, and
// that its time equals that of the schedules it names.

#include "pipewright/planners/spp/spp_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/schedules/generator.h"
#include "pipewright/schedules/makespan.h"

namespace pipewright {
namespace {

constexpr Credits kAll[] = {Credits::Rounds, Credits::Channels,
                            Credits::Neighbour};

std::vector<StageLoad> random_loads(std::mt19937& random, int stages) {
  std::uniform_real_distribution<double> number(0, 1);
  std::vector<StageLoad> loads;
  for (int s = 0; s < stages; ++s)
    loads.push_back({Seconds(number(random)), Seconds(2 * number(random)),
                     Seconds(random() % 2 ? 3 * number(random) : 0),
                     Seconds(s + 1 < stages ? number(random) : 0)});
  return loads;
}

// The largest of a stage's whole work or a channel's: no order is faster.
Seconds load_bound(const std::vector<StageLoad>& stages, int microbatches) {
  Seconds largest;
  for (const StageLoad& stage : stages)
    largest = std::max(
        {largest, (stage.forward + stage.backward) * microbatches + stage.tail,
         stage.channel * (2.0 * microbatches)});
  return largest;
}

double passage(const std::vector<StageLoad>& loads) {
  double sum = 0;
  for (const StageLoad& load : loads)
    sum += (load.forward + load.backward + load.channel + load.channel).value();
  return sum;
}

TEST_CASE("the bound holds on random plans, and nothing beats the load") {
  std::mt19937 random(7);
  for (int round = 0; round < 500; ++round) {
    const int stages = 1 + static_cast<int>(random() % 7);
    const int microbatches = 1 + static_cast<int>(random() % 24);
    const auto loads = random_loads(random, stages);
    const double max_tail = std::max_element(loads.begin(), loads.end(),
                                             [](const auto& a, const auto& b) {
                                               return a.tail < b.tail;
                                             })
                                ->tail.value();
    CAPTURE(stages);
    CAPTURE(microbatches);
    for (Credits kind : kAll) {
      const double time = order_seconds(loads, microbatches, kind).value();
      CHECK(time <= order_bound(loads, microbatches, kind).value() * 1.000001);
      CHECK(time >= load_bound(loads, microbatches).value() * 0.999999);
      CHECK(time >= passage(loads) * 0.999999);
    }
    // The paper's form.
    CHECK(order_bound(loads, microbatches, Credits::Rounds).value() ==
          doctest::Approx((1 + (4.0 * stages - 4) / microbatches) *
                              microbatches * largest_load(loads).value() +
                          max_tail));
  }
}

TEST_CASE("one stage, one device") {
  const std::vector<StageLoad> one = {
      {Seconds(1), Seconds(2), Seconds(0.5), Seconds(0)}};
  for (Credits kind : kAll) {
    CHECK(order_seconds(one, 8, kind).value() == doctest::Approx(24.5));
    CHECK(order_bound(one, 8, kind).value() == doctest::Approx(24.5));
  }
}

TEST_CASE("uniform stages and channels give the ideal of 1F1B") {
  for (int stages : {4, 8})
    for (int microbatches : {4, 8, 16, 32})
      for (double channel : {0.0, 0.25, 0.5}) {
        std::vector<StageLoad> loads(
            static_cast<std::size_t>(stages),
            {Seconds(1), Seconds(2), Seconds(0), Seconds(channel)});
        CHECK(order_seconds(loads, microbatches, Credits::Rounds).value() ==
              doctest::Approx((microbatches + stages - 1) * 3.0 +
                              2 * (stages - 1) * channel));
      }
}

TEST_CASE("time scales with its inputs and grows with microbatches") {
  std::mt19937 random(8);
  for (int round = 0; round < 200; ++round) {
    const int stages = 1 + static_cast<int>(random() % 6);
    auto loads = random_loads(random, stages);
    for (Credits kind : kAll) {
      double before = 0;
      for (int m = 1; m < 12; ++m) {
        const double time = order_seconds(loads, m, kind).value();
        CHECK(time >= before);
        before = time;
      }
    }
    const double once = order_seconds(loads, 9, Credits::Rounds).value();
    auto slower = loads;
    for (StageLoad& load : slower)
      load = {load.forward * 3, load.backward * 3, load.tail * 3,
              load.channel * 3};
    CHECK(order_seconds(slower, 9, Credits::Rounds).value() ==
          doctest::Approx(3 * once));
    // A faster channel makes no order slower.
    auto faster = loads;
    faster[random() % faster.size()].channel = Seconds(0);
    for (Credits kind : kAll)
      CHECK(order_seconds(faster, 9, kind).value() <=
            order_seconds(loads, 9, kind).value() * 1.000001);
  }
}

// Without channels to wait for, the orders are those of the generators.
TEST_CASE("the time is that of the schedule of the same name") {
  std::mt19937 random(9);
  for (int round = 0; round < 200; ++round) {
    ScheduleRequest request;
    request.workers = 1 + static_cast<int>(random() % 6);
    request.microbatches = 1 + static_cast<int>(random() % 20);
    auto loads = random_loads(random, request.workers);
    for (StageLoad& load : loads) load.channel = load.tail = Seconds(0);
    ScheduleRequest timed = request;
    for (const StageLoad& load : loads)
      timed.times.push_back({load.forward, load.backward, Seconds(0)});
    for (Credits kind : kAll) {
      const auto schedule = generate_schedule(schedule_of(kind), request);
      REQUIRE(schedule);
      CAPTURE(schedule_of(kind));
      CHECK(order_seconds(loads, request.microbatches, kind).value() ==
            doctest::Approx(schedule_makespan(*schedule, timed).value()));
      const auto held = credits(kind, request.workers, request.microbatches);
      for (int s = 0; s < request.workers; ++s)
        CHECK(peak_in_flight(*schedule, WorkerId(s), StageId(s)) ==
              held[static_cast<std::size_t>(s)]);
    }
  }
}

}  // namespace
}  // namespace pipewright
