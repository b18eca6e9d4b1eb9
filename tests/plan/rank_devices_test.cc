#include "pipewright/plan/rank_devices.h"

#include <doctest/doctest.h>

#include "pipewright/cluster/part_of_cluster.h"

namespace pipewright {
namespace {

using Hosts = std::vector<std::string>;

Cluster named_hosts() {
  return parse_cluster(R"({"format": "pipewright/cluster", "version": 1,
        "name": "two", "kinds": [], "devices": [
          {"kind": "V100", "host": 0, "name": "red/0"},
          {"kind": "V100", "host": 0, "name": "red/1"},
          {"kind": "V100", "host": 1, "name": "blue/0"}],
        "within_hosts": {"bandwidth": "50GB/s", "latency": "3us"},
        "between_hosts": {"bandwidth": "10Gb/s", "latency": "30us"}})",
                       "file")
      .value();
}

std::vector<int> placed(const Cluster& cluster, const Hosts& hosts) {
  std::vector<int> numbers;
  const std::vector<DeviceId> devices =
      devices_of_ranks(cluster, hosts).value();
  for (DeviceId device : devices) numbers.push_back(device.value);
  return numbers;
}

TEST_CASE("ranks are compared with the hosts of the cluster") {
  Plan plan;
  for (int i = 0; i < 3; ++i) plan.devices.push_back(DeviceId(i));
  const Cluster two_hosts = load_cluster("2x2xV100@nvlink/10GbE").value();
  CHECK(check_hosts(two_hosts, plan, {"a", "a", "b"}).ok());
  const auto split = check_hosts(two_hosts, plan, {"a", "b", "c"});
  REQUIRE(!split.ok());
  CHECK(split.error().message ==
        "workers 0 and 1 are planned on one host, but run on a and b");
  CHECK(!check_hosts(two_hosts, plan, {"a", "a", "a"}).ok());
  const Cluster named = named_hosts();
  CHECK(check_hosts(named, plan, {"red", "red", "blue.example"}).ok());
  const auto wrong = check_hosts(named, plan, {"red", "red", "green"});
  REQUIRE(!wrong.ok());
  CHECK(wrong.error().message.find("planned on host blue") !=
        std::string::npos);
}

TEST_CASE("ranks get the devices of their hosts, however many are left") {
  using Numbers = std::vector<int>;
  const Cluster named = named_hosts();
  CHECK(placed(named, {"red", "red", "blue"}) == Numbers{0, 1, 2});
  CHECK(placed(named, {"blue.example", "red"}) == Numbers{2, 0});
  CHECK(placed(named, {"blue"}) == Numbers{2});
  CHECK(!devices_of_ranks(named, {"green"}).ok());
  CHECK(!devices_of_ranks(named, {"blue", "blue"}).ok());
  const Cluster numbered = load_cluster("1x1xT4+1x2xV100@pcie3/10GbE").value();
  CHECK(placed(numbered, {"a", "b", "b"}) == Numbers{0, 1, 2});
  CHECK(placed(numbered, {"b", "b"}) == Numbers{1, 2});
  CHECK(placed(numbered, {"b", "b", "a"}) == Numbers{1, 2, 0});
  CHECK(placed(numbered, {"a", "b"}) == Numbers{0, 1});
  CHECK(!devices_of_ranks(numbered, {"b", "b", "b"}).ok());
  CHECK(!devices_of_ranks(numbered, {"a", "b", "c"}).ok());
}

TEST_CASE("a part of a cluster is the cluster that never had the others") {
  const Cluster whole = load_cluster("3x2xV100@nvlink/10GbE").value();
  const std::vector<DeviceId> last = {DeviceId(2), DeviceId(3), DeviceId(4),
                                      DeviceId(5)};
  const Cluster part = part_of_cluster(whole, last).value();
  const Cluster fresh = load_cluster("2x2xV100@nvlink/10GbE").value();
  CHECK(part.num_hosts() == 2);
  CHECK(part.devices()[0].name == "host1/V100.0");
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      const Link* one = part.link(DeviceId(a), DeviceId(b));
      const Link* other = fresh.link(DeviceId(a), DeviceId(b));
      CHECK(one->bandwidth == other->bandwidth);
      CHECK(one->latency == other->latency);
      CHECK(one->uses.size() == other->uses.size());
    }
}

