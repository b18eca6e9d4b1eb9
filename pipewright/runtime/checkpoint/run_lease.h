// Who may write to a run folder: one process at a time, on any host that
// shares the folder.
//
//   RUN/lease.json   {"host": "node7", "process": 4711, "token": "...", ...}
//
// A thread of the holder renews the file's modification time. Another process
// is refused while that is so. It takes over at once where the holder was a
// process of this host that no longer exists, and otherwise when the time has
// not changed for the limit by its own clock: clocks of two hosts are never
// compared.

#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

struct LeaseHolder {
  std::string host;
  // Where process ids mean the same: this boot, this namespace of processes.
  std::string processes;
  std::int64_t process = 0;
  std::int64_t started = 0;  // ticks since boot, for ids that are used again
  std::string token;         // random: of this lease
};
LeaseHolder this_process();

struct LeaseOptions {
  Seconds limit{60};  // without renewal until the lease may be taken over
  LeaseHolder holder = this_process();
  // Called once if a holder on another host has to be waited for.
  std::function<void(const std::string&)> on_wait;
  std::function<int()> signal;  // ends waiting, unless 0
};

class RunLease {
 public:
  // The folder must exist. Fails with InUse (the message names the holder),
  // CannotCreate or CannotWrite.
  static Result<std::unique_ptr<RunLease>> take(
      const std::filesystem::path& run, LeaseOptions options = {});
  virtual ~RunLease() = default;  // gives it back

  // Fails with WorkerLost if another process has taken over since: this one
  // was stopped, or could not reach the folder, for longer than the limit.
  virtual Result<void> check() const = 0;
};

}  // namespace pipewright
