// The ranks that a launcher started, one per worker of the plan.

#pragma once

#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/runtime/channels/rank_links.h"
#include "pipewright/runtime/channels/rank_network.h"
#include "pipewright/runtime/channels/transport.h"

namespace pipewright {

struct TransportOptions {
  // The network's own all-reduce, where it has one, adds up the gradients of
  // replicas: faster with many replicas, but in an order that it chooses.
  bool fast_reduce = false;
  // A thread makes messages progress while the worker computes. Without it they
  // only do so between actions.
  bool progress_thread = true;
  // Every message of tensors carries a checksum, and one that arrives with
  // other bits ends the run with WorkersDisagree. Not with fast_reduce.
  bool checksum = false;
  LinkChoice links = {};  // between devices; none with checksums
};

// What ranks talk over, from its start to its end: once per process.
class RankSession {
 public:
  // Over MPI or sockets, as the launcher asks for. Fails as mpi_network() and
  // socket_network(); only the latter knows the limit.
  static Result<std::unique_ptr<RankSession>> start(
      Seconds limit = Seconds(120));

  RankNetwork& network() const { return *network_; }
  int rank() const { return network_->rank(); }
  int size() const { return network_->size(); }
  // Worker i is on rank i; further ranks have no worker. Every rank calls it.
  std::unique_ptr<Transport> connect(const TransportOptions& options);

 private:
  explicit RankSession(std::unique_ptr<RankNetwork> network);

  std::unique_ptr<RankNetwork> network_;
  int core_ = -1;
};

}  // namespace pipewright
