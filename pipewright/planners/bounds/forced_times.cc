#include "pipewright/planners/bounds/forced_times.h"

#include <algorithm>

#include "pipewright/base/infinity.h"

namespace pipewright {
namespace {

// Weights, gradients and optimizer state per layer. A shared parameter counts
// in the first layer that uses it.
std::vector<Bytes> states_of(const Problem& problem) {
  const Profile& profile = *problem.profile;
  std::vector<bool> counted(profile.parameters.size(), false);
  std::vector<Bytes> states;
  for (const ProfileLayer& layer : profile.layers) {
    Bytes own;
    for (ParameterId id : layer.parameters) {
      if (!counted[id.index()]) own += profile.parameters[id.index()].bytes;
      counted[id.index()] = true;
    }
    states.push_back(own * std::int64_t{2 + problem.optimizer_words});
  }
  return states;
}

Bytes largest_memory(const Problem& problem) {
  Bytes largest;
  for (int d = 0; d < problem.cluster->num_devices(); ++d)
    largest = std::max(largest, problem.memory_of(DeviceId(d)));
  return largest;
}

// Bytes per sample of the storage of each layer's output.
std::vector<double> least_outputs(const Problem& problem) {
  const std::vector<double> own = least_output_bytes(problem);
  std::vector<double> outputs;
  for (const LayerId storage : problem.profile->storages())
    outputs.push_back(own[storage.index()]);
  return outputs;
}

// The least that is sent if the layers first..end-1 are not all on one device:
// 0 unless each reads one of the others, so that they are connected. Ends early
// with some number up to `known`, where it is not more than that.
double least_between(const Problem& problem, const std::vector<double>& outputs,
                     std::size_t first, std::size_t end, double known) {
  double least = kInfinity;
  for (std::size_t l = first + 1; l < end; ++l) {
    bool is_connected = false;
    for (LayerId input : problem.profile->layers[l].inputs)
      if (input.index() >= first) {
        is_connected = true;
        least = std::min(least, outputs[input.index()]);
      }
    if (!is_connected) return 0;
    if (least <= known) return least;
  }
  return least == kInfinity ? 0 : least;
}

}  // namespace

// Counts gradients only: the backward of a layer is where its state is, but its
// forward may be elsewhere.
double link_bound(const Problem& problem) {
  const Cluster& cluster = *problem.cluster;
  const int devices = cluster.num_devices();
  double rate = 0;
  for (int a = 0; a < devices; ++a)
    for (int b = 0; b < devices; ++b)
      if (const Link* link = cluster.link(DeviceId(a), DeviceId(b));
          a != b && link != nullptr)
        rate += link->bandwidth.value();
  const Bytes memory = largest_memory(problem);
  const std::size_t layers = problem.profile->layers.size();
  const std::vector<double> outputs = least_outputs(problem);
  double bytes = 0;
  Bytes state;
  const std::vector<Bytes> states = states_of(problem);
  // The fewest layers from each layer on that no device can hold.
  for (std::size_t first = 0, end = 0; first < layers; ++first) {
    while (end < layers && state <= memory) state += states[end++];
    if (state <= memory) break;
    bytes = std::max(bytes, least_between(problem, outputs, first, end, bytes));
    state -= states[first];
  }
  return rate > 0 ? bytes * problem.minibatch / rate : 0;
}

namespace {

struct Recomputable {
  double bytes = 0;    // freed, at most
  double seconds = 0;  // of its forward, for all samples
};

// What one microbatch keeps for backward, layer by layer.
std::vector<Recomputable> kept_of(const Problem& problem, int microbatch,
                                  const std::vector<KindTimes>& kinds) {
  const Profile& profile = *problem.profile;
  std::vector<Recomputable> kept(profile.layers.size());
  const auto sizes = sizes_at(profile, microbatch, Outside::Extrapolate);
  if (!sizes) return kept;
  const std::vector<LayerId> storage = profile.storages();
  std::vector<bool> counted(profile.layers.size(), false);
  for (std::size_t l = 0; l < kept.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    double forward = kInfinity;
    for (const KindTimes& kind : kinds)
      forward = std::min(forward, kind[l].forward);
    kept[l].seconds = forward * problem.minibatch;
    const auto add = [&](LayerId of) {
      if (!counted[of.index()])
        kept[l].bytes +=
            static_cast<double>((*sizes)[of.index()].output.value());
      counted[of.index()] = true;
    };
    kept[l].bytes += static_cast<double>((*sizes)[l].keeps_private.value());
    if (layer.keeps_output) add(storage[l]);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i]) add(storage[layer.inputs[i].index()]);
  }
  return kept;
}

bool has_one_output(const Profile& profile) {
  std::vector<bool> is_read(profile.layers.size(), false);
  for (const ProfileLayer& layer : profile.layers)
    for (LayerId input : layer.inputs) is_read[input.index()] = true;
  return std::count(is_read.begin(), is_read.end(), false) == 1;
}

}  // namespace

// If all layers lead to one output, all forwards of a microbatch are done when
// its first backward begins, and what they keep is held on some device. What
// does not fit beside the weights is recomputed, the cheapest first.
double forced_recompute(const Problem& problem, int microbatch,
                        const std::vector<KindTimes>& kinds) {
  if (!has_one_output(*problem.profile)) return 0;
  double memory = 0, held = 0;
  for (int d = 0; d < problem.cluster->num_devices(); ++d)
    memory += static_cast<double>(problem.memory_of(DeviceId(d)).value());
  for (const ProfileParameter& parameter : problem.profile->parameters)
    held += static_cast<double>(parameter.bytes.value()) *
            (2 + problem.optimizer_words);
  std::vector<Recomputable> kept = kept_of(problem, microbatch, kinds);
  for (const Recomputable& layer : kept) held += layer.bytes;
  std::sort(kept.begin(), kept.end(),
            [](const Recomputable& a, const Recomputable& b) {
              return a.seconds * b.bytes < b.seconds * a.bytes;
            });
  double seconds = 0, excess = held - memory;
  for (const Recomputable& layer : kept) {
    if (excess <= 0) break;
    if (layer.bytes <= 0) continue;
    seconds += layer.seconds * std::min(1.0, excess / layer.bytes);
    excess -= layer.bytes;
  }
  return seconds;
}

}  // namespace pipewright
