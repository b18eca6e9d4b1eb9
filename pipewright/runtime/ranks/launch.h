// One rank of a training, from start to end: MPI or sockets, the heartbeat, the
// comparison before step 0, and how it ends. A process without a launcher is
// the only rank.
//
// No type of LibTorch or MPI is seen from outside. Nothing here prints: errors
// go to the hook, because a lost rank ends the process from another thread.

#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"
#include "pipewright/runtime/ranks/outcome.h"

namespace pipewright {

class Transport;

struct LaunchRequest {
  bool fast_reduce = false;
  bool progress_thread = true;
  bool checksum = false;       // of messages of tensors
  std::string links = "auto";  // between devices: LinkChoice
  Seconds set_up_limit{120}, least_limit{10};
  std::string inject;           // see injection.h; empty for none
  std::filesystem::path run;    // for failure reports
  std::function<int()> signal;  // that this rank has received, or 0
  // Ends the process with the error's code. Prints one line before that, unless
  // rank 0 does so for all. Called on any thread.
  std::function<void(const Error&, bool leader_prints_it)> give_up;
  // Rank 0: a rank was silent for some time, and is back. Called on any thread.
  std::function<void(const std::string&)> on_stall;
};

// What ranks compare; see agreement.h.
using Intentions = std::vector<std::pair<std::string, std::string>>;

class Launch {
 public:
  // Fails with BadConfiguration (no MPI, unknown injection). A rank that is
  // missing ends the process after the limit.
  static Result<std::unique_ptr<Launch>> start(const LaunchRequest& request);
  virtual ~Launch() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool leads() const { return rank() == 0; }
  virtual Transport* transport() = 0;
  // A signal that any rank has received.
  virtual int signal() const = 0;

  // The host of every rank, the text that each one gives, and the text that
  // rank 0 gives. All ranks must call each of them, in the same order, before
  // agree().
  virtual std::vector<std::string> hosts() = 0;
  virtual std::vector<std::string> texts(std::string mine) = 0;
  virtual std::string leaders_text(std::string text) = 0;

  // Compares with the other ranks and checks their number and hosts; from then
  // on they watch each other. Every rank fails with the same error. `cluster`
  // may be null.
  virtual Result<void> agree(const Result<Intentions>& mine, const Plan& plan,
                             const Cluster* cluster) = 0;

  // Writes failure_RANK.json, but not into a new folder of a run that agree()
  // has refused, which finish() removes. `signal` asked for the end; 0: none
  // did.
  virtual void report(const Error& error, int signal) const = 0;
  // Rank 0 shuts the others down with this outcome, or another rank has been
  // shut down. If training ended well MPI ends, too; after a failure it may
  // hang, and the process must end with _exit().
  virtual void finish(const Outcome& outcome) = 0;
};

}  // namespace pipewright
