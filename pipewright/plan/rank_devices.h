// Which device of a cluster each rank is on. A rank is a process of a training
// that mpirun or srun started; rank i runs worker i.
//
// The part of a device's name before the slash is its host, as in "node7/gpu0",
// unless it is host0, host1 and so on, which only tell hosts apart.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/plan/plan.h"

namespace pipewright {

// Checks that each rank runs on the host of its worker's device. `hosts` has
// the host of every rank. Fails with BadConfiguration.
Result<void> check_hosts(const Cluster& cluster, const Plan& plan,
                         const std::vector<std::string>& hosts);

// A device for each rank, on a host of the rank's host's name. Hosts that the
// cluster does not name are taken in order, those with as many devices as the
// host has ranks first. Fails with BadConfiguration if there are not as many.
Result<std::vector<DeviceId>> devices_of_ranks(
    const Cluster& cluster, const std::vector<std::string>& hosts);

// Where the GPUs of this rank begin among those that it sees: after those of
// the ranks before it that see the same ones. A rank to which the launcher gave
// GPUs of its own has the first of them. `kinds` and `gpus` are those of every
// rank: the kind of its worker's device, and the GPUs that it sees.
int first_gpu_of_rank(const std::vector<std::string>& kinds,
                      const std::vector<std::string>& gpus, int rank);

// Checks that workers that see the same GPUs divide them in one way: two of
// cuda/2 and cuda/4 would overlap. `kinds` and `gpus` are as above. Fails with
// BadConfiguration, naming the first worker that differs.
Result<void> check_gpu_kinds(const std::vector<std::string>& kinds,
                             const std::vector<std::string>& gpus);

// What trains a plan whose devices are not here: a hint for a machine with so
// many GPUs.
std::string other_devices(int num_workers, int num_gpus);

// The plan with worker i on device i of the cluster, for all of its devices.
// Workers on devices that the plan leaves out do nothing. Fails with
// BadConfiguration if two workers are on one device.
Result<Plan> with_worker_per_device(const Plan& plan, const Cluster& cluster);

}  // namespace pipewright
