// The cluster on which a plan of another system ran, from what its files say of
// machines and networks.
//
// One device per replica of a stage: a GPU, or a group of tensor-parallel GPUs
// with the memory and the links of the group. Groups fill hosts in the order of
// stages, then replicas; each host has GPUs of one kind. Where the plan says
// how many hosts it had, each gets equally many GPUs, if that is possible.
// Within a host two groups send each other messages at the rate that was
// measured with as many GPUs as both have; replicas sum gradients at that of
// all GPUs which the host has of their stage.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright::cli {

// A replica of a stage.
struct PublishedGroup {
  std::string kind;  // of its GPUs
  int degree = 1;    // how many of them share each layer
  std::string zone;
  int stage = 0;
};

struct PublishedHosts {
  Cluster cluster;
  std::vector<std::string> notes;  // what is not as the source says
};

// In the order of stages, then replicas: device 0, 1, ... of the cluster.
// `kind` stands for devices that the plan does not name. Fails with
// BadConfiguration where a group cannot be one device.
Result<std::vector<PublishedGroup>> groups_of(const PublishedPlan& plan,
                                              const std::string& kind);

// Fails with BadConfiguration where the files give no memory of a kind, or no
// rate of a link.
Result<PublishedHosts> published_cluster(
    const Imported& imported, const PublishedPlan& plan,
    const std::vector<PublishedGroup>& groups);

// The devices of a source that has no plan (Piper), each pair with a link.
Result<Cluster> published_cluster(const ImportedDevices& devices,
                                  const std::string& source);

}  // namespace pipewright::cli
