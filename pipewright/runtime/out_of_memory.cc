#include "pipewright/runtime/out_of_memory.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include "pipewright/base/text.h"
#include "pipewright/runtime/error_text.h"

namespace pipewright {
namespace {

// A line of a file in /proc that counts kilobytes.
std::string kilobytes(const char* file, const std::string& key) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.rfind(key + ":", 0) == 0)
      return to_text(Bytes(
          std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) * 1024));
  return "an unknown amount";
}

// LibTorch's allocator: "... you tried to allocate 64 bytes. Error code 12".
std::string wanted(const std::string& text) {
  const std::string before = "tried to allocate ";
  const std::size_t at = text.find(before);
  if (at == std::string::npos) return "";
  const Bytes bytes(
      std::strtoll(text.c_str() + at + before.size(), nullptr, 10));
  return bytes > Bytes(0) ? " for " + to_text(bytes) + " more" : "";
}

bool is_of_this_machine(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception) != nullptr) return true;
  const std::string text = exception.what();
  return dynamic_cast<const c10::Error*>(&exception) != nullptr &&
         (text.find("can't allocate memory") != std::string::npos ||
          text.find("not enough memory") != std::string::npos);
}

// LibTorch's allocator has a type for it. CUDA (pinned memory, graphs, events),
// the libraries beside it (cuBLAS, cuDNN, ...) and NCCL have words only.
bool is_of_device(const std::exception& exception) {
  static constexpr std::array kWords = {
      "CUDA out of memory",
      "CUDA error: out of memory",
      "CUDA driver error: out of memory",
      "cudaErrorMemoryAllocation",
      "CUDA_ERROR_OUT_OF_MEMORY",
      "_ALLOC_FAILED",       // CUBLAS_STATUS_, CUDNN_STATUS_, CUFFT_, ...
      "_ALLOCATION_FAILED",  // CUDNN_STATUS_INTERNAL_ERROR_HOST_, _DEVICE_
      "Cuda failure 'out of memory'",  // NCCL, as the next four
      "Cuda failure 2 'out of memory'",
      "Failed to CUDA malloc",
      "Failed to CUDA host alloc",
      "Failed to malloc"};
  if (dynamic_cast<const c10::OutOfMemoryError*>(&exception) != nullptr)
    return true;
  const std::string text = exception.what();
  return std::any_of(kWords.begin(), kWords.end(), [&](const char* words) {
    return text.find(words) != std::string::npos;
  });
}

// In its first line a GPU's allocator gives its own numbers, and then advice
// for Python programs.
std::string about_device(const std::exception& exception) {
  const std::string text = first_line(exception);
  return text.substr(0,
                     text.find(" If reserved but unallocated memory is large"));
}

std::string about_this_machine(const std::exception& exception) {
  return "there is not enough memory" + wanted(exception.what()) +
         ": this process has " + kilobytes("/proc/self/status", "VmRSS") +
         ", and of the " + kilobytes("/proc/meminfo", "MemTotal") +
         " of this machine " + kilobytes("/proc/meminfo", "MemAvailable") +
         " are free";
}

}  // namespace

std::optional<Error> out_of_memory(const std::exception& exception) {
  const bool on_device = is_of_device(exception);
  if (!on_device && !is_of_this_machine(exception)) return std::nullopt;
  return Error{
      ErrorCode::OutOfMemory,
      on_device ? about_device(exception) : about_this_machine(exception),
      "",
      "use a smaller microbatch, a plan with more workers or hosts, "
      "or one that recomputes",
      {}};
}

}  // namespace pipewright
