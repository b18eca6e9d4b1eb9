// The order of stages on groups of hosts: compared with the longest path over
// the schedule that it is, and by hand.

#include "pipewright/planners/auto/host_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/base/index.h"
#include "pipewright/schedules/makespan.h"

namespace pipewright {
namespace {

class RandomWork {
 public:
  explicit RandomWork(unsigned seed) : random_(seed) {}

  int number(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }

  // Every group has a stage, and some have several.
  HostWork next() {
    HostWork work;
    work.microbatches = number(1, 12);
    work.groups = number(1, 5);
    const int stages = work.groups + number(0, 4);
    for (int s = 0; s < stages; ++s)
      work.stages.push_back({s < work.groups ? s : number(0, work.groups - 1),
                             milliseconds(1, 9), milliseconds(1, 9),
                             milliseconds(1, 9), 0, 0});
    std::shuffle(work.stages.begin(), work.stages.end(), random_);
    return work;
  }

  // How many hosts of each group take turns.
  void add_turns(HostWork& work) {
    for (int g = 0; g < work.groups; ++g) work.turns.push_back(number(1, 4));
  }

  void add_messages_and_sums(HostWork& work) {
    work.latency = 1e-4;
    for (int to = 1; to < int(work.stages.size()); ++to) {
      const int from = number(0, to - 1);
      if (work.stages[at(from)].group != work.stages[at(to)].group)
        work.transfers.push_back(
            {from, to, milliseconds(0, 9), milliseconds(1, 9)});
    }
    for (HostStageTimes& stage : work.stages) {
      stage.reduction = milliseconds(0, 50);
      stage.after = milliseconds(0, 5);
    }
  }

 private:
  double milliseconds(int low, int high) { return number(low, high) * 1e-3; }

  std::mt19937 random_;
};

Schedule schedule_of(const HostWork& work) {
  return Schedule::create(static_cast<int>(work.stages.size()),
                          work.microbatches, host_order(work, true).orders)
      .value();
}

// Of each host that takes turns.
Schedule schedule_of_hosts(const HostWork& work) {
  return with_replicas(schedule_of(work), work.turns, Replication::Rotate)
      .value();
}

double makespan(const Schedule& schedule, const HostWork& work) {
  ScheduleRequest request;
  request.workers = schedule.num_workers();
  request.microbatches = work.microbatches;
  for (const HostStageTimes& stage : work.stages)
    request.times.push_back({Seconds(stage.forward),
                             Seconds(stage.backward_input),
                             Seconds(stage.backward_weight)});
  return schedule_makespan(schedule, request).value();
}

void limit_in_flight(HostWork& work, RandomWork& random) {
  for (HostStageTimes& stage : work.stages)
    stage.max_in_flight = random.number(0, 4);
}

void change_urgencies(HostWork& work, RandomWork& random) {
  for (HostStageTimes& stage : work.stages)
    for (double& urgency : stage.urgency)
      urgency = random.number(-50, 50) / 100.0;
}

void check_in_flight(const Orders& orders, const HostWork& work) {
  for (const auto& order : orders) {
    std::vector<int> now(work.stages.size(), 0);
    for (const ComputeAction& action : order) {
      int& count = now[action.stage.index()];
      if (action.kind == ComputeKind::Forward) ++count;
      if (action.kind == ComputeKind::BackwardWeight) --count;
      const int limit = work.stages[action.stage.index()].max_in_flight;
      if (limit > 0) CHECK(count <= limit);
    }
  }
}

}  // namespace

TEST_CASE("without messages it is the longest path of its own schedule") {
  RandomWork random(103);
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    HostWork work = random.next();
    if (i % 2 == 1) limit_in_flight(work, random);
    if (i % 3 == 1) change_urgencies(work, random);
    const double end = makespan(schedule_of(work), work);
    CHECK(host_order(work, false).seconds == doctest::Approx(end));
    CHECK(host_load(work) <= end * (1 + 1e-9));
  }
}

TEST_CASE("with messages and sums it is a valid schedule, and no shorter") {
  RandomWork random(104);
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    HostWork work = random.next();
    if (i % 3 == 2) limit_in_flight(work, random);
    if (i % 2 == 1) change_urgencies(work, random);
    work.is_one_host = i % 5 == 4;
    const double load = host_load(work);
    random.add_messages_and_sums(work);
    const HostOrder order = host_order(work, true);
    CHECK(order.seconds >= load);
    CHECK(Schedule::create(static_cast<int>(work.stages.size()),
                           work.microbatches, order.orders));
    check_in_flight(order.orders, work);
    // A limit ends it early, or not at all.
    CHECK(host_order(work, false, order.seconds * 1.01).seconds ==
          order.seconds);
    const double limit = order.seconds * random.number(1, 99) / 100;
    const double early = host_order(work, false, limit).seconds;
    CHECK(early >= limit);
    CHECK(early <= order.seconds * (1 + 1e-9));
  }
}

TEST_CASE("hosts that take turns: the longest path of their own schedule") {
  RandomWork random(105);
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    HostWork work = random.next();
    random.add_turns(work);
    if (i % 2 == 1) limit_in_flight(work, random);
    if (i % 3 == 1) change_urgencies(work, random);
    const Schedule schedule = schedule_of_hosts(work);
    const double end = makespan(schedule, work);
    CHECK(host_order(work, false).seconds == doctest::Approx(end));
    CHECK(host_load(work) <= end * (1 + 1e-9));
    check_in_flight(schedule.sections().body, work);
    // With messages and sums it takes no less.
    const double load = host_load(work);
    random.add_messages_and_sums(work);
    const HostOrder order = host_order(work, true);
    CHECK(order.seconds >= load);
    CHECK(Schedule::create(static_cast<int>(work.stages.size()),
                           work.microbatches, order.orders));
    const double limit = order.seconds * random.number(1, 99) / 100;
    const double early = host_order(work, false, limit).seconds;
    CHECK(early >= limit);
    CHECK(early <= order.seconds * (1 + 1e-9));
  }
}

