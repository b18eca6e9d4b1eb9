// Where a rank listens for others, as it tells them.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/runtime/ranks/sockets.h"

namespace pipewright {

struct ListenerAddress {
  std::string host;
  std::vector<std::string> addresses;  // in the order in which to try them
  int port = 0;
  std::uint64_t token = 0;  // at random: other programs do not know it
};

ListenerAddress own_listener(const Listener& listener);

std::string packed(const ListenerAddress& listener);
ListenerAddress unpacked_listener(const std::string& bytes);

}  // namespace pipewright
