// How training ended, as the leader tells the other processes.

#pragma once

#include <string>

namespace pipewright {

struct LastWord {
  int exit_code = 0;
  std::string text;  // what went wrong; may be empty
};

}  // namespace pipewright
