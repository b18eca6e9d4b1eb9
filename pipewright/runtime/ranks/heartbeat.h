// A thread per process that tells where its workers are, ten times a second,
// and learns who has failed. All are connected with process 0 over sockets of
// their own, so that it works when MPI does not: a process that dies closes its
// connection, one that is stopped falls silent, one whose worker hangs beats
// without getting on.

#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/ranks/progress.h"
#include "pipewright/runtime/ranks/verdict.h"

namespace pipewright {

class Heartbeat {
 public:
  struct Hooks {
    // Called once, from the heartbeat's thread, unless finish() comes first.
    // `is_told`: it is the leader's verdict, and this is not the leader.
    std::function<void(const Verdict&, bool is_told)> on_lost;
    // The signal this process has got, or 0.
    std::function<int()> signal;
  };

  // Connects all processes; each calls it. `progress` outlives the heartbeat.
  // Fails with WorkerLost if a connection does not come about within the limit
  // for set-up.
  static Result<std::unique_ptr<Heartbeat>> start(Transport& transport,
                                                  const Progress& progress,
                                                  const Limits& limits,
                                                  Hooks hooks);
  virtual ~Heartbeat() = default;

  // This process is about to end well, or has said why not; its silence is no
  // failure from now on. Without it an end is a loss to the others.
  virtual void finish() = 0;
  // A signal that any process has got, on the leader; else this one's.
  virtual int signal() const = 0;
};

}  // namespace pipewright
