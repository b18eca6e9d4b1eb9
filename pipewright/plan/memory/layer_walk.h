// The most that a compute action has allocated while it runs: a walk over its
// layers in the order in which the runtime runs them. Outputs, gradients and
// workspace come with a layer, and a value goes behind the last layer that
// touches it, if nobody reads it behind the action.
//
// Gradients are running sums: a second part is added in place where the first
// is nobody else's, and a layer that passes its own gradient on (add, a view)
// makes none. Weight gradients are not looked at: they stay for the minibatch.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/lowering/homes.h"
#include "pipewright/plan/lowering/traffic.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

class LayerWalk {
 public:
  // All must stay.
  LayerWalk(const Profile& profile, const Homes& homes, const Traffic& traffic);

  // Said before a walk, and forgotten with it.
  void ends(const Value& value);     // activation or private: nobody reads it
                                     // behind the action
  void has_gradient(LayerId layer);  // is there when the action starts

  // Bytes over those at the start, at least 0.
  Bytes forward(const std::vector<LayerId>& layers, SampleRange samples);
  // B, I or W.
  Bytes backward(const std::vector<LayerId>& layers, SampleRange samples,
                 ActionKind kind);
  // Of the last walk, if it was I: output gradients that W will read.
  Bytes waiting() const { return waiting_; }

 private:
  // A tensor with gradients; several layers may have the same.
  struct Storage {
    Bytes bytes;
    int references = 0;
  };
  static constexpr std::int32_t kNone = -1;

  template <typename Visit>
  void for_each_touched(const std::vector<LayerId>& layers, bool is_forward,
                        std::size_t i, Visit visit) const;
  void note_last(const std::vector<LayerId>& layers, bool is_forward);
  void end_layer(const std::vector<LayerId>& layers, bool is_forward,
                 std::size_t i);
  void make_gradients(LayerId layer);
  void add_gradient(LayerId layer, std::int32_t part);
  std::int32_t storage_of(Bytes bytes);
  void release(std::int32_t storage);
  void count_waiting(const std::vector<LayerId>& layers);
  void restart(SampleRange samples);
  void forget();

  Bytes bytes_of(ValueKind kind, LayerId layer) const {
    return traffic_.bytes_of({kind, layer}, samples_);
  }
  bool has_weights(LayerId layer) const {
    return !profile_.layers[layer.index()].parameters.empty();
  }
  void note_peak(Bytes more) { most_ = std::max(most_, held_ + more); }

  const Profile& profile_;
  const Homes& homes_;
  const Traffic& traffic_;
  std::vector<bool> needs_gradient_, passes_on_;  // by layer

  SampleRange samples_;
  Bytes held_, most_, waiting_;
  // By kind (activation, private) and layer.
  std::vector<bool> ends_[2];
  std::vector<std::size_t> last_[2];
  std::vector<Value> said_;
  std::vector<LayerId> given_, order_;
  std::vector<std::int32_t> gradient_;  // by layer: into storages_
  std::vector<LayerId> with_gradient_;
  std::vector<Storage> storages_;
  std::vector<std::pair<LayerId, std::int32_t>> made_;  // by one layer
};

}  // namespace pipewright
