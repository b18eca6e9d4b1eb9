// The two kinds of files of PipeDream (Narayanan et al., "PipeDream:
// Generalized Pipeline Parallelism for DNN Training", SOSP 2019): the layer
// graph its profiler writes, which DAPPLE uses too, and the plan its runtime
// reads. The grammar of the graph, one line each, edges after all nodes:
//
//   node := ID -- DESC -- forward_compute_time=F, backward_compute_time=F,
//           activation_size=A, parameter_size=F [-- stage_id=INT]
//   edge := INDENT ID -- ID
//   A    := F | [F; F; ...]

#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/profile/formats/published_plan.h"

namespace pipewright {

struct PipeDreamNode {
  std::string id;
  std::string description;
  double forward_ms = 0;
  double backward_ms = 0;
  double activation_bytes = 0;  // the sum, if it is a tuple
  double parameter_bytes = 0;
  int stage = -1;  // -1 if not given
};

struct PipeDreamGraph {
  std::vector<PipeDreamNode> nodes;  // ascending in id, "node9" < "node10"
  std::vector<std::pair<int, int>> edges;  // indices into nodes, ascending
};

// Fails with MalformedInput: file:line and what was expected there.
Result<PipeDreamGraph> parse_pipedream_graph(std::string_view text,
                                             const std::string& file);

// module_to_stage_map, stage_to_rank_map and optionally stage_to_depth_map.
Result<PublishedPlan> parse_pipedream_plan(std::string_view text,
                                           const std::string& file);

}  // namespace pipewright
