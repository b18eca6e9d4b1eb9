// On a GPU: a training computes on the devices that its plan names, whatever
// the process was started with. Without one: skipped, with the reason.

#include <doctest/doctest.h>

#include <vector>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/training/trainer.h"
#include "tests/cli/train/train_cases.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

using namespace testing;

// Of all steps.
std::vector<double> losses(const Model& model, TrainRequest request,
                           const std::string& kind, Transport* transport) {
  request.run /= kind + (transport ? " with a transport" : "");
  request.transport = transport;
  request.plan.device_kinds.assign(
      static_cast<std::size_t>(request.plan.num_workers()), kind);
  std::vector<double> result;
  TrainHooks hooks;
  hooks.on_step = [&](const StepReport& step) { result.push_back(step.loss); };
  const Result<TrainReport> report = train(model, request, hooks);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().to_text()));
  return result;
}

TEST_CASE("a training computes on the devices of its plan") {
  if (const Result<void> found = find_devices({"cuda-stream", "cuda-stream"});
      !found) {
    testing::skip(found.error().to_text());
    return;
  }
  const TemporaryFolder folder("cuda");
  const Model model = small_gpt();
  const TrainRequest request = request_for(model, "1f1b", 2, 4, folder.path());
  const auto transport = in_process_transport();
  const auto gpu = losses(model, request, "cuda-stream", nullptr);
  CHECK(gpu.size() == 12);
  CHECK(losses(model, request, "cuda-stream", transport.get()) == gpu);
  CHECK(losses(model, request, "cpu", nullptr) != gpu);
}

TEST_CASE("other kernels are chosen for one training, and reported") {
  if (const Result<void> found = find_devices({"cuda"}); !found) {
    testing::skip(found.error().to_text());
    return;
  }
  const TemporaryFolder folder("kernels");
  const Model model = small_mlp();
  TrainRequest request = request_for(model, "1f1b", 1, 4, folder.path() / "a");
  request.plan.device_kinds = {"cuda"};
  const TrainReport before = train(model, request, {}).value();
  CHECK(before.kernels == "");
  request.run = folder.path() / "b";
  request.kernels = {true, true};
  const TrainReport fast = train(model, request, {}).value();
  CHECK(fast.kernels.find("TF32") != std::string::npos);
  CHECK(fast.kernels.find("bits may change") != std::string::npos);
  request.run = folder.path() / "c";
  request.kernels = {};
  const TrainReport after = train(model, request, {}).value();
  CHECK(after.kernels == "");
  CHECK(after.last_loss == before.last_loss);
}

}  // namespace
}  // namespace pipewright
