// Chains of layers and clusters with made-up figures, for tests of BaPipe.

#pragma once

#include <random>
#include <string>
#include <vector>

#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/planners/planner.h"

namespace pipewright::test {

struct ChainLayer {
  double forward = 1, backward = 2;
  std::int64_t output = 0, weights = 0, kept = 0;
};

// Times on kind "k0"; further kinds are slower by the factors given.
inline Profile chain_profile(const std::vector<ChainLayer>& layers,
                             const std::vector<double>& slower = {1.0}) {
  Profile profile;
  profile.model = "chain";
  for (std::size_t l = 0; l < layers.size(); ++l) {
    const ChainLayer& from = layers[l];
    ProfileLayer layer;
    layer.name = "layer" + std::to_string(l);
    layer.kind = "linear";
    if (l > 0) {
      layer.inputs = {LayerId(l - 1)};
      layer.keeps_input = {false};
    }
    layer.parameters = {ParameterId(l)};
    profile.layers.push_back(layer);
    profile.parameters.push_back({layer.name + ".weight", Bytes(from.weights)});
    profile.sizes[1].push_back(
        {Bytes(from.output), Bytes(from.kept), Bytes(0)});
    for (std::size_t k = 0; k < slower.size(); ++k)
      profile.times["k" + std::to_string(k)][1].push_back(
          {Seconds(from.forward * slower[k]), Seconds(0),
           Seconds(from.backward * slower[k]), Seconds(0)});
  }
  return profile;
}

struct ChainCluster {
  std::vector<int> kinds;                                      // of each device
  std::vector<std::int64_t> memory = {std::int64_t{1} << 40};  // of each kind
  double bandwidth = 1e30, latency = 0;
  ExecutionClass execution = ExecutionClass::Sync;
  bool splits_layers = false;
};

inline Cluster chain_cluster(const ChainCluster& of) {
  ClusterBuilder builder("test");
  for (std::size_t k = 0; k < of.memory.size(); ++k) {
    DeviceKind kind;
    kind.name = "k" + std::to_string(k);
    kind.memory = Bytes(of.memory[k]);
    kind.memory_bandwidth = BytesPerSecond(1);
    kind.execution = of.execution;
    kind.splits_layers = of.splits_layers;
    builder.add_kind(kind);
  }
  std::vector<DeviceId> ids;
  for (std::size_t d = 0; d < of.kinds.size(); ++d)
    ids.push_back(
        builder.add_device({"d" + std::to_string(d), of.kinds[d], 0}));
  Link link;
  link.bandwidth = BytesPerSecond(of.bandwidth);
  link.latency = Seconds(of.latency);
  builder.connect(ids, ids, link);
  return *builder.build();
}

inline Problem problem_of(const Profile& profile, const Cluster& cluster,
                          int minibatch) {
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = minibatch;
  problem.microbatches = {1};
  problem.optimizer_words = 0;
  problem.estimate = simulating_estimator(profile, cluster);
  return problem;
}

inline std::vector<ChainLayer> random_chain(int num_layers,
                                            std::mt19937& random) {
  std::vector<ChainLayer> layers;
  const auto upto = [&](unsigned n) { return double(1 + random() % n); };
  for (int l = 0; l < num_layers; ++l)
    layers.push_back({upto(9), upto(20), std::int64_t(upto(50)),
                      std::int64_t(upto(40)), std::int64_t(upto(30))});
  return layers;
}

}  // namespace pipewright::test
