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

std::string with_workers(const std::string& samples) {
  return R"({"format": "pipewright/plan", "version": 2, "model": "mlp",
    "planner": "", "method": "sync", "minibatch": 16, "microbatch": 8,
    "devices": [0, 1], "stages": [{"layers": "0-3", "workers": [0, 1])" +
         samples + R"(}], "schedule_name": "1f1b", "schedule": [
    "schedule v1 stages=1 microbatches=2", "0: 0F0 0B0 0F1 0B1",
    "1: 0F0 0B0 0F1 0B1"]})";
}

TEST_CASE("sample counts of replicas come back; only they need version 2") {
  const Plan equal = parse_plan(with_workers(""), "equal").value();
  CHECK(to_json(equal).to_text().find("\"version\": 1,") != std::string::npos);
  const Plan plan =
      parse_plan(with_workers(", \"samples\": [6, 2]"), "shares").value();
  CHECK(plan.stages[0].samples == std::vector<int>{6, 2});
  const std::string text = to_json(plan).to_text();
  CHECK(text.find("\"version\": 2,") != std::string::npos);
  CHECK(parse_plan(text, "again")->stages == plan.stages);
  CHECK(!parse_plan(with_workers(", \"samples\": [6, 3]"), "sum"));
  CHECK(!parse_plan(with_workers(", \"samples\": [9, -1]"), "negative"));
}

TEST_CASE("two workers on one device are refused: it would be counted twice") {
  std::string text = with_workers("");
  const std::string devices = "\"devices\": [0, 1]";
  text.replace(text.find(devices), devices.size(), "\"devices\": [1, 1]");
  const auto plan = parse_plan(text, "shared.json");
  REQUIRE(!plan);
  CHECK(plan.error().to_text().find(
            "shared.json:3: devices[1]: workers 0 and 1 are both on device "
            "1") == 0);
}

TEST_CASE("weights have a floating type") {
  for (const char* type : {"float32", "bfloat16", "float16", "float64"})
    CHECK(parse_plan(with_workers("").insert(
                         1, std::string("\"number_type\": \"") + type + "\","),
                     "good"));
  for (const char* type : {"\"int64\"", "\"fp8\"", "\"\"", "16"})
    CHECK(!parse_plan(with_workers("").insert(
                          1, std::string("\"number_type\": ") + type + ","),
                      "bad"));
}

TEST_CASE("a version of tomorrow is refused") {
  std::string text = with_workers("");
  text.replace(text.find("\"version\": 2"), 12, "\"version\": 3");
  const auto plan = parse_plan(text, "new.json");
  REQUIRE(!plan);
  CHECK(plan.error().to_text().find("this program reads version 2") !=
        std::string::npos);
}

}  // namespace
}  // namespace pipewright
