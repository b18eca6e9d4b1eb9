// A thread per rank that reports ten times per second where its workers are,
// and finds out which rank has failed. All ranks are connected with rank 0 over
// sockets, so that this works when messages do not: a rank that dies closes its
// connection, one that is stopped falls silent, and one whose worker hangs
// sends heartbeats that show no progress.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/progress.h"
#include "pipewright/runtime/ranks/verdict.h"

namespace pipewright {

class Heartbeat {
 public:
  struct Hooks {
    // Called once, on the heartbeat's thread, unless finish() comes first.
    // `from_leader`: the verdict is rank 0's, and this is another rank.
    std::function<void(const Verdict&, bool from_leader)> on_lost;
    // The signal that this rank has received, or 0.
    std::function<int()> signal;
    // On rank 0, on the heartbeat's thread: a rank was silent for this long
    // after set-up, within the limits, and is back.
    std::function<void(int rank, Seconds silence)> on_stall;
  };

  // Connects all ranks; each calls it. `progress` must outlive the heartbeat.
  // Fails with WorkerLost if a connection cannot be made within the limit for
  // set-up.
  static Result<std::unique_ptr<Heartbeat>> start(Transport& transport,
                                                  const Progress& progress,
                                                  const Limits& limits,
                                                  Hooks hooks);
  virtual ~Heartbeat() = default;

  // This rank is about to end, or has reported why it failed: from now on its
  // silence is not a failure. Without this call the others take its end for
  // one.
  virtual void finish() = 0;
  // This rank ends at once, and this is why: the others end with the same code.
  // Not to be called from a hook.
  virtual void say_why(const Error& error) = 0;
  // On rank 0: a signal that any rank has received; else this rank's.
  virtual int signal() const = 0;
};

}  // namespace pipewright
