#include "pipewright/plan/memory/memory_use.h"

#include <utility>

#include "pipewright/base/text.h"

namespace pipewright {

MemoryUse constant_memory(const Program& program, WorkerId worker) {
  MemoryUse use;
  for (const HeldWeights& held : program.workers[worker.index()].held)
    use.weights += program.weight_group(held.group).bytes * held.versions;
  for (const Operation& operation : program.operations) {
    if (operation.worker != worker) continue;
    use.gradients += operation.gradients;
    use.optimizer += operation.optimizer;
  }
  return use;
}

std::string to_text(const MemoryUse& use) {
  std::string text;
  for (auto [name, bytes] : {std::pair("weights", use.weights),
                             {"gradients", use.gradients},
                             {"optimizer state", use.optimizer},
                             {"activations", use.activations},
                             {"buffers", use.buffers},
                             {"base", use.base},
                             {"fragmentation", use.fragmentation}})
    if (bytes != Bytes(0))
      text +=
          (text.empty() ? "" : ", ") + std::string(name) + " " + to_text(bytes);
  return text.empty() ? "nothing" : text;
}

}  // namespace pipewright
