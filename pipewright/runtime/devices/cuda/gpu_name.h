// What tells a GPU of one process from those of others.

#pragma once

#include <string>

namespace pipewright {

// The GPU's own number (UUID), in hexadecimal digits.
std::string gpu_name(int gpu);

// A GPU and the host that it is in, since that was started.
struct HostGpu {
  std::string host, gpu;

  static HostGpu at(int gpu);
  std::string to_text() const { return host + " " + gpu; }
  static HostGpu parse(const std::string& text);
};

}  // namespace pipewright
