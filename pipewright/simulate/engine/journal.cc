#include "pipewright/simulate/engine/journal.h"

#include <algorithm>

namespace pipewright {

// Growing step by step would copy all once or twice.
Journal::Journal(const TimedCode& code, int num_repetitions)
    : repetitions(std::max(0, num_repetitions)),
      starts(code.workers.size()),
      messages(code.network.channels.size()) {
  const auto sum = [this](const PerSection& count) -> std::size_t {
    return count[kPrologue] + std::int64_t{repetitions} * count[kBody] +
           count[kEpilogue];
  };
  for (std::size_t w = 0; w < starts.size(); ++w)
    starts[w].reserve(sum(code.workers[w].num_works));
  for (std::size_t c = 0; c < messages.size(); ++c)
    messages[c].reserve(sum(code.num_messages[c]));
}

}  // namespace pipewright
