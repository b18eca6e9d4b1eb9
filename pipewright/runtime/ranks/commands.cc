#include "pipewright/runtime/ranks/commands.h"

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {

void send_command(Transport& transport, Command command, std::string argument) {
  if (transport.is_alone() || !transport.leads()) return;
  Packer packer;
  packer.number(command);
  packer.text(argument);
  transport.broadcast(packer.take());
}

CommandMessage next_command(Transport& transport) {
  const std::string bytes = transport.broadcast({});
  Unpacker unpacker(bytes);
  const auto command = unpacker.number<Command>();
  return {command, unpacker.text()};
}

void send_begin(Transport& transport, BegunProgram program) {
  Packer argument;
  argument.number(program);
  send_command(transport, Command::Begin, argument.take());
}

BegunProgram begun_program(const CommandMessage& begin) {
  Unpacker argument(begin.argument);
  return argument.number<BegunProgram>();
}

void shut_down(Transport& transport, const Outcome& outcome) {
  Packer argument;
  argument.number(outcome.exit_code);
  argument.text(outcome.text);
  argument.number(outcome.ended_well);
  argument.number(outcome.signal);
  send_command(transport, Command::ShutDown, argument.take());
}

Outcome outcome_of(const CommandMessage& shut_down) {
  Unpacker details(shut_down.argument);
  Outcome outcome;
  outcome.exit_code = details.number<int>();
  outcome.text = details.text();
  outcome.ended_well = details.number<bool>();
  outcome.signal = details.number<int>();
  return outcome;
}

}  // namespace pipewright
