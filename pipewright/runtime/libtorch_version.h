// Which LibTorch this was built with: "2.13.0".

#pragma once

#include <string>

namespace pipewright {

std::string libtorch_version();

}  // namespace pipewright