TEST_CASE("ranks that see the same GPUs divide them") {
  const auto firsts = [](const std::vector<std::string>& kinds,
                         const std::vector<std::string>& gpus) {
    std::vector<int> all;
    for (int rank = 0; rank < static_cast<int>(kinds.size()); ++rank)
      all.push_back(first_gpu_of_rank(kinds, gpus, rank));
    return all;
  };
  const std::vector<std::string> on_gpus(4, "cuda");
  CHECK(firsts(on_gpus, {"a b", "a b", "c d", "c d"}) ==
        std::vector<int>{0, 1, 0, 1});  // two hosts
  CHECK(firsts(on_gpus, {"a b", "c d", "a b", "c d"}) ==
        std::vector<int>{0, 0, 1, 1});  // taken in turns
  CHECK(firsts(on_gpus, {"a", "b", "c", "d"}) ==
        std::vector<int>{0, 0, 0, 0});  // one each, by the launcher
  CHECK(firsts({"cpu", "cuda/2", "cpu", "cuda/2"}, {"a", "a", "a", "a"}) ==
        std::vector<int>{0, 0, 1, 1});  // cores take none
}

TEST_CASE("ranks that see the same GPUs divide them in one way") {
  const std::vector<std::string> kinds = {"cpu", "cuda/2", "cuda/4", "cpu"};
  CHECK(check_gpu_kinds(kinds, {"a", "a", "b", "b"}).ok());
  const Result<void> both = check_gpu_kinds(kinds, {"a", "a", "a", "a"});
  REQUIRE(!both.ok());
  CHECK(both.error().code == ErrorCode::BadConfiguration);
  CHECK(both.error().where == "worker 2");
  CHECK(both.error().message == "a plan cannot use both cuda/2 and cuda/4");
  CHECK(!check_gpu_kinds({"cuda", "cuda-stream"}, {"a", "a"}).ok());
  CHECK(check_gpu_kinds({"cuda/2", "cuda/2"}, {"a", "a"}).ok());
}

TEST_CASE("what else trains a plan depends on the GPUs that are here") {
  CHECK(other_devices(2, 0) ==
        "--device cpu trains this plan on CPU threads; or plan for this "
        "machine, with --cluster 2xcpu");
  CHECK(other_devices(2, 2) ==
        "--device cuda trains this plan on the GPUs here; --device cpu trains "
        "this plan on CPU threads; or plan for this machine, with --cluster "
        "here");
  CHECK(other_devices(3, 2).find("--device cuda-stream ") == 0);
}

TEST_CASE("a plan gets a worker on every device") {
  const Cluster cluster = load_cluster("3xV100").value();
  Plan plan;
  plan.minibatch = plan.microbatch = 1;
  plan.devices = {DeviceId(2), DeviceId(0)};
  plan.stages = stages_of_cuts({1}, 2);
  plan.schedule = Schedule::parse(
                      "schedule v1 stages=2 microbatches=1\n"
                      "0: 0F0 0B0\n1: 1F0 1B0\n",
                      "text")
                      .value();
  const Plan moved = with_worker_per_device(plan, cluster).value();
  CHECK(moved.devices ==
        std::vector<DeviceId>{DeviceId(0), DeviceId(1), DeviceId(2)});
  CHECK(moved.device_kinds == std::vector<std::string>(3, "V100"));
  CHECK(moved.stages[0].workers.front() == WorkerId(2));
  CHECK(moved.stages[1].workers.front() == WorkerId(0));
  CHECK(moved.schedule.to_text() ==
        "schedule v1 stages=2 microbatches=1\n"
        "0: 1F0 1B0\n1:\n2: 0F0 0B0\n");
  CHECK(check_plan(moved).ok());
  plan.devices[1] = DeviceId(2);
  CHECK(!with_worker_per_device(plan, cluster).ok());
}

}  // namespace
}  // namespace pipewright
