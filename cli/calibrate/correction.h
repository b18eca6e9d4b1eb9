// What a cluster file may lack, as a few numbers that apply to all its devices
// and links, and the cluster with them.

#pragma once

#include <array>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"

namespace pipewright::cli {

// The parameters that change times. Of two that explain about as much, the
// first is fitted.
enum class Parameter {
  LayerOverhead,     // layers take this share longer than profiled
  ActionOverhead,    // seconds per compute action
  StepOverhead,      // seconds per step
  GradientOverhead,  // seconds per backward of a layer with weights
  Overlap,           // 0 to 1
  LinkRate,          // as a multiple of what the cluster says
};
inline constexpr std::array kParameters = {
    Parameter::LayerOverhead, Parameter::ActionOverhead,
    Parameter::StepOverhead,  Parameter::GradientOverhead,
    Parameter::Overlap,       Parameter::LinkRate};

struct Correction {
  double layer_overhead = 0;  // added to the kinds' own, as the next three
  Seconds gradient_overhead;
  Seconds action_overhead;
  Seconds step_overhead;
  double overlap = -1;  // of every kind; below 0: unchanged
  double link_rate = 1;
  Bytes base_memory;  // added to the kinds' own, as the next
  double fragmentation = 0;
};

void set(Correction& correction, Parameter parameter, double value);
double value_of(const Correction& correction, Parameter parameter);
// "layer_overhead", as in --json.
std::string name_of(Parameter parameter);
// "layers take 4 % longer than profiled".
std::string parameter_text(const Correction& correction, Parameter parameter);

// Fails as ClusterBuilder does.
Result<Cluster> corrected(const Cluster& cluster, const Correction& correction);

}  // namespace pipewright::cli
