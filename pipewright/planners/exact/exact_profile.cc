#include "pipewright/planners/exact/exact_profile.h"

#include <algorithm>
#include <set>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

Seconds slowest_transfer(const Cluster& cluster, Bytes bytes) {
  Seconds slowest;
  for (const Link& link : cluster.links())
    slowest = std::max(slowest, link.latency + bytes / link.bandwidth);
  return slowest;
}

// Seconds of forward and backward on the slowest kind.
Result<std::vector<double>> slowest_times(const Problem& problem,
                                          int microbatch) {
  std::vector<double> slowest(problem.profile->layers.size(), 0);
  for (const Device& device : problem.cluster->devices()) {
    const DeviceKind& kind = problem.cluster->kinds()[at(device.kind)];
    PIPEWRIGHT_TRY(const std::vector<LayerTimes> times,
                   times_at(*problem.profile, kind.name, microbatch,
                            Outside::Extrapolate));
    for (std::size_t l = 0; l < times.size(); ++l)
      slowest[l] = std::max(slowest[l],
                            (times[l].forward + times[l].backward()).value());
  }
  return slowest;
}

void add_sizes(const Problem& problem, const std::vector<LayerSizes>& sizes,
               const std::vector<LayerId>& storage, ChainProblem& chain) {
  const Profile& profile = *problem.profile;
  std::vector<bool> kept(storage.size(), false);
  for (std::size_t l = 0; l < storage.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    ChainNode& node = chain.nodes[l];
    // Weights, their gradients, and the optimizer's state.
    node.size =
        static_cast<double>(profile.parameter_bytes(LayerId(l)).value()) *
        (2 + problem.optimizer_words);
    node.kept = static_cast<double>(sizes[l].keeps_private.value());
    const auto keep = [&](LayerId s) {
      if (kept[s.index()]) return;
      kept[s.index()] = true;
      node.kept += static_cast<double>(sizes[s.index()].output.value());
    };
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (layer.keeps_input[i]) keep(storage[layer.inputs[i].index()]);
    if (layer.keeps_output) keep(storage[l]);
  }
}

void add_tensors(const Problem& problem, const std::vector<LayerSizes>& sizes,
                 const std::vector<LayerId>& storage, ChainProblem& chain) {
  std::vector<std::set<int>> touched(storage.size());
  for (std::size_t l = 0; l < storage.size(); ++l)
    for (LayerId input : problem.profile->layers[l].inputs) {
      const LayerId s = storage[input.index()];
      touched[s.index()].insert({s.value, input.value, static_cast<int>(l)});
      chain.order.emplace_back(static_cast<int>(l), input.value);
    }
  for (std::size_t s = 0; s < storage.size(); ++s)
    if (touched[s].size() > 1)
      chain.tensors.push_back(
          {2 * slowest_transfer(*problem.cluster, sizes[s].output).value(),
           {touched[s].begin(), touched[s].end()}});
}

}  // namespace

Result<ChainProblem> chain_problem(const Problem& problem, int microbatch) {
  PIPEWRIGHT_TRY(const std::vector<double> times,
                 slowest_times(problem, microbatch));
  PIPEWRIGHT_TRY(const std::vector<LayerSizes> sizes,
                 sizes_at(*problem.profile, microbatch, Outside::Extrapolate));
  ChainProblem chain;
  chain.num_accelerators = problem.cluster->num_devices();
  Bytes limit = Bytes::max();
  for (int d = 0; d < chain.num_accelerators; ++d)
    limit = std::min(limit, problem.memory_of(DeviceId(d)));
  chain.limit = static_cast<double>(limit.value());
  if (!is_asynchronous(problem.method))
    chain.max_kept = std::max(1, problem.minibatch / microbatch);
  for (double time : times) chain.nodes.push_back({time, kNever, 0, 0});
  const std::vector<LayerId> storage = problem.profile->storages();
  add_sizes(problem, sizes, storage, chain);
  add_tensors(problem, sizes, storage, chain);
  return chain;
}

}  // namespace pipewright
