#include "pipewright/runtime/channels/launcher.h"

#include <cstdlib>
#include <string>

#include "pipewright/base/text.h"
#include "pipewright/runtime/channels/mpi_version.h"

namespace pipewright {
namespace {

std::string text_of(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

int number_of(const char* name, int fallback) {
  const auto number = parse_integer(text_of(name));
  return number ? static_cast<int>(*number) : fallback;
}

bool is_set(const char* name) { return !text_of(name).empty(); }

bool is_started_by_mpi() {
  return is_set("OMPI_COMM_WORLD_SIZE") || is_set("PMI_RANK") ||
         is_set("PMIX_RANK");
}

// Slurm sets it in the tasks of a step, not in a job's script.
int num_tasks() { return number_of("SLURM_STEP_NUM_TASKS", 1); }

bool is_started_by_torchrun() { return is_set("RANK") && is_set("WORLD_SIZE"); }

bool has_meeting_place() {
  return is_set("MASTER_ADDR") && is_set("MASTER_PORT") &&
         (is_started_by_torchrun() || num_tasks() > 1);
}

}  // namespace

Launcher launcher() {
  const bool can_meet = has_meeting_place();
  if (is_started_by_mpi() && (!can_meet || mpi_version() != "none"))
    return Launcher::Mpi;
  return can_meet ? Launcher::Sockets : Launcher::None;
}

int rank_of_launcher() {
  if (launcher() == Launcher::Sockets)
    return number_of(is_started_by_torchrun() ? "RANK" : "SLURM_PROCID", 0);
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"})
    if (const int rank = number_of(name, -1); rank >= 0) return rank;
  return 0;
}

int num_ranks_of_launcher() {
  if (launcher() == Launcher::Sockets && is_started_by_torchrun())
    return number_of("WORLD_SIZE", 0);
  for (const char* name :
       {"OMPI_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "PMI_SIZE"})
    if (const int size = number_of(name, 0); size > 0) return size;
  return 0;
}

// A job of Slurm has the same name when it is started again, and so has one of
// torchrun unless that starts it again itself.
std::string start_of_launcher() {
  std::string text;
  for (const char* name :
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID",
        "SLURM_STEP_ID", "SLURM_RESTART_COUNT", "TORCHELASTIC_RUN_ID",
        "TORCHELASTIC_RESTART_COUNT"})
    if (is_set(name)) text += (text.empty() ? "" : " ") + text_of(name);
  return text;
}

Result<MeetingPlace> meeting_place() {
  MeetingPlace place;
  place.rank = rank_of_launcher();
  place.size = num_ranks_of_launcher();
  place.address = text_of("MASTER_ADDR");
  place.port = number_of("MASTER_PORT", 0);
  place.has_store = text_of("TORCHELASTIC_USE_AGENT_STORE") == "True";
  place.start = start_of_launcher();
  if (place.rank < 0 || place.rank >= place.size || place.port < 1 ||
      place.port > 65535)
    return bad_configuration(
        "the launcher says rank " + std::to_string(place.rank) + " of " +
            std::to_string(place.size) + ", MASTER_PORT " +
            text_of("MASTER_PORT"),
        "RANK is to be less than WORLD_SIZE, and MASTER_PORT a port");
  return place;
}

Result<void> check_launcher() {
  if (num_tasks() < 2 || is_launched()) return {};
  return bad_configuration(
      "srun started " + std::to_string(num_tasks()) +
          " tasks that do not know each other",
      "use srun --mpi=pmix (srun --mpi=list shows what this cluster has), or "
      "set MASTER_ADDR to the first task's host and MASTER_PORT to a free port "
      "there");
}

}  // namespace pipewright
