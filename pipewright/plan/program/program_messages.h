// The messages of a run, channel by channel (pair of workers and kind).

#pragma once

#include <cstdint>
#include <iterator>
#include <optional>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// The key (microbatch, or version of weights) of the message that an action
// reads of a transfer in its read set. Of weights not above 0: the initial
// ones, which are everywhere and not sent.
std::int32_t key_read(const Transfer& transfer, const ReadSet& set,
                      const Action& action);

struct Messages {
  std::size_t num_channels = 0;
  std::vector<std::size_t> channel_of;  // per transfer
  // Per transfer and key (microbatch, or version of weights): the message's
  // number on its channel, -1 if it is never sent.
  std::vector<std::vector<std::int64_t>> numbers;

  // -1 as well for a key outside the run.
  std::int64_t number(TransferId transfer, std::int32_t key) const {
    const auto& of_transfer = numbers[transfer.index()];
    const bool is_inside = key >= 0 && key < std::ssize(of_transfer);
    return is_inside ? of_transfer[key] : -1;
  }
};

// Fills `messages`, or names the first fault: a microbatch or version outside
// the run, a message sent twice, not received, not sent, or out of order.
std::optional<Error> match_messages(const Program& program, int repetitions,
                                    Messages& messages);

// The messages of a run of a program that has passed validate().
Messages matched_messages(const Program& program, int repetitions);

}  // namespace pipewright
