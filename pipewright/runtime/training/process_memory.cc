#include "pipewright/runtime/training/process_memory.h"

#include <cstdlib>
#include <fstream>

namespace pipewright {

Bytes process_memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.rfind(key + ":", 0) == 0)
      return Bytes(std::strtoll(line.c_str() + key.size() + 1, nullptr, 10) *
                   1024);
  return Bytes(0);
}

void forget_peak_memory() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace pipewright
