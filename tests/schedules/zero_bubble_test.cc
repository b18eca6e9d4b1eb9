// The `zero-bubble` search against all orders where they can be counted, and
// against the hand-made schedules everywhere.

#include <random>

#include "pipewright/schedules/zero_bubble_problem.h"
#include "zb_test.h"

namespace pipewright {
namespace {

// Whole numbers, so that equal sums are equal.
ScheduleRequest random_request(std::mt19937& random, int workers,
                               int microbatches, int stages_per_worker = 1) {
  const auto from = [&](int low, int high) {
    return low + static_cast<int>(random() % unsigned(high - low + 1));
  };
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  request.stages_per_worker = stages_per_worker;
  request.transfer = Seconds(from(0, 3));
  for (int s = 0; s < workers * stages_per_worker; ++s)
    request.times.push_back(
        {Seconds(from(1, 9)), Seconds(from(1, 9)), Seconds(from(1, 9))});
  if (from(0, 1) == 1)
    for (int w = 0; w < workers; ++w)
      request.memory_limit.push_back(
          from(stages_per_worker, stages_per_worker * (workers + 1)));
  return request;
}

bool fits(const Schedule& schedule, const ScheduleRequest& request) {
  for (std::size_t w = 0; w < request.memory_limit.size(); ++w)
    if (peak_activations(schedule, WorkerId(w)) > request.memory_limit[w])
      return false;
  return true;
}

Schedule found_for(const ScheduleRequest& request) {
  Result<Schedule> found = generate_schedule("zero-bubble", request);
  if (!found) FAIL(found.error().to_text());
  return *std::move(found);
}

// All orders of one stage: F before I before W of each microbatch, at most
// `limit` held, F of the first stage ascending since microbatches are alike.
class AllOrders {
 public:
  AllOrders(int stage, int microbatches, double limit)
      : stage_(stage), limit_(limit), done_(std::size_t(microbatches), 0) {
    extend(0);
  }
  std::vector<std::vector<ComputeAction>> orders;

 private:
  void extend(int held) {
    if (order_.size() == 3 * done_.size()) return orders.push_back(order_);
    for (std::size_t m = 0; m < done_.size(); ++m) {
      if (done_[m] == 3 || (done_[m] == 0 && held + 1 > limit_)) continue;
      if (stage_ == 0 && done_[m] == 0 && m > 0 && done_[m - 1] == 0) continue;
      constexpr ComputeKind kKinds[] = {ComputeKind::Forward,
                                        ComputeKind::BackwardInput,
                                        ComputeKind::BackwardWeight};
      order_.push_back({.stage = StageId(stage_),
                        .microbatch = MicrobatchId(m),
                        .kind = kKinds[done_[m]]});
      const int change = done_[m] == 0 ? 1 : done_[m] == 2 ? -1 : 0;
      ++done_[m];
      extend(held + change);
      --done_[m];
      order_.pop_back();
    }
  }

