// DAPPLE's three ways to place a stage on hosts of which others use a part
// already, and the bandwidths that follow (dapple.cc names the paper). Devices
// come in groups of equal size, none of which spans two hosts.

#pragma once

#include <vector>

#include "pipewright/cluster/cluster.h"

namespace pipewright {

enum class DapplePlacing {
  FreshFirst,   // hosts that nobody uses yet: a stage near itself
  AppendFirst,  // hosts in use: none is left with a few devices
  ScatterFirst  // one group of each host in turn: stages side by side
};

class DappleHosts {
 public:
  // As few devices a group as make at most that many groups. Where hosts cannot
  // be divided like that the cluster counts as one host.
  DappleHosts(const Cluster& cluster, int most_groups);

  using Groups = std::vector<int>;  // by host
  int num_groups() const { return num_groups_; }
  int group_size() const { return size_; }
  Groups none() const { return Groups(counts_.size(), 0); }

  // What `count` more groups would be; `used` has at least as many left.
  Groups placed(const Groups& used, int count, DapplePlacing way) const;
  Groups rest(const Groups& used) const;

  // The slowest link among devices of these hosts, and between two stages.
  double inside(const Groups& taken) const;
  double between(const Groups& from, const Groups& to) const;

  // Of each host those behind the used ones.
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
  std::vector<double> bandwidth_;               // slowest, host by host
};

}  // namespace pipewright
