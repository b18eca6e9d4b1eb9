// How often workers ask for samples; see training_samples.h.

#include "pipewright/runtime/data/training_samples.h"

namespace pipewright {

std::int64_t sample_reads(const Model& model, const Program& program) {
  std::int64_t reads = 0;
  for (std::size_t w = 0; w < program.workers.size(); ++w)
    for (const Action& action : program.workers[w].body) {
      const bool is_again = action.kind == ActionKind::Recompute;
      if (action.kind != ActionKind::Forward && !is_again) continue;
      const Operation& operation =
          *program.operation(WorkerId(w), action.stage);
      for (const LayerId layer :
           is_again ? operation.backward : operation.forward)
        for (const Source& source : model.layer(layer).inputs)
          reads += source.is_model_input();
    }
  return reads;
}

}  // namespace pipewright
