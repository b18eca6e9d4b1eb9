// How training ended, as the leader tells the other processes.

#pragma once

#include <string>

namespace pipewright {

struct LastWord {
  int exit_code = 0;
  std::string text;        // why it ended early; may be empty
  bool ended_well = true;  // between steps, so that all can end together
};

}  // namespace pipewright
