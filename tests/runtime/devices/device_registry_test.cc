// Which kinds of devices are found, and what is said of others.

#include "pipewright/runtime/devices/device_registry.h"

#include <doctest/doctest.h>

#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {
namespace {

bool says(const Result<void>& result, const std::string& part) {
  return !result && result.error().to_text().find(part) != std::string::npos;
}

TEST_CASE("cores are here, one device each") {
  const auto devices = open_devices({"cpu", "cpu"}).value();
  REQUIRE(devices.size() == 2);
  CHECK(devices[0]->kind() == "cpu");
  CHECK(devices[0]->computes_at_once());
  CHECK(devices[0]->moment() == nullptr);
  const at::Tensor tensor = at::ones({3});
  CHECK(devices[0]->bring(tensor).is_same(tensor));
  CHECK(devices[0]->copy(tensor).equal(tensor));
}

TEST_CASE("other kinds are refused, with the worker and the reason") {
  const Result<void> other = find_devices({"cpu", "V100"});
  CHECK(says(other, "worker 1"));
  CHECK(says(other, "kind V100 is not here"));
  CHECK(other.error().code == ErrorCode::BadConfiguration);
  for (const char* name : {"cuda/0", "cuda/x", "cuda/65", "cuda/", "cudas"})
    CHECK(says(find_devices({name}), "is not here"));
  CHECK(says(find_devices({"cuda/2", "cuda/4"}), "both cuda/2 and cuda/4"));
}

TEST_CASE("GPUs are listed, or there is a reason for none") {
  const GpuReport report = gpu_report();
  CHECK(report.gpus.empty() == !report.why_none.empty());
  if (!report.gpus.empty()) return;
  const Result<void> found = find_devices({"cpu", "cuda"});
  CHECK(says(found, "worker 1"));
  CHECK(says(found, report.why_none));
}

}  // namespace
}  // namespace pipewright
