// On a GPU: what a process holds beside tensors is within the base memory that
// plans for this machine's GPU count with. Without one: skipped, with the
// reason.

#include <doctest/doctest.h>

#include <iostream>

#include "pipewright/base/text.h"
#include "pipewright/cluster/this_machine_gpu.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/test_models.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

using namespace testing;

TEST_CASE("context and workspaces are within the base memory") {
  if (const Result<void> found = find_devices({"cuda"}); !found) {
    testing::skip(found.error().to_text());
    return;
  }
  const DeviceKind kind = this_machine_gpu("cuda").value().kind;
  for (const Model& model : {small_gpt(), small_cnn()}) {
    CAPTURE(model.name());
    const Plan plan = plan_of(model, generated("1f1b", 1, 4), 4);
    const Program program = lower(plan, profile_of(model, 4)).value();
    Executor executor(model, program, settings_for_tests(), nullptr,
                      open_devices({"cuda"}).value());
    const Result<Executed> run = executor.run(random_source(model, 4), 8);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
    // What is reserved of the stream holds its workspaces, too.
    const Bytes workspaces = kind.base_memory - Bytes(1'500'000'000);
    if (model.name() == small_gpt().name())
      CHECK(run->timeline.workers[0].peak.total() <
            workspaces + Bytes(5'000'000));
    const Bytes beside = gpu_memory_in_use() - executor.reserved();
    CAPTURE(to_text(beside));
    CHECK(beside + workspaces <= kind.base_memory);
    std::cout << "beside tensors: " << to_text(beside) << std::endl;
  }
}

}  // namespace
}  // namespace pipewright
