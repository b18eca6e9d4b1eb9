#include "pipewright/plan/schedule/compute_order.h"

#include <limits>

namespace pipewright {
namespace {

void append(std::vector<ComputeAction>& to,
            const std::vector<ComputeAction>& order, std::int64_t first) {
  for (ComputeAction action : order) {
    const std::int64_t microbatch = action.microbatch.value + first;
    action.microbatch =
        microbatch <= std::numeric_limits<std::int32_t>::max()
            ? MicrobatchId(static_cast<std::int32_t>(microbatch))
            : MicrobatchId();
    to.push_back(action);
  }
}

}  // namespace

char letter(ComputeKind kind) { return "FBIWR"[static_cast<int>(kind)]; }

std::string to_text(const ComputeAction& action) {
  return std::to_string(action.stage.value) + letter(action.kind) +
         std::to_string(action.microbatch.value);
}

Orders unrolled(const ScheduleSections& sections, int num_microbatches,
                int repetitions) {
  Orders run(sections.body.size());
  for (std::size_t w = 0; w < run.size(); ++w) {
    const std::size_t outside =
        (sections.prologue.empty() ? 0 : sections.prologue[w].size()) +
        (sections.epilogue.empty() ? 0 : sections.epilogue[w].size());
    run[w].reserve(outside + sections.body[w].size() * repetitions);
    if (!sections.prologue.empty()) append(run[w], sections.prologue[w], 0);
    for (std::int64_t r = 0; r < repetitions; ++r)
      append(run[w], sections.body[w], r * num_microbatches);
    if (!sections.epilogue.empty())
      append(run[w], sections.epilogue[w],
             static_cast<std::int64_t>(repetitions) * num_microbatches);
  }
  return run;
}

}  // namespace pipewright
