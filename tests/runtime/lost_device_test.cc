// A device that fails while its tensors are read between steps.

#include "pipewright/runtime/lost_device.h"

#include <c10/util/Exception.h>
#include <doctest/doctest.h>

#include <stdexcept>

#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/devices/remote_device.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

TEST_CASE("errors of a GPU and its libraries are a lost worker, bugs are not") {
  for (const char* text :
       {"CUDA error: an illegal memory access was encountered\nmore lines",
        "CUDA driver error: unspecified launch failure",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
        "NCCL: unhandled cuda error"}) {
    CAPTURE(text);
    const auto error = lost_device(std::runtime_error(text));
    REQUIRE(error);
    CHECK(error->code == ErrorCode::WorkerLost);
    CHECK(error->message.find('\n') == std::string::npos);
    CHECK(error->hint == "start again with --resume");
  }
  CHECK(!lost_device(std::runtime_error("index 7 is out of range")));
}

Executor executor_on_remote(const Model& model) {
  const Program program =
      lower(plan_of(model, generated("1f1b", 1, 2), 4), profile_of(model, 4))
          .value();
  Executor::Devices devices;
  devices.push_back(std::make_unique<RemoteDevice>());
  return Executor(model, program, settings_for_tests(), nullptr,
                  std::move(devices));
}

TEST_CASE("a run whose results cannot be read names the worker") {
  const Model model = small_mlp();
  int num_failed = 0;
  while (true) {
    Executor executor = executor_on_remote(model);
    fail_after(num_failed);
    const Result<Executed> done = executor.run(random_source(model, 4), 1);
    fail_after(-1);
    if (done) break;
    ++num_failed;
    CAPTURE(num_failed);
    REQUIRE(done.error().code == ErrorCode::WorkerLost);
    CHECK(done.error().message == "CUDA error: an illegal memory access");
    CHECK(done.error().where.find("step 1, worker 0") == 0);
  }
  // Each weight is looked at, and copied.
  CHECK(num_failed >= 2 * static_cast<int>(model.parameters().size()));
}

TEST_CASE("a state that cannot be read is known as a lost device") {
  const Model model = small_mlp();
  Executor executor = executor_on_remote(model);
  REQUIRE(executor.run(random_source(model, 4), 1).ok());
  fail_after(0);
  std::optional<Error> lost;
  try {
    executor.state();
  } catch (const std::exception& exception) {
    lost = lost_device(exception);
  }
  fail_after(-1);
  REQUIRE(lost);
  CHECK(lost->code == ErrorCode::WorkerLost);
}

}  // namespace
}  // namespace pipewright
