// A plan as another system published it, with what was measured of it.
//
// Layers are counted as the source counts them (PipeDream: its runtime modules;
// Sailor: its profile's layers; Galvatron: transformer layers), so it is held
// against a profile only where both come from the same source.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

struct PublishedStage {
  std::vector<int> layers;
  std::vector<int> ranks;            // of its replicas, where numbered
  int replicas = 1;                  // data-parallel copies
  std::vector<std::string> devices;  // kind of each replica, where given
  std::vector<int> tensor_parallel;  // one per layer (Galvatron) or replica
  std::vector<bool> recompute;       // one per layer, where given
  std::vector<bool> shards_weights;  // one per layer, where given
};

struct PublishedPlan {
  std::string source;  // the file
  std::vector<PublishedStage> stages;
  std::vector<int> depths;  // PipeDream's stage_to_depth_map, where given
  int minibatch = 0;        // samples; 0 where not given
  int microbatch = 0;       // samples; 0 where not given
  int microbatches = 0;     // 0 where not given
  std::string schedule;     // the source's word, where given
  std::optional<Seconds> measured_step;
  std::optional<Seconds> measured_reduce;  // gradients over replicas
  std::optional<Bytes> measured_memory;    // the fullest device
};

}  // namespace pipewright
