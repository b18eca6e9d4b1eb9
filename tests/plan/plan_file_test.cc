// The plan file: what it names about devices comes back.

#include <doctest/doctest.h>

#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"

namespace pipewright {
namespace {

const std::string kFile =
    PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/plan/two_stages.json";

TEST_CASE("a plan names the kinds of its devices, as the cluster has them") {
  Plan plan = parse_plan(read_file(kFile).value(), kFile).value();
  CHECK(plan.device_kinds.empty());
  CHECK(to_json(plan).find("device_kinds") == nullptr);
  plan.devices = {DeviceId(2), DeviceId(0)};
  name_device_kinds(plan, load_cluster("2xV100+1xP100").value());
  CHECK(plan.device_kinds == std::vector<std::string>{"P100", "V100"});
  const Plan again = parse_plan(to_json(plan).to_text(), "again").value();
  CHECK(again.device_kinds == plan.device_kinds);
}

TEST_CASE("a plan with more kinds than devices is refused") {
  std::string text = read_file(kFile).value();
  const std::string devices = "\"devices\": [0, 1],";
  text.replace(text.find(devices), devices.size(),
               devices + " \"device_kinds\": [\"cpu\"],");
  const Result<Plan> plan = parse_plan(text, "few.json");
  REQUIRE(!plan);
  CHECK(plan.error().to_text().find("1 kinds for 2 devices") !=
        std::string::npos);
}

}  // namespace
}  // namespace pipewright