  int stage_;
  double limit_;
  std::vector<int> done_;  // passes of each microbatch
  std::vector<ComputeAction> order_;
};

double least_makespan(const ScheduleRequest& request, Orders& orders) {
  const auto next = static_cast<int>(orders.size());
  if (next == request.workers) {
    const auto spans =
        worker_spans(orders, next, request.microbatches, request);
    double end = 0;
    if (!spans) return 1e9;
    for (const WorkerSpan& span : *spans) end = std::max(end, span.end.value());
    return end;
  }
  const double limit = request.memory_limit.empty()
                           ? request.microbatches
                           : request.memory_limit[std::size_t(next)];
  double least = 1e9;
  for (auto& order : AllOrders(next, request.microbatches, limit).orders) {
    orders.push_back(std::move(order));
    least = std::min(least, least_makespan(request, orders));
    orders.pop_back();
  }
  return least;
}

TEST_CASE("the best of all orders where they can be counted") {
  std::mt19937 random(7);
  const struct {
    int workers, microbatches, cases;
  } sizes[] = {{1, 3, 20}, {2, 1, 50}, {2, 2, 300}, {2, 3, 6}, {3, 2, 6}};
  for (const auto& size : sizes) {
    int equal = 0;
    for (int i = 0; i < size.cases; ++i) {
      const ScheduleRequest request =
          random_request(random, size.workers, size.microbatches);
      Orders none;
      const double least = least_makespan(request, none);
      const double found =
          schedule_makespan(found_for(request), request).value();
      CHECK(found >= least);
      CHECK(zb::lower_bound(*zb::problem_of(request)).makespan <= least);
      equal += found == least ? 1 : 0;
    }
    MESSAGE("p=" << size.workers << " M=" << size.microbatches
                 << ": optimal in " << equal << " of " << size.cases);
    CHECK(equal == size.cases);
  }
}

TEST_CASE("never worse than a hand-made schedule that fits, never over") {
  std::mt19937 random(11);
  int compared = 0;
  for (int i = 0; i < 150; ++i) {
    const int p = 1 + static_cast<int>(random() % 8);
    const int m = 1 + static_cast<int>(random() % 20);
    const int stages_per_worker = 1 + static_cast<int>(random() % 2);
    const ScheduleRequest request =
        random_request(random, p, m, stages_per_worker);
    const Schedule found = found_for(request);
    CHECK(found.num_stages() == p * stages_per_worker);
    CHECK(fits(found, request));
    const double step = schedule_makespan(found, request).value();
    CHECK(step >=
          zb::lower_bound(*zb::problem_of(request)).makespan * (1 - 1e-12));
    for (const char* name :
         {"1f1b", "zb-h1", "zb-h2", "zb-v", "v-half", "v-min"}) {
      const Schedule other = generated(name, p, m);
      if (other.num_stages() != p * stages_per_worker || !fits(other, request))
        continue;
      ++compared;
      CHECK(step <= schedule_makespan(other, request).value());
    }
  }
  CHECK(compared > 150);
}

TEST_CASE("equal stages: no bubble without limits, zb-h1's in 1f1b's memory") {
  for (int p = 1; p <= 8; ++p) {
    ScheduleRequest request;
    request.workers = p;
    request.microbatches = 3 * p;
    CHECK(longest_span(found_for(request), request).value() == 9 * p);
    request.memory_limit.assign(static_cast<std::size_t>(p), p);
    CHECK(schedule_makespan(found_for(request), request).value() ==
          9 * p + p - 1);
  }
}

TEST_CASE("the same request has the same answer") {
  std::mt19937 random(13);
  const ScheduleRequest request = random_request(random, 5, 9);
  CHECK(found_for(request) == found_for(request));
}

TEST_CASE("every number of workers and microbatches, and one at a time") {
  for (int p = 1; p <= 16; p += 3)
    for (int m = 1; m <= 64; m += 9) {
      ScheduleRequest request;
      request.workers = p;
      request.microbatches = m;
      request.memory_limit.assign(static_cast<std::size_t>(p), 1);
      const Schedule found = found_for(request);
      CHECK(fits(found, request));
      // One microbatch after the other, W beside the next stage's I.
      CHECK(schedule_makespan(found, request).value() >= m * 3);
    }
}

TEST_CASE("requests that cannot be done say why") {
  ScheduleRequest request;
  request.workers = 3;
  request.microbatches = 2;
  request.times.resize(4);
  auto wrong_times = generate_schedule("zero-bubble", request);
  REQUIRE(!wrong_times);
  CHECK(wrong_times.error().message == "times for 4 stages on 3 workers");
  request.times.resize(6);
  request.times[1].forward = Seconds(1e308);
  CHECK(!generate_schedule("zero-bubble", request));
  request.times[1].forward = Seconds(1);
  request.memory_limit = {2, 1.5, 2};
  auto no_room = generate_schedule("zero-bubble", request);
  REQUIRE(!no_room);
  CHECK(no_room.error().message.find("worker 1") == 0);
  request.memory_limit = {2, 2};
  CHECK(generate_schedule("zero-bubble", request).error().code ==
        ErrorCode::BadConfiguration);
}

}  // namespace
}  // namespace pipewright
