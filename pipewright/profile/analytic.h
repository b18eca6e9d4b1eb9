// What layers would cost, estimated from the model and the device alone: the
// roofline. For plans on machines one does not have at hand.
//
//   forward         = overhead + max(FLOPs / achievable, bytes / bandwidth)
//   input gradient  = the same with its own FLOPs; 0 where none is needed
//   weight gradient = the same with its own FLOPs; 0 without parameters
//   update          = overhead + 5 x parameter bytes / bandwidth (momentum SGD
//                     reads weight, gradient and momentum, writes two of them);
//                     of a tied parameter, at its first user only
//
// Either gradient moves as many bytes as forward does. Bandwidth is a share of
// the nominal. The assumptions are written into the profile's origin.
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
  std::string number_type;  // "float16"; empty: what the model says
  double bandwidth_share = 0.8;
};

// The model's graph without sizes or times: layers, what backward keeps, views,
// parameters with their ties. Measuring starts from it, too.
Profile profile_graph(const Model& model);
// What each layer's tensors take at one microbatch size.
std::vector<LayerSizes> model_sizes(const Model& model, int microbatch);
// Takes the model's inputs out of the sizes of a profile of the model: what
// layers keep of them, and views of them. Where samples are in memory anyway,
// layers have no copies.
void leave_out_samples(const Model& model, Profile& profile);

// Fails with BadConfiguration: a microbatch size that cannot be, a kind without
// a rate, a figure past the limits of a profile.
Result<Profile> analytic_profile(const Model& model,
                                 std::span<const DeviceKind> kinds,
                                 std::span<const int> microbatches,
                                 const AnalyticOptions& options = {});

}  // namespace pipewright
