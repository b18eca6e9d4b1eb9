#include "pipewright/runtime/training/requested_devices.h"

#include <string>
#include <vector>

#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/ranks/commands.h"

namespace pipewright {

bool is_alone(const TrainRequest& request) {
  return !request.transport || request.transport->is_alone();
}

Result<Executor::Devices> requested_devices(const TrainRequest& request) {
  const Plan& plan = request.plan;
  std::vector<std::string> kinds;
  for (std::size_t w = 0; w < plan.device_kinds.size(); ++w)
    if (!request.transport || request.transport->is_here(WorkerId(w)))
      kinds.push_back(plan.device_kinds[w]);
  return open_devices(kinds, request.first_gpu);
}

Result<Executor::Devices> evaluation_devices(const TrainRequest& request) {
  std::vector<std::string> kinds = request.plan.device_kinds;
  for (std::string& kind : kinds)
    if (kind != "cpu" && !is_alone(request)) kind = "cuda-stream";
  return open_devices(kinds);
}

}  // namespace pipewright
