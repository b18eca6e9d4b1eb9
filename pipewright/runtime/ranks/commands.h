// What the leader's executor tells those of other processes to do.

#pragma once

#include <cstdint>
#include <string>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/last_word.h"

namespace pipewright {

enum class Command : std::int32_t {
  Begin,  // a new executor
  Run,
  State,
  Resume,
  Dismiss,  // the end
};
struct Order {
  Command command = Command::Dismiss;
  std::string argument;
};

// Tells the followers what comes now; nothing on any process but the leader.
void lead(Transport& transport, Command command, std::string argument);
// What the leader says next.
Order next_order(Transport& transport);

// Makes followers start with an executor of the same program: that of the
// warm-up, or the plan's.
void begin(Transport& transport, bool is_warm_up);
bool is_of_warm_up(const Order& begin);

// Ends training on all other processes. Once, by the leader, with or without an
// executor.
void dismiss(Transport& transport, const LastWord& word);
LastWord last_word(const Order& dismissal);

}  // namespace pipewright
