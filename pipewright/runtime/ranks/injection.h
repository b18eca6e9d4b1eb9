// Faults on purpose, to test what happens then: only with --inject.
//
//   kill:rank=2,step=5,action=B3    the rank dies (SIGKILL)
//   stop:rank=1,step=5,seconds=2    it is stopped for 2 s; without: for ever
//   loop:rank=1,step=5              its worker computes for ever
//   nan:rank=1,step=5,action=F0     what the action reads or makes is NaN
//   throw:rank=1,step=5             a kernel fails
//   hang:rank=1,step=5              its GPU computes for ever; a core, too
//   lose:rank=1,step=5              its GPU is lost: every call of it fails
//   memory:rank=1,step=5            its device has no memory left
//   full:step=5                     rank 0 finds the disk full at checkpoints
//   missing:rank=1                  it never joins the others
//
// With times=1 it happens the first time only that the step is run, not when it
// is repeated. Steps count from 1. An action is F, B, I, W, R or send (or S for
// the optimizer's step) with a microbatch of the step; by default it is the
// step's first.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/runtime/ranks/progress.h"

namespace pipewright {

struct Injection {
  enum class Kind {
    Kill,
    Stop,
    Loop,
    Nan,
    Throw,
    Hang,
    Lose,
    Memory,
    Missing,
    Full
  };
  Kind kind = Kind::Kill;
  std::string text;  // as it was given
  int rank = 0;
  std::int64_t step = 1;
  std::optional<ActionKind> action;
  std::int64_t microbatch = 0;
  Seconds seconds;  // of a stop; 0: for ever
  int times = 0;    // 0: whenever it is there

  bool is_at(int here, const Place& place) const;
};

// Fails with BadConfiguration; the hint lists the faults.
Result<Injection> parse_injection(const std::string& text);

// Fails with BadConfiguration if the fault would never happen: no such rank, an
// action that its worker does not run, a NaN where nothing travels.
Result<void> check_injection(const Injection& injection,
                             const Program& program);

// Does it to this rank, on the calling thread. The caller has to do Nan.
void inject(const Injection& injection);

}  // namespace pipewright
