// Shares of samples by speed: no others finish earlier, and which stages get
// them.

#include "pipewright/plan/replica_shares.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "pipewright/schedules/generator.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

using TimeTables = std::vector<std::vector<double>>;  // [device][samples]

double end_of(const std::vector<int>& shares, const TimeTables& times) {
  double last = 0;
  for (std::size_t d = 0; d < shares.size(); ++d)
    last = std::max(last, times[d][std::size_t(shares[d])]);
  return last;
}

// The earliest end of all shares of at least one sample per device.
double earliest_end(int samples, std::size_t device, const TimeTables& times) {
  if (device + 1 == times.size()) return times[device][std::size_t(samples)];
  double best = 1e300;
  const int others = static_cast<int>(times.size() - device) - 1;
  for (int own = 1; own <= samples - others; ++own)
    best = std::min(best,
                    std::max(times[device][std::size_t(own)],
                             earliest_end(samples - own, device + 1, times)));
  return best;
}

TEST_CASE("no other shares finish earlier") {
  std::mt19937 random(7);
  const auto number = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int i = 0; i < 2000; ++i) {
    const int devices = number(1, 4), samples = number(devices, 12);
    TimeTables times;
    for (int d = 0; d < devices; ++d) {
      std::vector<double>& table = times.emplace_back(1, number(0, 5));
      const int slowest = number(1, 20);  // equal times are frequent
      for (int n = 1; n <= samples; ++n)
        table.push_back(table.back() + number(0, slowest));
    }
    const std::vector<int> shares =
        fastest_shares(samples, devices, [&](int device, int count) {
          return Seconds(times[std::size_t(device)][std::size_t(count)]);
        });
    CAPTURE(i);
    REQUIRE(std::accumulate(shares.begin(), shares.end(), 0) == samples);
    CHECK(*std::min_element(shares.begin(), shares.end()) >= 1);
    CHECK(end_of(shares, times) ==
          doctest::Approx(earliest_end(samples, 0, times)));
  }
}

TEST_CASE("a million samples are shared at once") {
  int asked = 0;
  const auto shares = fastest_shares(1 << 20, 2, [&](int device, int count) {
    ++asked;
    return Seconds((device == 0 ? 1.0 : 3.0) * count);
  });
  CHECK(shares == std::vector<int>{786432, 262144});
  CHECK(asked < 10000);
}

// Two stages, each on two workers; workers 0 and 2 have V100s, 1 and 3 T4s,
// which take three times as long.
struct SharedCase {
  Profile profile = chain(2);
  Plan plan;
  Cluster cluster = load_cluster("2xV100+2xT4@1GB/s").value();

  SharedCase() {
    profile.times["V100"] = profile.times.at("cpu");
    profile.times["T4"] = profile.times.at("cpu");
    for (auto& [size, layers] : profile.times["T4"])
      for (LayerTimes& times : layers) {
        times.forward = times.forward * 3;
        times.backward_input = times.backward_input * 3;
        times.backward_weight = times.backward_weight * 3;
      }
    ScheduleRequest request;
    request.workers = 2;
    request.microbatches = 2;
    plan = plan_of_schedule(
        with_replicas(generate_schedule("1f1b", request).value(), {2, 2},
                      Replication::Split)
            .value(),
        Method::Sync, Replication::Split);
    plan.microbatch = 8;
    plan.minibatch = 16;
    plan.devices = {DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)};
  }
};

TEST_CASE("a device that is three times as fast gets three times as much") {
  const SharedCase made;
  REQUIRE(check_plan(made.plan, made.profile));
  const Plan plan = with_shares(made.plan, made.profile, made.cluster).value();
  for (const Stage& stage : plan.stages)
    CHECK(stage.samples == std::vector<int>{6, 2});
  CHECK(check_plan(plan, made.profile));
}

TEST_CASE("equal devices, and replicas that take turns, have no counts") {
  SharedCase made;
  made.plan.devices = {DeviceId(0), DeviceId(1), DeviceId(2), DeviceId(3)};
  CHECK(with_shares(made.plan, made.profile, made.cluster)->stages ==
        made.plan.stages);
  made.plan.devices = {DeviceId(0), DeviceId(2), DeviceId(1), DeviceId(3)};
  made.plan.replication = Replication::Rotate;
  CHECK(with_shares(made.plan, made.profile, made.cluster)->stages ==
        made.plan.stages);
}

TEST_CASE("counts that do not make a microbatch are refused") {
  SharedCase made;
  const auto refusal = [&](std::vector<int> samples) {
    made.plan.stages[1].samples = std::move(samples);
    const auto checked = check_plan(made.plan);
    return checked ? "" : checked.error().to_text();
  };
  CHECK(refusal({6, 2}) == "");
  CHECK(refusal({6, 3}).find("sum to 9, a microbatch has 8") !=
        std::string::npos);
  CHECK(refusal({8, 0}).find("each count is at least 1") != std::string::npos);
  CHECK(refusal({8}).find("1 sample counts for 2 workers") !=
        std::string::npos);
  made.plan.replication = Replication::Rotate;
  CHECK(refusal({6, 2}).find("replicas take turns") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
