// On a GPU: `train` measures layers, handing over and contention before step 0,
// predicts, and trains the same bits as without measuring. Without one:
// skipped, with the reason.

#include <doctest/doctest.h>

#include <cmath>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "tests/answer.h"
#include "tests/cli/train/train_cases.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

const char* const kModel = "mlp:features=64,hidden=32,classes=10";

std::string plan_file(const fs::path& folder, int workers) {
  Plan plan =
      request_for(load_model(kModel).value(), "1f1b", workers, 8, "").plan;
  plan.model = kModel;
  const fs::path file = folder / ("plan" + std::to_string(workers) + ".json");
  REQUIRE(write_file(file, to_json(plan).to_text()).ok());
  return file.string();
}

struct Ran {
  Json report;
  std::string messages;
};

Ran trained(const std::string& plan, const std::string& kind,
            const fs::path& run, const std::string& options = "") {
  const std::string messages = run.string() + ".txt";
  const Answer answer = answer_of(
      std::string(PIPEWRIGHT_BINARY) + " train " + plan + " --device " + kind +
      " --data synthetic:64 --steps 40 --json --run " + run.string() + " " +
      options + " 2>" + messages);
  const std::string said = read_file(messages).value();
  INFO(said);
  REQUIRE(answer.code == 0);
  return {parse_json(answer.text, "json").value(), said};
}

double number(const Json& json, const char* key) {
  REQUIRE(json.find(key));
  const Json::Value& value = json.find(key)->value();
  if (const auto* whole = std::get_if<std::int64_t>(&value))
    return static_cast<double>(*whole);
  return std::get<double>(value);
}

// Trains once more without measuring, if `again`: each start takes seconds.
void check_prediction(const std::string& kind, int workers, bool again) {
  const Result<void> found = find_devices(
      std::vector<std::string>(static_cast<std::size_t>(workers), kind));
  if (!found) {
    testing::skip(found.error().to_text());
    return;
  }
  CAPTURE(kind);
  const TemporaryFolder folder("prediction");
  const std::string plan = plan_file(folder.path(), workers);
  const Ran measured = trained(plan, kind, folder.path() / "measured");
  CAPTURE(measured.messages);
  CHECK(!contains(measured.messages, "no prediction"));
  CHECK(!contains(measured.messages, "leaves out what handing over costs"));
  REQUIRE(measured.report.find("comparison"));
  const Json& compared = *measured.report.find("comparison");
  CHECK(number(*compared.find("step_seconds"), "predicted") > 0);
  double most = 0, error = 0;
  for (int w = 0; w < workers; ++w) {
    const Json* memory = compared.find("memory_bytes_" + std::to_string(w));
    REQUIRE(memory);
    if (number(*memory, "measured") <= most) continue;
    most = number(*memory, "measured");
    error = number(*memory, "error_percent");
  }
  CHECK(std::abs(error) < 15);
  const std::string cluster =
      read_file(folder.path() / "measured" / "cluster.json").value();
  CHECK(contains(cluster, "base_memory"));
  const std::string profile =
      read_file(folder.path() / "measured" / "profile.json").value();
  CHECK(contains(profile, "an action takes"));
  CHECK(contains(profile, kind + " of " + gpu_report().gpus.front().name));
  if (!again) return;
  const Ran given = trained(
      plan, kind, folder.path() / "given",
      "--profile " + (folder.path() / "measured" / "profile.json").string());
  CHECK(number(given.report, "loss") == number(measured.report, "loss"));
}

TEST_CASE("runs on streams and shares of a GPU are predicted") {
  check_prediction("cuda-stream", 2, true);
  check_prediction("cuda/2", 2, false);
}

}  // namespace
}  // namespace pipewright
