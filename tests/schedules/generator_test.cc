// What holds for every generator: any numbers give a valid schedule or a
// reason, names are found, summaries are one line.

#include "pipewright/schedules/generator.h"

#include <doctest/doctest.h>

#include <random>
#include <set>

#include "pipewright/schedules/makespan.h"

namespace pipewright {
namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST_CASE("names are unique, lines are short, papers are named") {
  std::set<std::string> names;
  for (const ScheduleGenerator& generator : schedule_generators()) {
    CAPTURE(generator.name);
    CHECK(names.insert(generator.name).second);
    CHECK(generator.summary.size() <= 64);
    CHECK(generator.summary.find('\n') == std::string::npos);
    CHECK(generator.source.size() > 20);
  }
}

TEST_CASE("an unknown name offers the nearest") {
  const auto schedule = generate_schedule("1f1d", {});
  REQUIRE_FALSE(schedule.ok());
  CHECK(schedule.error().code == ErrorCode::BadConfiguration);
  CHECK(contains(schedule.error().to_text(), "1f1b"));
}

TEST_CASE("an older name of a schedule still works") {
  ScheduleRequest request;
  request.workers = 3;
  request.microbatches = 4;
  CHECK(generate_schedule("async-chunks", request)->to_text() ==
        generate_schedule("async-deep", request)->to_text());
}

TEST_CASE("impossible numbers are refused with the reason") {
  const auto refusal = [](ScheduleRequest request) {
    const auto schedule = generate_schedule("1f1b", request);
    REQUIRE_FALSE(schedule.ok());
    CHECK(schedule.error().code == ErrorCode::BadConfiguration);
    return schedule.error().to_text();
  };
  ScheduleRequest request;
  request.workers = 0;
  CHECK(contains(refusal(request),
                 "the number of workers must be at least 1, not 0"));
  request.workers = 1'000'000;
  request.microbatches = 1'000'000;
  CHECK(contains(refusal(request), "actions"));
  request = {};
  request.transfer = Seconds(-1);
  CHECK(contains(refusal(request), "transfer"));
  request = {};
  request.times = {{Seconds(-1), Seconds(1), Seconds(1)}};
  CHECK(contains(refusal(request), "times"));
  request = {};
  request.memory_limit = {-2};
  CHECK(contains(refusal(request), "memory limit"));
  request = {};
  request.workers = 4;
  request.microbatches = 8;
  request.memory_limit = {3};
  CHECK(contains(refusal(request),
                 "worker 0 would hold 4 activations, the "
                 "limit is 3"));
  request.memory_limit = {4, 3};
  CHECK(contains(refusal(request), "2 memory limits for 4 workers"));
  request.memory_limit = {4, 3, 2, 1};
  CHECK(generate_schedule("1f1b", request).ok());
}

TEST_CASE("random numbers give schedules that read back from their text") {
  std::mt19937 random(3);
  for (int trial = 0; trial < 60; ++trial)
    for (const ScheduleGenerator& generator : schedule_generators()) {
      ScheduleRequest request;
      request.workers = 1 + static_cast<int>(random() % 16);
      request.microbatches = 1 + static_cast<int>(random() % 64);
      request.stages_per_worker = 1 + static_cast<int>(random() % 4);
      CAPTURE(generator.name);
      CAPTURE(request.workers);
      CAPTURE(request.microbatches);
      CAPTURE(request.stages_per_worker);
      const auto schedule = generate_schedule(generator.name, request);
      if (!schedule) {
        CHECK(schedule.error().code == ErrorCode::BadConfiguration);
        continue;
      }
      CHECK(schedule->num_workers() == request.workers);
      const auto again = Schedule::parse(schedule->to_text(), "again");
      REQUIRE_MESSAGE(again.ok(), again.error().to_text());
      CHECK(*again == *schedule);
    }
}

TEST_CASE("spp-pe keeps its bound at random unequal times") {
  std::mt19937 random(5);
  for (int trial = 0; trial < 300; ++trial) {
    ScheduleRequest request;
    request.workers = 1 + static_cast<int>(random() % 6);
    request.microbatches = 1 + static_cast<int>(random() % 24);
    request.transfer = Seconds(static_cast<double>(random() % 4));
    double load = 2 * request.transfer.value();
    for (int s = 0; s < request.workers; ++s) {
      const auto time = [&] {
        return Seconds(static_cast<double>(1 + random() % 9));
      };
      request.times.push_back({time(), time(), time()});
      const auto& t = request.times.back();
      load = std::max(
          load, (t.forward + t.backward_input + t.backward_weight).value());
    }
    const auto pe = generate_schedule("spp-pe", request);
    REQUIRE(pe.ok());
    const double bound =
        (request.microbatches + 4 * request.workers - 4) * load;
    CHECK(schedule_makespan(*pe, request).value() <= bound);
  }
}

TEST_CASE("spp-pe-capped keeps a memory limit") {
  for (int p = 1; p <= 6; ++p)
    for (int limit = 1; limit <= 8; ++limit) {
      ScheduleRequest request;
      request.workers = p;
      request.microbatches = 12;
      request.memory_limit = {static_cast<double>(limit)};
      const auto schedule = generate_schedule("spp-pe-capped", request);
      REQUIRE(schedule.ok());
      for (int s = 0; s < p; ++s)
        CHECK(peak_in_flight(*schedule, WorkerId(s), StageId(s)) ==
              std::min(limit, 2 * (p - 1 - s) + 1));
    }
}

}  // namespace
}  // namespace pipewright
