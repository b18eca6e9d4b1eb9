// DAPPLE's three ways to place a stage on partly used hosts, and the bandwidths
// that follow (dapple.cc names the paper). Devices are in groups of equal size;
// no group spans two hosts.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

// The names are the paper's.
enum class DapplePlacement {
  FreshFirst,   // unused hosts: a stage's replicas are on one host
  AppendFirst,  // partly used hosts: leaves no host with few devices
  ScatterFirst  // one group of each host in turn: stages share hosts
};

class DappleHosts {
 public:
  // The smallest groups that make at most `max_groups`. If hosts cannot be
  // divided into such groups, the cluster counts as one host.
  DappleHosts(const Cluster& cluster, int max_groups);

  using Groups = std::vector<int>;  // by host
  int num_groups() const { return num_groups_; }
  int group_size() const { return size_; }
  Groups none() const { return Groups(counts_.size(), 0); }

  // The hosts of `count` more groups; at least as many must be unused.
  Groups placed(const Groups& used, int count, DapplePlacement placement) const;
  Groups rest(const Groups& used) const;

  // The slowest link between devices of these hosts, and between two stages.
  double inside(const Groups& taken) const;
  double between(const Groups& from, const Groups& to) const;

  // How many links two stages use at once: one per host where they are on
  // different hosts, because the devices of a host share its network card;
  // else one per replica of the smaller stage.
  double streams(const Groups& from, const Groups& to) const;

  // Of each host the devices after the used ones.
  std::vector<DeviceId> devices(const Groups& used, const Groups& taken) const;

 private:
  double& bandwidth(std::size_t a, std::size_t b) {
    return bandwidth_[a * counts_.size() + b];
  }
  double bandwidth(std::size_t a, std::size_t b) const {
    return bandwidth_[a * counts_.size() + b];
  }

  int size_ = 1, num_groups_ = 0;
  Groups counts_;
  std::vector<std::vector<DeviceId>> devices_;  // by host
  std::vector<double> bandwidth_;  // slowest between each pair of hosts
};

}  // namespace pipewright
