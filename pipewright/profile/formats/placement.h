// A placement instance of dnn-partitioning (Tarnawski, Phanishayee, Devanur,
// Mahajan, Nina Paravecino: "Efficient Algorithms for Device Placement of DNN
// Graph Operators", NeurIPS 2020), and a split of it over devices.
//
// Numbers are as in the source, in its unit of time; what the source calls FPGA
// is any accelerator. Solving an instance needs no profile and no cluster.

#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright {

struct PlacementNode {
  int id = 0;  // the source's
  std::string name;
  bool runs_on_accelerator = true;
  double cpu_latency = 0;
  double accelerator_latency = 0;
  bool is_backward = false;
  int color_class = -1;  // nodes of one class share a device; -1 for none
  int layer_id = -1;     // -1 if not given
  double size = 0;       // bytes on its device
  double cost = 0;       // time to move its output off or onto an accelerator
};

struct PlacementEdge {
  int source = 0;  // indices into nodes
  int dest = 0;
  double size = -1;  // bytes; -1 if not given
};

struct PlacementInstance {
  double max_size = 0;  // bytes per accelerator
  int max_accelerators = 0;
  int max_cpus = 0;
  std::vector<PlacementNode> nodes;  // topological order, ties by id
  std::vector<PlacementEdge> edges;  // ascending
};

// The nodes on one device, by the source's id. A load of -1 is unknown.
struct PlacementPart {
  double load = -1;
  std::vector<int> node_ids;
};

struct PlacementSplit {
  std::string source;  // the file
  std::vector<PlacementPart> cpus;
  std::vector<PlacementPart> accelerators;
  double max_load = -1;
};

// Fails with MalformedInput.
Result<PlacementInstance> parse_placement(std::string_view text,
                                          const std::string& file);
Result<PlacementSplit> parse_split(std::string_view text,
                                   const std::string& file);

// The load of each accelerator, then of each CPU. The load of an accelerator is
// the latency of its nodes, plus the cost of each of its nodes whose output is
// used elsewhere, plus the cost of each node elsewhere whose output it uses.
// The load of a CPU is the latency of its nodes. Fails with MalformedInput
// unless every node is on exactly one device.
Result<std::vector<double>> loads(const PlacementInstance& instance,
                                  const PlacementSplit& split);

}  // namespace pipewright
