#include "pipewright/runtime/lost_device.h"

#include <algorithm>
#include <array>
#include <string>

#include "pipewright/runtime/error_text.h"

namespace pipewright {

// LibTorch has a type for some of them, and the same words for all.
std::optional<Error> lost_device(const std::exception& exception) {
  static constexpr std::array kWords = {
      "CUDA error",    "CUDA driver error", "CUBLAS_STATUS_", "cuDNN error",
      "CUDNN_STATUS_", "CUSOLVER_STATUS_",  "CUFFT_",         "NCCL"};
  const std::string text = first_line(exception);
  const bool is_known = std::any_of(
      kWords.begin(), kWords.end(),
      [&](const char* words) { return text.find(words) != std::string::npos; });
  if (!is_known) return std::nullopt;
  return Error{
      ErrorCode::WorkerLost, text, "", "start again with --resume", {}};
}

}  // namespace pipewright
