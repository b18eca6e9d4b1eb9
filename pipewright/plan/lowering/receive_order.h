// Where receives are posted: early enough that transfers overlap with compute,
// late enough that buffers stay bounded, and on each channel (pair of workers
// and kind) in the order of the sends.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

class Channels {
 public:
  // In program order of the sender.
  void sent(const Transfer& transfer, const Action& send);
  // Compute action `k` of the receiver uses this message; the first one counts.
  void used(TransferId transfer, MicrobatchId microbatch, int k);
  // Weights of `version` may land after compute action `k` of the receiver.
  void land_after(TransferId transfer, std::int32_t version, int k);

  struct Post {
    WorkerId worker;
    int position;     // of a compute action of the worker
    bool before_use;  // before that action, rather than after it
    Action action;
  };
  // Message n of a channel is posted after the action that used message
  // n - window, but before its own use, and not before message n - 1.
  std::vector<Post> posts(std::size_t window) const;

 private:
  struct Key {
    WorkerId from, to;
    TransferKind kind;
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::vector<Action>> sends_;
  // By transfer: the compute action of the receiver, by microbatch (kUnused if
  // there is none) or version.
  static constexpr int kUnused = -1;
  std::vector<std::vector<int>> uses_;
  std::map<TransferId, std::map<std::int32_t, int>> landings_;
};

}  // namespace pipewright
