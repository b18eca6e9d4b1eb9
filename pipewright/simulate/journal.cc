#include "pipewright/simulate/journal.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {

// Growing step by step would copy all once or twice.
Journal::Journal(const TimedCode& code, int num_repetitions)
    : repetitions(std::max(0, num_repetitions)),
      starts(code.workers.size()),
      messages(code.channels.size()) {
  const auto sum = [this](const std::int32_t(&count)[3]) {
    return at(count[0]) + at(repetitions) * at(count[1]) + at(count[2]);
  };
  for (std::size_t w = 0; w < starts.size(); ++w)
    starts[w].reserve(sum(code.workers[w].num_works));
  for (std::size_t c = 0; c < messages.size(); ++c)
    messages[c].reserve(sum(code.channels[c].num_messages));
}

}  // namespace pipewright
