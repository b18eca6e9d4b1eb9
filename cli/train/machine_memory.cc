#include "cli/train/machine_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>

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
                                  const Model& model, int rank) {
  const Profile profile = with_equal_times(model, request);
  PIPEWRIGHT_TRY(
      const StepMemory step,
      step_memory(request.optimizer, request.max_norm > 0, model, "cpu"));
  const Result<Program> program =
      with_run_memory(request.program, request.plan, model, profile, step);
  if (!program) return {};  // unknown: it is tried
  const Result<Timeline> timeline =
      predicted_timeline(*program, profile, "cpu", {});
  if (!timeline) return {};
  Bytes needed;
  std::string workers;
  for (std::size_t w = 0; w < timeline->workers.size(); ++w) {
    if (rank >= 0 && static_cast<int>(w) != rank) continue;
    const Bytes peak = timeline->workers[w].peak.total();
    needed += peak;
    workers += std::string(workers.empty() ? "" : ", ") + "worker " +
               std::to_string(w) + " " + to_text(peak);
  }
  const MachineMemory memory = machine_memory();
  if (needed <= memory.bytes) return {};
  return Error{ErrorCode::OutOfMemory,
               "the plan takes " + to_text(needed) + " (" + workers +
                   "), but " + memory.text + " " + to_text(memory.bytes),
               "",
               std::string(request.plan.microbatch > 1
                               ? "plan with a smaller microbatch, for"
                               : "plan for") +
                   " more hosts, or with recomputation",
               {}};
}

Error with_possible_way_out(Error error, const Plan& plan) {
  if (error.code == ErrorCode::OutOfMemory && plan.microbatch == 1)
    error.hint =
        "use a plan with more workers or hosts, or one that recomputes";
  return error;
}

}  // namespace pipewright::cli
