#include "pipewright/plan/memory/shared_memory.h"

#include <map>

#include "pipewright/cluster/this_machine_gpu.h"
#include "pipewright/plan/rank_devices.h"

namespace pipewright {
namespace {

using Workers = std::vector<WorkerMemory>;

Bytes sum(const Workers& workers) {
  Bytes all;
  for (const WorkerMemory& each : workers) all += each.peak;
  return all;
}

std::string listed(const Workers& workers) {
  std::string text;
  for (const WorkerMemory& each : workers)
    text += (text.empty() ? "worker " : ", worker ") +
            std::to_string(each.worker) + " " + to_text(each.peak);
  return text;
}

Error too_much(const std::string& what, const std::string& has, Bytes bytes) {
  return Error{ErrorCode::OutOfMemory,
               "the plan takes " + what + ", but " + has + " " + to_text(bytes),
               "",
               "",
               {}};
}

Result<void> check_gpu(int number, const GpuMemory& gpu,
                       const Workers& workers) {
  const int count = static_cast<int>(workers.size());
  const Bytes base = gpu_base_memory(gpu.major_capability, count) * count;
  const Bytes needed = sum(workers) + base;
  if (needed <= gpu.bytes) return {};
  const std::string name = "GPU " + std::to_string(number);
  return too_much(to_text(needed) + " of " + name + " (" + listed(workers) +
                      ", " + to_text(base) + " beside tensors)",
                  name + " (" + gpu.name + ") has", gpu.bytes);
}

}  // namespace

std::vector<std::optional<int>> gpus_of_workers(
    const std::vector<std::string>& kinds,
    const std::vector<std::string>& gpus) {
  std::vector<std::optional<int>> result(kinds.size());
  const std::vector<std::string> seen =
      gpus.empty() ? std::vector<std::string>(kinds.size()) : gpus;
  for (std::size_t w = 0; w < kinds.size() && w < seen.size(); ++w)
    if (const int share = gpu_share(kinds[w]); share > 0)
      result[w] =
          kinds[w] == "cuda-stream"
              ? 0
              : first_gpu_of_rank(kinds, seen, static_cast<int>(w)) / share;
  return result;
}

Result<void> check_shared_memory(const std::vector<WorkerMemory>& workers,
                                 const MachineMemory& machine,
                                 const std::vector<GpuMemory>& gpus) {
  Workers on_cores;
  std::map<int, Workers> on_gpus;
  for (const WorkerMemory& each : workers)
    (each.gpu ? on_gpus[*each.gpu] : on_cores).push_back(each);
  for (const auto& [number, sharing] : on_gpus)
    if (number < static_cast<int>(gpus.size()))
      if (auto fits = check_gpu(number, gpus[static_cast<std::size_t>(number)],
                                sharing);
          !fits)
        return fits;
  if (sum(on_cores) <= machine.bytes) return {};
  return too_much(to_text(sum(on_cores)) + " (" + listed(on_cores) + ")",
                  machine.text, machine.bytes);
}

}  // namespace pipewright
