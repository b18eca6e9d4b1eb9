#include "pipewright/runtime/out_of_memory.h"

#include <c10/util/Exception.h>

#include <cstdlib>
#include <fstream>
#include <new>
#include <string>

#include "pipewright/base/text.h"

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

std::string about_this_machine(const std::exception& exception) {
  return "there is not enough memory" + wanted(exception.what()) +
         ": this process has " + kilobytes("/proc/self/status", "VmRSS") +
         ", and of the " + kilobytes("/proc/meminfo", "MemTotal") +
         " of this machine " + kilobytes("/proc/meminfo", "MemAvailable") +
         " are free";
}

}  // namespace

std::optional<Error> out_of_memory(const std::exception& exception) {
  // A GPU's allocator gives its own numbers, in the first line.
  const bool is_of_device =
      dynamic_cast<const c10::OutOfMemoryError*>(&exception) != nullptr;
  if (!is_of_device && !is_of_this_machine(exception)) return std::nullopt;
  const std::string text = exception.what();
  return Error{ErrorCode::OutOfMemory,
               is_of_device ? text.substr(0, text.find('\n'))
                            : about_this_machine(exception),
               "",
               "use a smaller microbatch, a plan with more workers or hosts, "
               "or one that recomputes",
               {}};
}

}  // namespace pipewright
