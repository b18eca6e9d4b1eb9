// Where messages between ranks go. For channels/ alone.

#pragma once

#include <cstdint>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/message_engine.h"

namespace pipewright {

// Where a sender's messages go, or a receiver's come from. A tag is made of the
// index of the transfer or reduction and of a message's key, so that
// receives match their messages in whatever order keys are taken.
struct MessageAddress {
  MessageSpace* space = nullptr;
  int rank = 0;
  std::int32_t index = 0;
  std::int32_t subject = 0;  // also of reductions: other than all transfers
  int num_tags = 1;  // per index; keys under way at once are closer together
  int expected = 1;  // messages under way at once

  MessageEngine::Envelope envelope(std::int32_t key) const;
};
// `index` is that of a transfer, or of a reduction, of the program; those after
// all reductions are free. Messages of both do not mix: they use different
// spaces.
MessageAddress message_address(const MessageEngine& engine,
                               const Program& program, MessageSpace& space,
                               int rank, std::int32_t index);

}  // namespace pipewright
