// The most that a compute action has allocated while it runs: its layers in the
// order in which the runtime runs them. Outputs, gradients and workspace come
// with a layer; what ends with the action goes after the last layer that
// touches it.
//
// Gradients are running sums: a second part is added in place where the first
// is nobody else's, and a layer that passes its own gradient on (add, a view)
// makes none. Weight gradients stay for the minibatch and are counted apart.
// Weights moved back along their velocity are there for one layer at a time.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/traffic.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

class LayerWalk {
 public:
  // The arguments must outlive this object.
  LayerWalk(const Profile& profile, const Homes& homes, const Traffic& traffic);

  // Set before a traversal, and cleared by it. Ends come in the order of the
  // layers; gradients are not among them.
  void ends(LayerId after, Bytes bytes) { ends_.push_back({after, bytes}); }
  void has_gradient(LayerId layer) {  // when the action starts
    given_.push_back(layer);
  }
  void reads_moved_weights() { moves_weights_ = true; }
  void clear() {
    ends_.clear();
    given_.clear();
    moves_weights_ = false;
  }

  // Bytes over those at the start, at least 0.
  Bytes forward(const std::vector<LayerId>& layers, SampleRange samples);
  // B, I or W.
  Bytes backward(const std::vector<LayerId>& layers, SampleRange samples,
                 ActionKind kind);
  // Of the last traversal, if it was I: output gradients that W will read, and
  // what I carries to it.
  Bytes waiting() const { return waiting_; }
  // What the last traversal would have returned, if it was B or W, where sums
  // of weight gradients are made and stay, layer by layer. Adding to a sum may
  // need as much while it is done.
  Bytes with_sums() const { return peak_with_sums_; }

 private:
  struct End {
    LayerId after;
    Bytes bytes;
  };
  // A tensor with gradients; several layers may have the same.
  struct Storage {
    Bytes bytes;
    int references = 0;
  };
  using StorageId = Id<Storage>;

  void restart(SampleRange samples);
  void end_layer(LayerId layer);
  void make_gradients(LayerId layer);
  void add_gradient(LayerId layer, StorageId part);
  StorageId new_storage(Bytes bytes);
  void release(StorageId storage);
  void count_waiting(const std::vector<LayerId>& layers);

  Bytes bytes_of(ValueKind kind, LayerId layer) const {
    return traffic_.bytes_of({kind, layer}, samples_);
  }
  // From I to W.
  Bytes carried(LayerId layer) const {
    return profile_.has_weights(layer) ? traffic_.carried_by(layer, samples_)
                                       : Bytes(0);
  }
  // What a layer has allocated only while it runs.
  Bytes temporary(LayerId layer) const {
    const Bytes workspace = traffic_.workspace_of(layer, samples_);
    return moves_weights_ ? workspace + profile_.parameter_bytes(layer)
                          : workspace;
  }
  void note_peak(Bytes more) {
    peak_ = std::max(peak_, held_ + more);
    peak_with_sums_ = std::max(peak_with_sums_, held_ + sums_ + more);
  }

  const Profile& profile_;
  const Homes& homes_;
  const Traffic& traffic_;
  const std::vector<bool> needs_gradient_;  // by layer
  std::vector<bool> passes_on_;             // likewise

  SampleRange samples_;
  bool moves_weights_ = false;
  Bytes held_, peak_, waiting_;
  Bytes sums_, peak_with_sums_;  // weight gradients made so far
  std::vector<End> ends_;
  std::size_t next_end_ = 0;
  std::vector<LayerId> given_;       // have a gradient at the start
  std::vector<StorageId> gradient_;  // by layer
  std::vector<LayerId> with_gradient_;
  std::vector<Storage> storages_;
  std::vector<std::pair<LayerId, StorageId>> parts_;  // made by one layer
  std::vector<LayerId> order_;                        // of backward
};

}  // namespace pipewright
