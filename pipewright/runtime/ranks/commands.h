// What rank 0 tells the executors of the other ranks to do.

#pragma once

#include <cstdint>
#include <string>

#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/outcome.h"

namespace pipewright {

enum class Command : std::int32_t {
  Begin,  // a new executor
  Run,
  State,
  Resume,
  ShutDown,
};
struct CommandMessage {
  Command command = Command::ShutDown;
  std::string argument;
};

// Sends a command to all other ranks. Does nothing on a rank that follows.
void send_command(Transport& transport, Command command, std::string argument);
// Waits for the next command; on a rank that follows.
CommandMessage next_command(Transport& transport);

// The other ranks start an executor of the same program.
enum class BegunProgram : std::int32_t {
  Plan,
  WarmUp,
  Handovers,  // measured_handovers()
};
void send_begin(Transport& transport, BegunProgram program);
BegunProgram begun_program(const CommandMessage& begin);

// Ends training on all other ranks. Once, on rank 0, with or without an
// executor.
void shut_down(Transport& transport, const Outcome& outcome);
Outcome outcome_of(const CommandMessage& shut_down);

}  // namespace pipewright
