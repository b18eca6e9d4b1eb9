#include "pipewright/simulate/journal.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {

// Growing step by step would copy all once or twice.
Journal::Journal(const TimedCode& code, int num_repetitions)
    : repetitions(std::max(0, num_repetitions)),
      starts(code.workers.size()),
      messages(code.channels.size()) {
  std::vector<std::size_t> carried(messages.size(), 0);
  for (std::size_t w = 0; w < starts.size(); ++w) {
    const TimedWorker& worker = code.workers[w];
    std::size_t works = 0;
    for (int s = 0; s < 3; ++s) {
      const std::size_t times = s == 1 ? at(repetitions) : 1;
      for (std::int32_t i = worker.begin[s]; i < worker.begin[s + 1]; ++i) {
        const Op& op = code.ops[at(i)];
        if (op.code == OpCode::Work)
          works += times;
        else if (op.code == OpCode::Receive)
          carried[at(code.transfers[at(op.target)].channel)] += times;
      }
    }
    starts[w].reserve(works);
  }
  for (std::size_t c = 0; c < carried.size(); ++c)
    messages[c].reserve(carried[c]);
}

}  // namespace pipewright
