// Chimera at M = p = 4 compared with every order: with each stage on the two
// workers where Chimera puts it, no order takes less than ours. So the bubble
// that is often given, (p/2-1)(F+B), is reached only where F = B.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "pipewright/schedules/makespan.h"

namespace pipewright {
namespace {

constexpr int kWorkers = 4, kMicrobatches = 4, kPasses = 2 * kWorkers;

// How far each microbatch is, in passes done.
using ProgressOfAll = std::array<int, kMicrobatches>;
// When each microbatch can go on, and each worker is free.
using Clocks = std::array<int, kMicrobatches + kWorkers>;

int worker_of(int microbatch, int pass) {
  const int stage = pass < kWorkers ? pass : kPasses - 1 - pass;
  return microbatch % 2 == 0 ? stage : kWorkers - 1 - stage;
}

bool is_no_later(const Clocks& a, const Clocks& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i] > b[i]) return false;
  return true;
}

// Of clocks at the same progress only those that no others are ahead of can
// lead to the best order.
void keep(std::vector<Clocks>& known, const Clocks& clocks) {
  for (const Clocks& other : known)
    if (is_no_later(other, clocks)) return;
  std::erase_if(known, [&clocks](const Clocks& other) {
    return is_no_later(clocks, other);
  });
  known.push_back(clocks);
}

// Microbatches of one direction are equal: sorts the one ahead to the front.
void put_in_order(ProgressOfAll& progress, Clocks& clocks) {
  for (std::size_t m : {0, 1})
    if (progress[m] < progress[m + 2]) {
      std::swap(progress[m], progress[m + 2]);
      std::swap(clocks[m], clocks[m + 2]);
    }
}

int chimera_makespan(int forward, int backward) {
  std::map<ProgressOfAll, std::vector<Clocks>> front{
      {ProgressOfAll{}, {Clocks{}}}};
  for (int step = 0; step < kPasses * kMicrobatches; ++step) {
    std::map<ProgressOfAll, std::vector<Clocks>> next;
    for (const auto& [progress, all] : front)
      for (std::size_t m = 0; m < kMicrobatches; ++m) {
        const int pass = progress[m];
        if (pass == kPasses) continue;
        const auto worker = static_cast<std::size_t>(
            kMicrobatches + worker_of(static_cast<int>(m), pass));
        for (Clocks clocks : all) {
          ProgressOfAll after = progress;
          ++after[m];
          clocks[m] = clocks[worker] = std::max(clocks[m], clocks[worker]) +
                                       (pass < kWorkers ? forward : backward);
          put_in_order(after, clocks);
          keep(next[after], clocks);
        }
      }
    front = std::move(next);
  }
  int least = 1 << 30;
  for (const Clocks& clocks : front.begin()->second)
    least = std::min(least, *std::max_element(clocks.begin(), clocks.end()));
  return least;
}

TEST_CASE("no order of Chimera's stages beats the generator's, p = M = 4") {
  ScheduleRequest request;
  request.workers = kWorkers;
  request.microbatches = kMicrobatches;
  const auto schedule = generate_schedule("chimera", request);
  REQUIRE(schedule.ok());
  for (auto [forward, backward] :
       {std::pair(1, 1), {1, 2}, {2, 3}, {1, 3}, {2, 1}}) {
    CAPTURE(forward);
    CAPTURE(backward);
    request.times.assign(kWorkers, {Seconds(forward), Seconds(backward / 2.0),
                                    Seconds(backward - backward / 2.0)});
    const int least = chimera_makespan(forward, backward);
    CHECK(schedule_makespan(*schedule, request) == Seconds(least));
    CHECK(least == kMicrobatches * (forward + backward) +
                       (kWorkers - 2) * std::max(forward, backward));
    const int often_said =
        (kMicrobatches + kWorkers / 2 - 1) * (forward + backward);
    CHECK((least == often_said) == (forward == backward));
  }
}

}  // namespace
}  // namespace pipewright
