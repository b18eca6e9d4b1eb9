// A worker's actions for a whole run, one after the other.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"

namespace pipewright {

// Walks over a worker's actions for a run, section by section, without storing
// them repetition by repetition.
class ActionCursor {
 public:
  ActionCursor(const Program& program, WorkerId worker, int repetitions);

  bool at_end() const { return section_ == 3; }
  Action action() const;  // with absolute microbatch and version
  void advance();
  std::int64_t position() const { return position_; }

 private:
  const std::vector<Action>& list() const;
  void skip_empty();

  const WorkerProgram* worker_;
  int num_microbatches_, repetitions_;
  int section_ = 0, repetition_ = 0;
  std::size_t at_ = 0;
  std::int64_t position_ = 0;
};

}  // namespace pipewright
