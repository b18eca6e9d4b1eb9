// A plan published by another system, with measurements.
//
// Layers are numbered as in the source (PipeDream: its runtime modules; Sailor:
// its profile's layers; Galvatron: transformer layers), so it can be compared
// with a profile only if both come from the same source.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

struct PublishedStage {
  std::vector<int> layers;
  std::vector<int> workers;          // of its replicas, if given
  int replicas = 1;                  // data-parallel copies
  std::vector<std::string> devices;  // kind of each replica, if given
  std::vector<std::string> zones;    // of each replica, if given
  std::vector<int> gpus;             // of each replica, if given
  std::vector<int> tensor_parallel;  // one per layer (Galvatron) or replica
  std::vector<bool> recompute;       // one per layer, if given
  std::vector<bool> shards_weights;  // one per layer, if given
};

struct PublishedPlan {
  std::string source;  // the file
  std::vector<PublishedStage> stages;
  std::vector<int> depths;  // PipeDream's stage_to_depth_map, if given
  int minibatch = 0;        // samples; 0 if not given
  int microbatch = 0;       // samples; 0 if not given
  int microbatches = 0;     // 0 if not given
  int hosts = 0;            // 0 if not given
  std::string schedule;     // the name in the source, if given
  // What replicas share of layers without shards_weights, in the source's word:
  // "ddp" nothing, "zero2" gradients and optimizer state, "zero3" weights too.
  std::string data_parallel_type;
  // How its runtime works, where the plan alone decides it.
  bool is_asynchronous = false;  // minibatches overlap, weights are stashed
  bool rotates = false;          // replicas take turns, none splits samples
  bool blocks = false;           // workers wait for each send and receive
  int optimizer_words = 1;       // state per weight
  // What its runtime takes of one GPU beside the program: context, kernels,
  // libraries. By kind of group (group_kind).
  std::map<std::string, Bytes> base_memory;
  // What its runtime takes for the gradients of a layer in each backward.
  Seconds gradient_overhead;
  // Layers of the profile before the first and after the last that the plan
  // numbers.
  int layers_before = 0, layers_after = 0;
  std::optional<Seconds> measured_step;
  std::optional<Seconds> measured_reduce;  // gradients over replicas
  std::optional<Bytes> measured_memory;    // the fullest device
  std::vector<std::string> not_measured;   // measurements without a number
  std::vector<std::string> unread;         // keys that are not read
  std::vector<std::string> notes;          // what does not fit together
};

}  // namespace pipewright
