// Processes that mpirun or srun started, one per worker of the plan. No type of
// MPI is seen here; a build without MPI answers from no_mpi.cc.

#pragma once

#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/transport.h"

namespace pipewright {

struct MpiOptions {
  // Sums of replicas by MPI's own all-reduce: faster with many replicas, in an
  // order that MPI chooses.
  bool fast_reduce = false;
  // A thread that moves messages while the worker computes. Without it they
  // move between actions.
  bool progress_thread = true;
};

// MPI itself, from its start to its end: once in a process.
class MpiSession {
 public:
  // Fails with BadConfiguration where there is no MPI, or one that threads may
  // not use.
  static Result<std::unique_ptr<MpiSession>> start();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Worker i is on rank i; further ranks have none. Every rank calls it.
  std::unique_ptr<Transport> connect(const MpiOptions& options);

 private:
  MpiSession() = default;

  int rank_ = 0, size_ = 1, core_ = -1;
};

}  // namespace pipewright
