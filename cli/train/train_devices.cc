#include "cli/train/train_devices.h"

#include <algorithm>

#include "cli/runtime_link.h"

namespace pipewright::cli {
namespace {

bool are_all(const std::string& kind, const Plan& plan) {
  return std::all_of(plan.device_kinds.begin(), plan.device_kinds.end(),
                     [&](const std::string& each) { return each == kind; });
}

}  // namespace

Result<void> choose_devices(const std::string& asked, int num_ranks,
                            Plan& plan) {
  const auto workers = static_cast<std::size_t>(plan.num_workers());
  if (!asked.empty())
    plan.device_kinds.assign(workers, asked);
  else if (plan.device_kinds.empty())
    plan.device_kinds.assign(workers, "cpu");
  if (are_all("cpu", plan)) return {};
  if (num_ranks > 1)
    return bad_configuration(
        "workers on GPUs train in one process, and there are " +
            std::to_string(num_ranks) + " ranks",
        "start pipewright without mpirun, or train on cores with --device cpu");
  Result<void> found = find_devices(plan.device_kinds);
  if (found) return found;
  Error error = found.error();
  if (asked.empty())
    error.hint =
        "--device cpu trains this plan on CPU threads; or plan for "
        "this machine, with --cluster " +
        std::to_string(workers) + "xcpu";
  return error;
}

Result<std::string> one_device_kind(const Plan& plan) {
  const std::string& first = plan.device_kinds.front();
  if (are_all(first, plan)) return first;
  return bad_configuration("the plan has several kinds of devices");
}

}  // namespace pipewright::cli
