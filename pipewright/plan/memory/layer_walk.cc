#include "pipewright/plan/memory/layer_walk.h"

#include <algorithm>

namespace pipewright {

LayerWalk::LayerWalk(const Profile& profile, const Homes& homes,
                     const Traffic& traffic)
    : profile_(profile),
      homes_(homes),
      traffic_(traffic),
      needs_gradient_(layers_with_gradient(profile)),
      gradient_(profile.layers.size()) {
  for (const ProfileLayer& layer : profile.layers)
    passes_on_.push_back(layer.output_is_view || layer.passes_gradient);
}

void LayerWalk::restart(SampleRange samples) {
  samples_ = samples;
  peak_ = waiting_ = sums_ = peak_with_sums_ = Bytes(0);
  next_end_ = 0;
  storages_.clear();
  for (const LayerId layer : with_gradient_)
    gradient_[layer.index()] = StorageId();
  with_gradient_.clear();
  for (const LayerId layer : given_) {
    if (!gradient_[layer.index()].is_none()) continue;
    gradient_[layer.index()] =
        new_storage(bytes_of(ValueKind::Activation, layer));
    with_gradient_.push_back(layer);
  }
  held_ = Bytes(0);  // those are there already
}

void LayerWalk::end_layer(LayerId layer) {
  for (; next_end_ < ends_.size() && ends_[next_end_].after == layer;
       ++next_end_)
    held_ -= ends_[next_end_].bytes;
}

Bytes LayerWalk::forward(const std::vector<LayerId>& layers,
                         SampleRange samples) {
  restart(samples);
  for (const LayerId layer : layers) {
    if (homes_.storage[layer.index()] == layer)
      held_ += bytes_of(ValueKind::Activation, layer);
    held_ += bytes_of(ValueKind::Private, layer);
    note_peak(temporary(layer));
    end_layer(layer);
  }
  clear();
  return peak_;
}

Bytes LayerWalk::backward(const std::vector<LayerId>& layers,
                          SampleRange samples, ActionKind kind) {
  const bool for_inputs = kind != ActionKind::BackwardWeight;
  const bool for_weights = kind != ActionKind::BackwardInput;
  restart(samples);
  order_.clear();
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    if (needs_gradient_[layer->index()] &&
        (for_inputs || profile_.has_weights(*layer)))
      order_.push_back(*layer);
  for (const LayerId layer : order_) {
    if (for_inputs) make_gradients(layer);
    if (for_weights && profile_.has_weights(layer)) {
      note_peak(traffic_.workspace_of(layer, samples_));
      sums_ += profile_.parameter_bytes(layer);
      peak_with_sums_ = std::max(peak_with_sums_, held_ + sums_);
      held_ -= carried(layer);
    }
    StorageId& own = gradient_[layer.index()];
    if ((for_weights || !profile_.has_weights(layer)) && !own.is_none()) {
      release(own);
      own = StorageId();
    }
    end_layer(layer);
  }
  if (!for_weights) count_waiting(order_);
  clear();
  return peak_;
}

void LayerWalk::make_gradients(LayerId layer) {
  const StorageId own = gradient_[layer.index()];
  parts_.clear();
  for (const LayerId input : profile_.layers[layer.index()].inputs) {
    if (!needs_gradient_[input.index()]) continue;
    StorageId part = own;
    if (passes_on_[layer.index()] && !own.is_none())
      ++storages_[own.index()].references;
    else
      part = new_storage(bytes_of(ValueKind::Activation, input));
    parts_.emplace_back(input, part);
  }
  held_ += carried(layer);
  note_peak(temporary(layer));
  for (const auto& [input, part] : parts_) add_gradient(input, part);
}

void LayerWalk::add_gradient(LayerId layer, StorageId part) {
  StorageId& sum = gradient_[layer.index()];
  if (sum.is_none()) {
    sum = part;
    with_gradient_.push_back(layer);
    return;
  }
  if (storages_[sum.index()].references > 1) {
    const StorageId before = sum;
    sum = new_storage(bytes_of(ValueKind::Activation, layer));
    note_peak(Bytes(0));
    release(before);
  }
  release(part);
}

LayerWalk::StorageId LayerWalk::new_storage(Bytes bytes) {
  storages_.push_back({bytes, 1});
  held_ += bytes;
  return StorageId(storages_.size() - 1);
}

void LayerWalk::release(StorageId storage) {
  Storage& last = storages_[storage.index()];
  if (--last.references == 0) held_ -= last.bytes;
}

void LayerWalk::count_waiting(const std::vector<LayerId>& layers) {
  for (const LayerId layer : layers) {
    const StorageId own = gradient_[layer.index()];
    waiting_ += carried(layer);
    if (own.is_none() || !profile_.has_weights(layer)) continue;
    Storage& storage = storages_[own.index()];
    waiting_ += storage.bytes;
    storage.bytes = Bytes(0);  // once, whoever else has it
  }
}

}  // namespace pipewright
