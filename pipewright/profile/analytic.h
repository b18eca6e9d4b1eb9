// A roofline estimate of what layers cost, from the model and the device kind
// alone. For planning on hardware that is not available.
//
//   forward         = overhead + max(FLOPs / achievable, bytes / bandwidth)
//   input gradient  = the same with its own FLOPs; 0 if none is needed
//   weight gradient = the same with its own FLOPs; 0 without parameters
//   update          = overhead + 5 x parameter bytes / bandwidth (momentum SGD
//                     reads weight, gradient and momentum and writes two of
//                     them); 10 x for weights of two bytes, which have float32
//                     masters and momentum; a tied parameter counts at its
//                     first user only
//
// Either gradient moves as many bytes as forward. Bandwidth is a share of the
// nominal one. The assumptions are written into the profile's origin.
//
// FPGAs have two tables (tiers.h): "KIND" with everything in DDR, and
// "KIND/on-chip" for stages whose weights and features fit on chip.

#pragma once

#include <span>
#include <string>

#include "pipewright/cluster/cluster.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct AnalyticOptions {
  std::string number_type;  // "float16"; empty: the model's
  double bandwidth_share = 0.8;
};

// The model's graph without sizes or times: layers, what is kept for backward,
// views, parameters with ties. The profiler starts from it as well.
Profile profile_graph(const Model& model);
// The bytes of each layer's tensors at one microbatch size.
std::vector<LayerSizes> model_sizes(const Model& model, int microbatch);
// Removes the model's inputs from the sizes in a profile of the model: what
// layers keep of them, and views of them. For runs whose samples are in memory
// anyway, so that layers have no copies.
void leave_out_samples(const Model& model, Profile& profile);

// Fails with BadConfiguration: an invalid microbatch size, a kind without a
// rate, a number beyond the limits of a profile.
Result<Profile> analytic_profile(const Model& model,
                                 std::span<const DeviceKind> kinds,
                                 std::span<const int> microbatches,
                                 const AnalyticOptions& options = {});

}  // namespace pipewright
