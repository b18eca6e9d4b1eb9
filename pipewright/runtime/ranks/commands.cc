// Commands to followers; see commands.h.

#include "pipewright/runtime/ranks/commands.h"

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {

void lead(Transport& transport, Command command, std::string argument) {
  if (transport.is_alone() || !transport.leads()) return;
  Packer packer;
  packer.number(command);
  packer.text(argument);
  transport.broadcast(packer.take());
}

Order next_order(Transport& transport) {
  const std::string bytes = transport.broadcast({});
  Unpacker unpacker(bytes);
  const auto command = unpacker.number<Command>();
  return {command, unpacker.text()};
}

void begin(Transport& transport, bool is_warm_up) {
  lead(transport, Command::Begin, is_warm_up ? "warm-up" : "");
}

bool is_of_warm_up(const Order& begin) { return !begin.argument.empty(); }

void dismiss(Transport& transport, const LastWord& word) {
  Packer argument;
  argument.number(word.exit_code);
  argument.text(word.text);
  argument.number(word.ended_well);
  lead(transport, Command::Dismiss, argument.take());
}

LastWord last_word(const Order& dismissal) {
  Unpacker details(dismissal.argument);
  LastWord word;
  word.exit_code = details.number<int>();
  word.text = details.text();
  word.ended_well = details.number<bool>();
  return word;
}

}  // namespace pipewright
