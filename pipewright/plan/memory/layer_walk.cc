#include "pipewright/plan/memory/layer_walk.h"

#include <algorithm>

namespace pipewright {
namespace {

std::size_t place(ValueKind kind) { return kind == ValueKind::Private; }

}  // namespace

LayerWalk::LayerWalk(const Profile& profile, const Homes& homes,
                     const Traffic& traffic)
    : profile_(profile), homes_(homes), traffic_(traffic) {
  const std::size_t count = profile.layers.size();
  // A source that names no parameters says nothing of who needs a gradient.
  needs_gradient_.assign(count, profile.parameters.empty());
  passes_on_.resize(count);
  for (std::size_t l = 0; l < count; ++l) {
    const ProfileLayer& layer = profile.layers[l];
    passes_on_[l] = layer.output_is_view || layer.passes_gradient;
    if (!layer.parameters.empty()) needs_gradient_[l] = true;
    for (const LayerId input : layer.inputs)
      if (needs_gradient_[input.index()]) needs_gradient_[l] = true;
  }
  for (auto& ends : ends_) ends.assign(count, false);
  for (auto& last : last_) last.assign(count, 0);
  gradient_.assign(count, kNone);
}

void LayerWalk::ends(const Value& value) {
  ends_[place(value.kind)][value.layer.index()] = true;
  said_.push_back(value);
}

void LayerWalk::has_gradient(LayerId layer) { given_.push_back(layer); }

void LayerWalk::restart(SampleRange samples) {
  samples_ = samples;
  held_ = most_ = waiting_ = Bytes(0);
  storages_.clear();
  with_gradient_.clear();
  for (const LayerId layer : given_) {
    if (gradient_[layer.index()] != kNone) continue;
    gradient_[layer.index()] =
        storage_of(bytes_of(ValueKind::Activation, layer));
    with_gradient_.push_back(layer);
  }
  held_ = Bytes(0);  // those are there already
}

void LayerWalk::forget() {
  for (const Value& value : said_)
    ends_[place(value.kind)][value.layer.index()] = false;
  for (const LayerId layer : with_gradient_) gradient_[layer.index()] = kNone;
  said_.clear();
  given_.clear();
}

template <typename Visit>
void LayerWalk::for_each_touched(const std::vector<LayerId>& layers,
                                 bool is_forward, std::size_t i,
                                 Visit visit) const {
  const LayerId id = layers[i];
  const ProfileLayer& layer = profile_.layers[id.index()];
  visit(ValueKind::Private, id);
  if (is_forward || layer.keeps_output)
    visit(ValueKind::Activation, homes_.storage[id.index()]);
  for (std::size_t k = 0; k < layer.inputs.size(); ++k)
    if (is_forward || layer.keeps_input[k])
      visit(ValueKind::Activation, homes_.storage[layer.inputs[k].index()]);
}

void LayerWalk::note_last(const std::vector<LayerId>& layers, bool is_forward) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    for_each_touched(layers, is_forward, i, [&](ValueKind kind, LayerId layer) {
      last_[place(kind)][layer.index()] = i;
    });
}

void LayerWalk::end_layer(const std::vector<LayerId>& layers, bool is_forward,
                          std::size_t i) {
  for_each_touched(layers, is_forward, i, [&](ValueKind kind, LayerId layer) {
    const std::size_t at = layer.index();
    if (!ends_[place(kind)][at] || last_[place(kind)][at] != i) return;
    ends_[place(kind)][at] = false;
    held_ -= bytes_of(kind, layer);
  });
}

Bytes LayerWalk::forward(const std::vector<LayerId>& layers,
                         SampleRange samples) {
  restart(samples);
  note_last(layers, true);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const LayerId layer = layers[i];
    if (homes_.storage[layer.index()] == layer)
      held_ += bytes_of(ValueKind::Activation, layer);
    held_ += bytes_of(ValueKind::Private, layer);
    note_peak(traffic_.workspace_of(layer, samples_));
    end_layer(layers, true, i);
  }
  forget();
  return most_;
}

Bytes LayerWalk::backward(const std::vector<LayerId>& layers,
                          SampleRange samples, ActionKind kind) {
  const bool for_inputs = kind != ActionKind::BackwardWeight;
  const bool for_weights = kind != ActionKind::BackwardInput;
  restart(samples);
  order_.clear();
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer)
    if (needs_gradient_[layer->index()] && (for_inputs || has_weights(*layer)))
      order_.push_back(*layer);
  note_last(order_, false);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const LayerId layer = order_[i];
    if (for_inputs) make_gradients(layer);
    if (for_weights && has_weights(layer))
      note_peak(traffic_.workspace_of(layer, samples_));
    std::int32_t& own = gradient_[layer.index()];
    if ((for_weights || !has_weights(layer)) && own != kNone) {
      release(own);
      own = kNone;
    }
    end_layer(order_, false, i);
  }
  if (!for_weights) count_waiting(order_);
  forget();
  return most_;
}

void LayerWalk::make_gradients(LayerId layer) {
  const std::int32_t own = gradient_[layer.index()];
  made_.clear();
  for (const LayerId input : profile_.layers[layer.index()].inputs) {
    if (!needs_gradient_[input.index()]) continue;
    std::int32_t part = own;
    if (passes_on_[layer.index()] && own != kNone)
      ++storages_[static_cast<std::size_t>(own)].references;
    else
      part = storage_of(bytes_of(ValueKind::Activation, input));
    made_.emplace_back(input, part);
  }
  note_peak(traffic_.workspace_of(layer, samples_));
  for (const auto& [input, part] : made_) add_gradient(input, part);
}

void LayerWalk::add_gradient(LayerId layer, std::int32_t part) {
  std::int32_t& sum = gradient_[layer.index()];
  if (sum == kNone) {
    sum = part;
    with_gradient_.push_back(layer);
    return;
  }
  if (storages_[static_cast<std::size_t>(sum)].references > 1) {
    const std::int32_t before = sum;
    sum = storage_of(bytes_of(ValueKind::Activation, layer));
    note_peak(Bytes(0));
    release(before);
  }
  release(part);
}

std::int32_t LayerWalk::storage_of(Bytes bytes) {
  storages_.push_back({bytes, 1});
  held_ += bytes;
  return static_cast<std::int32_t>(storages_.size()) - 1;
}

void LayerWalk::release(std::int32_t storage) {
  Storage& last = storages_[static_cast<std::size_t>(storage)];
  if (--last.references == 0) held_ -= last.bytes;
}

void LayerWalk::count_waiting(const std::vector<LayerId>& layers) {
  for (const LayerId layer : layers) {
    const std::int32_t own = gradient_[layer.index()];
    if (own == kNone || !has_weights(layer)) continue;
    Storage& storage = storages_[static_cast<std::size_t>(own)];
    waiting_ += storage.bytes;
    storage.bytes = Bytes(0);  // once, whoever else has it
  }
}

}  // namespace pipewright
