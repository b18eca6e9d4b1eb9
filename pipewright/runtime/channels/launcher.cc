#include "pipewright/runtime/channels/launcher.h"

#include <cstdlib>
#include <string>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

int number_of(const char* name, int fallback) {
  const char* text = std::getenv(name);
  const auto number = text == nullptr ? std::nullopt : parse_integer(text);
  return number ? static_cast<int>(*number) : fallback;
}

}  // namespace

bool is_launched_by_mpi() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMIX_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

int rank_of_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const int rank = number_of(name, -1); rank >= 0) return rank;
  return 0;
}

int num_ranks_of_launcher() {
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"})
    if (const int size = number_of(name, 0); size > 0) return size;
  return 0;
}

// A job of Slurm has the same name when it is started again.
std::string start_of_launcher() {
  std::string text;
  for (const char* name :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
        "SLURM_STEP_ID", "SLURM_RESTART_COUNT"})
    if (const char* value = std::getenv(name))
      text += (text.empty() ? "" : " ") + std::string(value);
  return text;
}

// Slurm sets the variable in the tasks of a step, not in a job's script.
Result<void> check_launcher() {
  const int tasks = number_of("SLURM_STEP_NUM_TASKS", 1);
  if (tasks < 2 || is_launched_by_mpi()) return {};
  return bad_configuration(
      "srun started " + std::to_string(tasks) + " tasks without MPI",
      "use srun --mpi=pmix; srun --mpi=list shows what this cluster has");
}

}  // namespace pipewright
