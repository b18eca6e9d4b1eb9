// How a training ended, as rank 0 tells the other ranks.

#pragma once

#include <string>

namespace pipewright {

struct Outcome {
  int exit_code = 0;
  std::string text;        // why it ended early; may be empty
  bool ended_well = true;  // between steps, so that all ranks end together
  int signal = 0;          // that asked for it, or 0
};

}  // namespace pipewright
