// An instance of Piper (Tarnawski, Narayanan, Phanishayee: "Piper:
// Multidimensional Planner for DNN Parallelization", NeurIPS 2021): for each
// layer and tensor-parallel degree, the alternatives to run it.
//
// Numbers are as in the source. A stage's memory is A x in-flight + B.

#pragma once

#include <map>
#include <string>
#include <vector>

namespace pipewright {

// One alternative to run a layer at one degree: "vanilla", "activation recomp".
struct PiperAlternative {
  std::string id;
  double time_per_sample = 0;  // forward and backward
  double parameter_bytes = 0;
  double memory_a = 0;
  double memory_b = 0;
  // By the neighbour's index: the time that is added if that neighbour has
  // another degree.
  std::map<int, double> sync_forward;
  std::map<int, double> sync_backward;
};

struct PiperNode {
  int id = 0;
  std::string name;
  std::map<int, std::vector<PiperAlternative>> alternatives;  // by degree
};

struct PiperEdge {
  int source = 0;  // indices into nodes
  int dest = 0;
  double bytes = 0;
};

struct PiperInstance {
  int max_devices = 0;
  double max_memory_bytes = 0;
  double bandwidth = 0;          // bytes per second
  int microbatches = 0;          // mbsInBatch
  std::vector<PiperNode> nodes;  // topological order
  std::vector<PiperEdge> edges;
};

}  // namespace pipewright
