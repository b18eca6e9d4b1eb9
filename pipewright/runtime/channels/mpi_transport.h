// The ranks that mpirun or srun started, one per worker of the plan. No type of
// MPI is seen here; a build without MPI has no_mpi.cc instead.

#pragma once

#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/transport.h"

namespace pipewright {

struct MpiOptions {
  // MPI's own all-reduce adds up the gradients of replicas: faster with many
  // replicas, but in an order that MPI chooses.
  bool fast_reduce = false;
  // A thread makes messages progress while the worker computes. Without it they
  // only do so between actions.
  bool progress_thread = true;
  // Every message of tensors carries a checksum, and one that arrives with
  // other bits ends the run with WorkersDisagree. Not with fast_reduce.
  bool checksum = false;
};

// MPI itself, from its start to its end: once per process.
class MpiSession {
 public:
  // Fails with BadConfiguration without MPI, or with one that does not allow
  // calls from several threads.
  static Result<std::unique_ptr<MpiSession>> start();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // Worker i is on rank i; further ranks have no worker. Every rank calls it.
  std::unique_ptr<Transport> connect(const MpiOptions& options);

 private:
  MpiSession() = default;

  int rank_ = 0, size_ = 1, core_ = -1;
};

}  // namespace pipewright
