#include "pipewright/runtime/channels/message_address.h"

#include <algorithm>

#include "pipewright/plan/program/send_capacity.h"

namespace pipewright {

MessageEngine::Envelope MessageAddress::envelope(std::int32_t key) const {
  return {space, rank,
          index * num_tags + (key % num_tags + num_tags) % num_tags};
}

MessageAddress message_address(const MessageEngine& engine,
                               const Program& program, MessageSpace& space,
                               int rank, std::int32_t index) {
  const auto num_indices = static_cast<int>(program.transfers.size() +
                                            2 * program.reductions.size() + 1);
  const int num_tags = std::clamp(engine.largest_tag() / num_indices, 1, 65536);
  return {&space, rank,     index,
          index,  num_tags, SendCapacity::expected(program)};
}

}  // namespace pipewright
