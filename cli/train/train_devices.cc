#include "cli/train/train_devices.h"

#include <algorithm>

#include "cli/command.h"
#include "cli/runtime_link.h"
#include "pipewright/plan/rank_devices.h"

namespace pipewright::cli {
namespace {

bool are_all(const std::string& kind, const Plan& plan) {
  return std::all_of(plan.device_kinds.begin(), plan.device_kinds.end(),
                     [&](const std::string& each) { return each == kind; });
}

// Worker i is on rank i. That there are as many of both is checked later.
Result<void> find_of_rank(const std::vector<std::string>& gpus_of_ranks,
                          int rank, TrainRequest& request) {
  const std::vector<std::string>& kinds = request.plan.device_kinds;
  const auto own = static_cast<std::size_t>(rank);
  if (own >= kinds.size()) return {};
  if (auto one_kind = check_gpu_kinds(kinds, gpus_of_ranks); !one_kind)
    return one_kind;
  request.first_gpu = first_gpu_of_rank(kinds, gpus_of_ranks, rank);
  Result<void> found = find_devices({kinds[own]}, request.first_gpu);
  if (found) return found;
  Error error = found.error();
  error.where = "worker " + std::to_string(rank);
  return error;
}

// For a plan that names no kinds. Rank 0 says so.
void train_on_cores(Plan& plan, int rank) {
  plan.device_kinds.assign(static_cast<std::size_t>(plan.num_workers()), "cpu");
  if (rank == 0)
    say("pipewright: the plan names no kinds of devices: training on CPU "
        "threads; --device KIND trains on others");
}

}  // namespace

std::vector<std::string> gpus_of_ranks(Launch& launch) {
  if (launch.size() == 1) return {};
  std::string mine;
  for (const Gpu& gpu : gpus().gpus) mine += gpu.id + " ";
  return launch.texts(mine);
}

Result<void> choose_devices(const std::string& asked,
                            const std::vector<std::string>& gpus_of_ranks,
                            int rank, TrainRequest& request) {
  Plan& plan = request.plan;
  const auto workers = static_cast<std::size_t>(plan.num_workers());
  if (!asked.empty())
    plan.device_kinds.assign(workers, asked);
  else if (plan.device_kinds.empty())
    train_on_cores(plan, rank);
  if (are_on_cores(plan)) return {};
  Result<void> found = gpus_of_ranks.empty()
                           ? find_devices(plan.device_kinds, 0)
                           : find_of_rank(gpus_of_ranks, rank, request);
  if (found) return found;
  Error error = found.error();
  if (asked.empty())
    error.hint =
        other_devices(plan.num_workers(), static_cast<int>(gpus().gpus.size()));
  return error;
}

Result<std::string> one_device_kind(const Plan& plan) {
  const std::string& first = plan.device_kinds.front();
  if (are_all(first, plan)) return first;
  return bad_configuration("the plan has several kinds of devices");
}

}  // namespace pipewright::cli
