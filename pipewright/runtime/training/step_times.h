// What steps of a run took, piece by piece (milestones.h), and the time of a
// step that the run is known by.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

class StepTimes {
 public:
  // Of a piece: what a step took, and how many there were. A device that
  // records actions is settled once it replays them: only then it has its full
  // speed.
  void add(Seconds step, std::int64_t steps, bool is_settled);

  bool is_empty() const { return all_.empty(); }
  Seconds latest() const { return all_.back().step; }

  // Over steps, not pieces: short ones, which begin and end as the long ones
  // do, count less. Of settled pieces where others came before them; else
  // without the first piece, which warms up allocators and caches, if more than
  // two are there.
  Seconds median() const;

 private:
  struct Piece {
    Seconds step;
    std::int64_t steps = 0;
  };
  std::vector<Piece> counted() const;

  std::vector<Piece> all_, settled_;
};

}  // namespace pipewright
