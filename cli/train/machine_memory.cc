#include "cli/train/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "cli/runtime_link.h"
#include "cli/train/prediction.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/memory/run_memory.h"
#include "pipewright/profile/analytic.h"

namespace pipewright::cli {
namespace {

void lower_to(MachineMemory& memory, Bytes bytes, const char* text) {
  if (bytes < memory.bytes) memory = {bytes, text};
}

// Of the group of this process and all above it (control groups, version 2).
void lower_to_control_group(MachineMemory& memory) {
  std::ifstream groups("/proc/self/cgroup");
  std::string line;
  while (std::getline(groups, line) && line.rfind("0::", 0) != 0) {
  }
  if (line.rfind("0::", 0) != 0) return;
  std::filesystem::path group = "/sys/fs/cgroup" + line.substr(3);
  for (; group.string().size() >= std::string("/sys/fs/cgroup").size();
       group = group.parent_path()) {
    std::ifstream file(group / "memory.max");
    std::string text;
    if (std::getline(file, text))
      if (const auto bytes = parse_integer(text))
        lower_to(memory, Bytes(*bytes), "its control group allows");
  }
}

// What a limit on the address space leaves beside what is mapped already.
void lower_to_address_space(MachineMemory& memory) {
  struct rlimit limit {};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
    return;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const auto left = static_cast<std::int64_t>(limit.rlim_cur) -
                    pages * static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  lower_to(memory, Bytes(std::max<std::int64_t>(left, 0)),
           "the limit on its address space (ulimit -v) leaves");
}

// The model's sizes at every microbatch size that a worker computes. All layers
// take the same time: only what is held at once is of interest.
Profile with_equal_times(const Model& model, const TrainRequest& request) {
  Profile profile = profile_graph(model);
  std::set<int> sizes = {request.plan.microbatch};
  for (const Operation& operation : request.program.operations)
    if (operation.num_samples() > 0) sizes.insert(operation.num_samples());
  const Seconds equal(1e-3);
  for (const int size : sizes) {
    profile.sizes[size] = model_sizes(model, size);
    profile.times["cpu"][size].assign(profile.layers.size(),
                                      {equal, equal, equal, Seconds(0)});
  }
  return profile;
}

// Of all workers, as if all were on devices of that kind, simulated with equal
// times. Empty where that is unknown.
Result<std::vector<Bytes>> peaks_on(const std::string& kind,
                                    const TrainRequest& request,
                                    const Model& model,
                                    const Profile& profile) {
  PIPEWRIGHT_TRY(
      const StepMemory step,
      step_memory(request.optimizer, request.max_norm > 0, model, kind));
  std::vector<Bytes> peaks;
  const Result<Program> program =
      with_run_memory(request.program, request.plan, model, profile, step);
  if (!program) return peaks;
  if (const auto timeline = predicted_timeline(*program, profile, "cpu", {}))
    for (const WorkerSummary& worker : timeline->workers)
      peaks.push_back(worker.peak.total());
  return peaks;
}

// Whether worker w's rank sees the GPUs that this rank sees.
bool sees_the_same(std::size_t w, int rank,
                   const std::vector<std::string>& gpus_seen) {
  const auto own = static_cast<std::size_t>(rank);
  return std::max(w, own) < gpus_seen.size() && gpus_seen[w] == gpus_seen[own];
}

// Those of this process, and of others on GPUs that it sees.
Result<std::vector<WorkerMemory>> workers_here(
    const TrainRequest& request, const Model& model, int rank,
    const std::vector<std::string>& gpus_seen) {
  const std::vector<std::string>& kinds = request.plan.device_kinds;
  const auto gpu_of = gpus_of_workers(kinds, gpus_seen);
  const Profile profile = with_equal_times(model, request);
  std::map<bool, std::vector<Bytes>> peaks;  // on a core, and on a GPU
  std::vector<WorkerMemory> workers;
  for (std::size_t w = 0; w < kinds.size(); ++w) {
    const bool is_on_gpu = gpu_of[w].has_value();
    const bool is_here = rank < 0 || static_cast<int>(w) == rank;
    if (!is_here && !(is_on_gpu && sees_the_same(w, rank, gpus_seen))) continue;
    if (!peaks.contains(is_on_gpu)) {
      PIPEWRIGHT_TRY(peaks[is_on_gpu],
                     peaks_on(kinds[w], request, model, profile));
    }
    if (w < peaks[is_on_gpu].size())
      workers.push_back({static_cast<int>(w), peaks[is_on_gpu][w], gpu_of[w]});
  }
  return workers;
}

std::vector<GpuMemory> gpu_memory() {
  std::vector<GpuMemory> all;
  for (const Gpu& gpu : gpus().gpus)
    all.push_back({gpu.memory, gpu.name, std::atoi(gpu.capability.c_str())});
  return all;
}

}  // namespace

MachineMemory machine_memory() {
  MachineMemory memory{
      Bytes(static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
            static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE))),
      "this machine has"};
  lower_to_control_group(memory);
  lower_to_address_space(memory);
  return memory;
}

Result<void> check_machine_memory(const TrainRequest& request,
                                  const Model& model, int rank,
                                  const std::vector<std::string>& gpus_seen) {
  PIPEWRIGHT_TRY(const std::vector<WorkerMemory> workers,
                 workers_here(request, model, rank, gpus_seen));
  const auto fits =
      check_shared_memory(workers, machine_memory(), gpu_memory());
  if (fits) return {};
  Error error = fits.error();
  error.hint = std::string(request.plan.microbatch > 1
                               ? "plan with a smaller microbatch, for"
                               : "plan for") +
               " more hosts, or with recomputation";
  return error;
}

Error with_possible_way_out(Error error, const Plan& plan) {
  if (error.code == ErrorCode::OutOfMemory && plan.microbatch == 1)
    error.hint =
        "use a plan with more workers or hosts, or one that recomputes";
  return error;
}

}  // namespace pipewright::cli
