#include "pipewright/planners/stage_list.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/infinity.h"

namespace pipewright {

Pipeline pipeline_of(const std::vector<StageShape>& stages, int microbatch,
                     const Problem& problem, Replication replication) {
  Pipeline pipeline;
  pipeline.microbatch = microbatch;
  pipeline.replication = replication;
  if (is_asynchronous(problem.method)) pipeline.schedule = "async-1f1b";
  int device = 0;
  for (const StageShape& shape : stages) {
    PipelineStage stage;
    stage.end = shape.end;
    for (int r = 0; r < shape.replicas; ++r)
      stage.devices.push_back(DeviceId(device++));
    pipeline.stages.push_back(std::move(stage));
  }
  return pipeline;
}

Pipeline pipeline_of(const std::vector<int>& ends, int microbatch,
                     const Problem& problem) {
  std::vector<StageShape> stages;
  for (int end : ends) stages.push_back({end, 1});
  return pipeline_of(stages, microbatch, problem, Replication::Split);
}

BytesPerSecond slowest_link(const Cluster& cluster, int first, int end) {
  double slowest = kInfinity;
  for (int a = first; a < end; ++a)
    for (int b = first; b < end; ++b)
      if (const Link* link = cluster.link(DeviceId(a), DeviceId(b));
          a != b && link != nullptr)
        slowest = std::min(slowest, link->bandwidth.value());
  return BytesPerSecond(slowest);
}

Levels levels_of(const Cluster& cluster) {
  Levels levels;
  const int devices = cluster.num_devices(), hosts = cluster.num_hosts();
  levels.inner = devices;
  levels.inner_bandwidth = slowest_link(cluster, 0, devices);
  levels.outer_bandwidth = levels.inner_bandwidth;
  if (hosts < 2 || devices % hosts != 0) return levels;
  const int size = devices / hosts;
  for (int d = 0; d < devices; ++d)
    if (cluster.devices()[at(d)].host != d / size) return levels;
  levels.inner = size;
  levels.outer = hosts;
  double inner = kInfinity;
  for (int host = 0; host < hosts; ++host)
    inner = std::min(
        inner, slowest_link(cluster, host * size, (host + 1) * size).value());
  levels.inner_bandwidth = BytesPerSecond(inner);
  return levels;
}

int leading_kind(const Cluster& cluster) {
  return cluster.devices().front().kind;
}

}  // namespace pipewright
