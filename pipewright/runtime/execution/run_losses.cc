#include "pipewright/runtime/execution/run_losses.h"

#include <cmath>
#include <string>

#include "pipewright/runtime/devices/worker_device.h"

namespace pipewright {

void RunLosses::restart(std::size_t num_losses) {
  late_means_.clear();
  losses_.clear();
  losses_.reserve(num_losses);
}

void RunLosses::read_late_means(int microbatches_per_step) {
  if (late_means_.empty()) return;
  const at::Tensor all = host_copy(at::cat(late_means_).to(at::kDouble));
  late_means_.clear();
  for (std::size_t i = 0; i < losses_.size(); ++i) {
    losses_[i].mean = all.const_data_ptr<double>()[i];
    if (!std::isfinite(losses_[i].mean))
      throw LossIsNotFinite(
          "the loss of step " +
          std::to_string(losses_[i].microbatch / microbatches_per_step + 1) +
          " is " + std::to_string(losses_[i].mean));
  }
}

}  // namespace pipewright
