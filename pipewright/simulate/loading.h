// Data for the first stage: each worker that forwards it has a loader, which is
// a worker without actions. It loads one microbatch after the other, in the
// order in which they are wanted, some ahead of the last one taken; a forward
// waits for its microbatch as it waits for a transfer.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/simulate/code_writer.h"

namespace pipewright {

class Loading {
 public:
  Loading(const Program& program, const Costs& costs, CodeWriter& writer,
          TimedCode& code);

  bool is_on() const { return !loaders_.empty(); }

  // A forward of the first stage on worker w: inside its op, and behind it.
  void wait_for(int w, const Action& action);
  void take(int w, const Action& action);

  void add_loaders();  // when all workers are there

 private:
  struct Loader {
    std::int32_t loaded = -1, taken = -1;  // signals, by microbatch
    double seconds = 0;
    std::int32_t cost = 0;
  };
  bool loads(int w, const Action& action) const;
  std::vector<std::int32_t> keys_of(std::size_t w, int section) const;
  void add_section(const Loader& loader, const std::vector<std::int32_t>& keys,
                   const std::vector<std::int32_t>& body, bool is_prologue,
                   std::int32_t there_until);

  const Program& program_;
  const Costs& costs_;
  CodeWriter& writer_;
  TimedCode& code_;
  std::vector<Loader> loaders_;  // per worker; empty if nothing is loaded
};

}  // namespace pipewright
