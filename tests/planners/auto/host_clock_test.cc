// The clock of pipelines on whole hosts, compared with the longest path over
// the same schedule, and by hand.

#include "pipewright/planners/auto/host_clock.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/schedules/makespan.h"

namespace pipewright {

TEST_CASE("without messages it is the longest path of the schedule") {
  std::mt19937 random(103);
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 500; ++i) {
    CAPTURE(i);
    ScheduleRequest request;
    request.workers = number(1, 6);
    request.microbatches = number(1, 12);
    request.stages_per_worker = 1;
    std::vector<HostStageTimes> stages;
    for (int s = 0; s < request.workers; ++s) {
      stages.push_back({number(1, 9) * 1e-3, number(1, 9) * 1e-3,
                        number(1, 9) * 1e-3, 0, 0, number(0, 20) * 1e-3});
      request.times.push_back({Seconds(stages.back().forward),
                               Seconds(stages.back().backward_input),
                               Seconds(stages.back().backward_weight)});
    }
    for (const char* name : {"1f1b-so", "zb-h1", "zb-h2", "gpipe"}) {
      const Schedule schedule = generate_schedule(name, request).value();
      const std::vector<WorkerSpan> spans = worker_spans(schedule, request);
      double end = 0;
      for (std::size_t s = 0; s < spans.size(); ++s)
        end = std::max(end, spans[s].end.value() + stages[s].after);
      CHECK(host_clock(schedule, stages) == doctest::Approx(end));
    }
  }
}

TEST_CASE("a stage sends one message at a time") {
  ScheduleRequest request;
  request.workers = 2;
  request.microbatches = 2;
  const Schedule schedule = generate_schedule("gpipe", request).value();
  std::vector<HostStageTimes> stages(2, {1, 1, 0, 3, 3, 0});
  // Forwards end at 1 and 2 and arrive at 4 and 7; the second stage ends its
  // backwards at 9 and 10, which arrive at 12 and 15; the last takes 1.
  CHECK(host_clock(schedule, stages) == doctest::Approx(16));
  stages[1].after = 7;
  CHECK(host_clock(schedule, stages) == doctest::Approx(17));
}

}  // namespace pipewright