TEST_CASE("hosts that take turns, by hand") {
  HostWork work;
  work.microbatches = 3;
  work.groups = 1;
  work.stages = {{0, 2, 1, 1, 6, 0}};
  work.turns = {2};
  // The first host has microbatches 0 and 2 and computes for 8, the other one
  // for 4; then the gradients are summed.
  CHECK(host_order(work, false).seconds == doctest::Approx(8 + 6));
  work.turns = {3};
  CHECK(host_order(work, false).seconds == doctest::Approx(4 + 6));
  // A message of 1 to another host counts as three, there and back.
  work.groups = 2;
  work.stages = {{0, 2, 1, 1, 0, 0}, {1, 1, 1, 0, 0, 0}};
  work.transfers = {{0, 1, 1, 1}};
  work.microbatches = 2;
  work.turns = {2, 2};
  CHECK(host_order(work, false).seconds == doctest::Approx(2 + 3 + 2 + 3 + 2));
}

TEST_CASE("inside a host groups have their own links, and one card for sums") {
  HostWork work;
  work.microbatches = 1;
  work.groups = 3;
  work.is_one_host = true;
  work.stages = {{0, 1, 1, 0, 0, 0}, {1, 1, 1, 0, 0, 0}, {2, 1, 1, 0, 0, 0}};
  // Both messages of the first stage arrive at 3; the last stage waits for the
  // one before, and ends at 5; gradients come at 7, and at 5 + 1 + 2 = 8.
  work.transfers = {{0, 1, 2, 2}, {0, 2, 2, 2}};
  CHECK(host_order(work, false).seconds ==
        doctest::Approx(1 + 2 + 1 + 2 + 1 + 2 + 1));
  // The sums start at 6, 7 and 10 and take 5 each, one after the other.
  for (HostStageTimes& stage : work.stages) stage.reduction = 5;
  CHECK(host_order(work, false).seconds == doctest::Approx(6 + 15));
  CHECK(host_load(work) == doctest::Approx(15));
}

TEST_CASE("a card sends one message at a time") {
  HostWork work;
  work.microbatches = 2;
  work.groups = 2;
  work.stages = {{0, 1, 1, 0, 0, 0}, {1, 1, 1, 0, 0, 0}};
  work.transfers = {{0, 1, 3, 3}};
  // Forwards end at 1 and 2 and arrive at 4 and 7; the second stage ends its
  // backwards at 6 and 9, which arrive at 9 and 12; the last takes 1.
  CHECK(host_order(work, false).seconds == doctest::Approx(13));
  // Either direction of a card: 2 x 3.
  CHECK(host_load(work) == doctest::Approx(6));
  work.stages[1].after = 7;
  CHECK(host_order(work, false).seconds == doctest::Approx(16));
  CHECK(host_order(work, false).last_group == 1);
}

TEST_CASE("a group computes one stage while another's gradients are summed") {
  HostWork work;
  work.microbatches = 1;
  work.groups = 1;
  work.stages = {{0, 1, 1, 1, 0, 0}, {0, 1, 1, 1, 10, 2}};
  // The weight gradient with the long sum comes before the other stage: it ends
  // at 4, the sum at 14, its latency at 16.
  CHECK(host_order(work, false).seconds == doctest::Approx(16));
  CHECK(schedule_of(work).sections().body[0][3].stage == StageId(1));
  // Sums of one group follow each other: at 6 the second waits for the first.
  work.stages[0].reduction = 10;
  CHECK(host_order(work, false).seconds == doctest::Approx(24));
}

TEST_CASE("what is more urgent comes first") {
  HostWork work;
  work.microbatches = 2;
  work.groups = 1;
  work.stages = {{0, 1, 1, 1, 0, 0}};
  const auto kinds = [&] {
    std::vector<ComputeKind> order;
    const Schedule schedule = schedule_of(work);
    for (const ComputeAction& action : schedule.sections().body[0])
      order.push_back(action.kind);
    return order;
  };
  const auto F = ComputeKind::Forward, I = ComputeKind::BackwardInput,
             W = ComputeKind::BackwardWeight;
  CHECK(kinds() == std::vector{F, F, I, I, W, W});
  work.stages[0].urgency = {-0.5, 0, 0.5};  // of 3 s
  CHECK(kinds() == std::vector{F, I, W, F, I, W});
}

TEST_CASE("a message and a sum share a card") {
  HostWork work;
  work.microbatches = 1;
  work.groups = 2;
  work.stages = {{0, 1, 1, 0, 0, 0}, {1, 1, 1, 1, 10, 0}, {1, 1, 1, 0, 10, 0}};
  work.transfers = {{0, 1, 2, 2}};
  // Forwards end at 1, 4 and 5, the input gradient of the last stage at 6, and
  // its sum takes from then on. That of the stage before ends at 7: its message
  // shares the card until 11. The sums take 20 and lose 2 by that.
  CHECK(host_order(work, false).seconds == doctest::Approx(6 + 20 + 2));
  CHECK(host_order(work, false).last_group == 1);
}

}  // namespace pipewright
