// Step times and numbers in flight of the generators, as in their papers: equal
// stages, no communication unless stated. Times are integers, so equality is
// exact.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "pipewright/schedules/generator.h"

namespace pipewright {
namespace {

struct Times {
  int forward = 1, backward = 2, transfer = 0;
};

// The longest path, by trying every worker again and again. Shares nothing with
// the clocks of the library.
int step_time(const Orders& orders, int stages, Times t) {
  std::map<std::tuple<bool, int, MicrobatchId>, std::pair<int, std::size_t>>
      ends;
  std::vector<std::size_t> at(orders.size(), 0);
  std::vector<int> clock(orders.size(), 0);
  // When the worker may start the action; -1 if not yet known.
  const auto start_of = [&](std::size_t w, const ComputeAction& a) {
    const bool forward = a.kind == ComputeKind::Forward;
    const int other = a.stage.value + (forward ? -1 : 1);
    if (other < 0 || other >= stages) return clock[w];
    const auto end = ends.find({forward, other, a.microbatch});
    if (end == ends.end()) return -1;
    const int delay = end->second.second == w ? 0 : t.transfer;
    return std::max(clock[w], end->second.first + delay);
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t w = 0; w < orders.size(); ++w) {
      while (at[w] < orders[w].size()) {
        const std::size_t n = orders[w][at[w]].joined ? 2 : 1;
        int start = 0, length = 0;
        for (std::size_t i = at[w]; i < at[w] + n; ++i) {
          const int s = start_of(w, orders[w][i]);
          start = s < 0 || start < 0 ? -1 : std::max(start, s);
          length += orders[w][i].kind == ComputeKind::Forward ? t.forward
                                                              : t.backward;
        }
        if (start < 0) break;
        clock[w] = start + length;
        for (std::size_t i = 0; i < n; ++i, ++at[w]) {
          const ComputeAction& a = orders[w][at[w]];
          ends[{a.kind == ComputeKind::Forward, a.stage.value, a.microbatch}] =
              {clock[w], w};
        }
        moved = true;
      }
    }
  }
  for (std::size_t w = 0; w < orders.size(); ++w)
    REQUIRE(at[w] == orders[w].size());
  return *std::max_element(clock.begin(), clock.end());
}

Schedule made_for(const std::string& name, int p, int M, int v = 2) {
  ScheduleRequest request;
  request.workers = p;
  request.microbatches = M;
  request.stages_per_worker = v;
  auto schedule = generate_schedule(name, request);
  REQUIRE_MESSAGE(schedule.ok(), schedule.error().to_text());
  return *std::move(schedule);
}

// Step time beyond the work of a worker.
int beyond(const Schedule& schedule, Times t) {
  const int work = schedule.num_microbatches() * schedule.num_stages() /
                   schedule.num_workers() * (t.forward + t.backward);
  return step_time(schedule.sections().body, schedule.num_stages(), t) - work;
}

int in_flight(const Schedule& schedule, int stage) {
  return peak_in_flight(schedule, WorkerId(stage), StageId(stage));
}

const Times kStageTimes[] = {{1, 1, 0}, {1, 2, 0}, {2, 3, 0}, {3, 1, 0}};

TEST_CASE("one stage per worker: (p-1)(F+B), and what is in flight") {
  for (int p = 1; p <= 9; ++p)
    for (int M = 1; M <= 20; ++M)
      for (Times t : kStageTimes) {
        CAPTURE(p);
        CAPTURE(M);
        const int fill = (p - 1) * (t.forward + t.backward);
        for (const char* name :
             {"gpipe", "1f1b", "1f1b-so", "fbp", "spp-pe", "spp-pe-capped"}) {
          CAPTURE(name);
          CHECK(beyond(made_for(name, p, M), t) == fill);
        }
        for (int i = 1; i <= p; ++i) {
          CHECK(in_flight(made_for("gpipe", p, M), i - 1) == M);
          CHECK(in_flight(made_for("1f1b", p, M), i - 1) ==
                std::min(M, p - i + 1));
          const int so = std::min(M, 2 * (p - i) + 1);
          CHECK(in_flight(made_for("1f1b-so", p, M), i - 1) == so);
          CHECK(in_flight(made_for("spp-pe-capped", p, M), i - 1) == so);
          CHECK(in_flight(made_for("fbp", p, M), i - 1) ==
                std::min(M, 2 * (p - i + 1)));
          CHECK(in_flight(made_for("spp-pe", p, M), i - 1) ==
                std::min(M, std::max(1, 4 * (p - i))));
        }
      }
}

TEST_CASE("transfers: exposed by 1f1b, hidden by 1f1b-so") {
  // X counts the exposed transfers of 1f1b on links of pure latency.
  for (int p = 2; p <= 8; ++p)
    for (int M = 1; M < 40; ++M)
      for (Times t : {Times{10, 20, 3}, Times{10, 10, 10}, Times{5, 9, 2}}) {
        CAPTURE(p);
        CAPTURE(M);
        const int fill = (p - 1) * (t.forward + t.backward);
        const int x = p + M - 2 - (M - 1 + p - 1) / p;
        CHECK(beyond(made_for("1f1b", p, M), t) == fill + 2 * t.transfer * x);
        CHECK(beyond(made_for("1f1b-so", p, M), t) ==
              fill + 2 * t.transfer * (p - 1));
      }
  const Times t{10, 20, 3};
  CHECK(beyond(made_for("1f1b", 4, 8), t) + 240 == 378);
  CHECK(beyond(made_for("1f1b-so", 4, 8), t) + 240 == 348);
  CHECK(beyond(made_for("1f1b", 4, 8), {10, 20, 0}) + 240 == 330);
}

TEST_CASE("several stages per worker: (p-1)(F+B)/v") {
  for (int p = 1; p <= 6; ++p)
    for (int v = 1; v <= 4; ++v)
      for (int M = 1; M <= 25; ++M)
        for (Times t : kStageTimes) {
          CAPTURE(p);
          CAPTURE(v);
          CAPTURE(M);
          const int stage = t.forward + t.backward;
          // With fewer microbatches than workers each of the first v-1 stages
          // has to wait for the first microbatch to come round.
          const int round = (v - 1) * std::max(0, p - M) * stage;
          CHECK(beyond(made_for("looped-bfs", p, M, v), t) ==
                (p - 1) * stage + round);
          if (M >= p)
            CHECK(beyond(made_for("interleaved", p, M, v), t) ==
                  (p - 1) * stage);
          else
            CHECK(beyond(made_for("interleaved", p, M, v), t) <=
                  (p - 1) * stage + round);
        }
}

TEST_CASE("interleaved holds what Megatron's does, looped-bfs everything") {
  for (int p = 2; p <= 6; ++p)
    for (int v = 2; v <= 3; ++v)
      for (int M = p; M <= 4 * p; M += p)
        for (int w = 0; w < p; ++w) {
          const Schedule schedule = made_for("interleaved", p, M, v);
          int held = 0, peak = 0;
          for (const ComputeAction& a :
               schedule.sections().body[static_cast<std::size_t>(w)]) {
            held += a.kind == ComputeKind::Forward ? 1 : -1;
            peak = std::max(peak, held);
          }
          CHECK(peak == std::min(M * v, 2 * (p - 1 - w) + (v - 1) * p + 1));
          CHECK(in_flight(made_for("looped-bfs", p, M, v), w) == M);
        }
}

TEST_CASE("chimera at M = p: (p/2-1)(F+B) with F = B") {
  for (int p = 2; p <= 16; p += 2) {
    CAPTURE(p);
    const Schedule schedule = made_for("chimera", p, p);
    CHECK(beyond(schedule, {1, 1, 0}) == (p / 2 - 1) * 2);
    for (Times t : kStageTimes)
      CHECK(beyond(schedule, t) == (p - 2) * std::max(t.forward, t.backward));
    // A multiple of p: units follow each other without a bubble between.
    for (int k = 2; k <= 4; ++k)
      CHECK(beyond(made_for("chimera", p, k * p), {1, 1, 0}) ==
            (p / 2 - 1) * 2);
    // Every stage on two workers, even microbatches down, odd ones up.
    for (int w = 0; w < p; ++w)
      for (const ComputeAction& a :
           schedule.sections().body[static_cast<std::size_t>(w)])
        CHECK(a.stage.value == (a.microbatch.value % 2 == 0 ? w : p - 1 - w));
  }
}

TEST_CASE("hanayo at M = p: 2(p-1)max(F,B)/v") {
  for (int p = 1; p <= 8; ++p)
    for (int v = 2; v <= 6; v += 2) {
      CAPTURE(p);
      CAPTURE(v);
      for (Times t : kStageTimes)
        CHECK(beyond(made_for("hanayo", p, p, v), t) ==
              2 * (p - 1) * std::max(t.forward, t.backward));
      for (int k = 2; k <= 3; ++k)
        CHECK(beyond(made_for("hanayo", p, k * p, v), {1, 1, 0}) ==
              2 * (p - 1));
    }
}

TEST_CASE("async-1f1b: no bubble in the steady state, p-i+1 in flight") {
  for (int p = 1; p <= 8; ++p)
    for (int M = 1; M <= 10; ++M) {
      CAPTURE(p);
      CAPTURE(M);
      const Schedule schedule = made_for("async-1f1b", p, M);
      const int outside = (p - 1 + M - 1) / M;
      CHECK(schedule.sections().minibatches_outside == outside);
      for (int i = 1; i <= p; ++i)
        CHECK(in_flight(schedule, i - 1) == p - i + 1);
      for (Times t : kStageTimes) {
        const auto run_time = [&](int minibatches) {
          return step_time(schedule.unrolled(minibatches), p, t);
        };
        const int k = outside + 3;
        CHECK(run_time(k + 1) - run_time(k) == M * (t.forward + t.backward));
        CHECK(run_time(k) == (k * M + p - 1) * (t.forward + t.backward));
      }
    }
}

TEST_CASE("async-1f1b-so: twice the lead, the same steady state") {
  for (int p = 1; p <= 8; ++p)
    for (int M = 1; M <= 10; ++M) {
      CAPTURE(p);
      CAPTURE(M);
      const Schedule schedule = made_for("async-1f1b-so", p, M);
      const int outside = (2 * (p - 1) + M - 1) / M;
      CHECK(schedule.sections().minibatches_outside == outside);
      for (int i = 1; i <= p; ++i)
        CHECK(in_flight(schedule, i - 1) == 2 * (p - i) + 1);
      for (Times t : kStageTimes) {
        const auto run_time = [&](int minibatches) {
          return step_time(schedule.unrolled(minibatches), p, t);
        };
        const int k = outside + 3;
        CHECK(run_time(k + 1) - run_time(k) == M * (t.forward + t.backward));
      }
    }
}

}  // namespace
}  // namespace pipewright
