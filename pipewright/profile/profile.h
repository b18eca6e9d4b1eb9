// What each layer costs on each kind of device at each microbatch size: all
// that planning and simulating need to know about a model.
//
// A profile contains its own graph, so that an imported profile, whose layers
// we cannot run, is planned like one of our own models. Its numbers are
// measured, estimated (analytic.h) or imported (formats/); `origin` says which.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

struct LayerTimes {
  Seconds forward;
  Seconds backward_input;
  Seconds backward_weight;
  Seconds update;  // once per optimizer step, not per microbatch

  Seconds backward() const { return backward_input + backward_weight; }
  auto operator<=>(const LayerTimes&) const = default;
};

// Bytes of one layer for one microbatch.
struct LayerSizes {
  Bytes output;
  Bytes keeps_private;  // kept for backward in addition to inputs and output
  Bytes workspace;      // needed only while it computes
  // From the input gradients to the weight gradients of the same microbatch.
  Bytes carried{};

  auto operator<=>(const LayerSizes&) const = default;
};

struct ProfileParameter {
  std::string name;
  Bytes bytes;

  bool operator==(const ProfileParameter&) const = default;
};

struct ProfileLayer {
  std::string name;
  std::string kind;               // "conv2d", or the name in the imported file
  std::vector<LayerId> inputs;    // layers only, without model inputs
  std::vector<bool> keeps_input;  // for backward, one per input
  bool keeps_output = false;
  bool keeps_model_input = false;  // its bytes are part of keeps_private
  bool output_is_view = false;     // shares its first input's storage
  bool passes_gradient = false;    // as in LayerCost
  bool mixes_samples = false;      // as in LayerCost
  std::vector<ParameterId>
      parameters;  // shared ones in every layer that uses them

  bool operator==(const ProfileLayer&) const = default;
};

struct ProfileOrigin {
  std::string source;               // "measured", "analytic", "pipedream", ...
  std::string description;          // files, assumptions, machine
  bool split_is_estimated = false;  // backward was given as one number
  bool keeps_is_estimated = false;  // what backward keeps was not given

  bool operator==(const ProfileOrigin&) const = default;
};

class Profile {
 public:
  std::string model;  // as MODEL on the command line
  ProfileOrigin origin;
  std::vector<ProfileLayer> layers;  // topological order
  std::vector<ProfileParameter> parameters;

  // sizes[microbatch][layer]; times[kind][microbatch][layer].
  std::map<int, std::vector<LayerSizes>> sizes;
  std::map<std::string, std::map<int, std::vector<LayerTimes>>> times;

  int num_layers() const { return static_cast<int>(layers.size()); }
  bool has_weights(LayerId layer) const {
    return !layers[layer.index()].parameters.empty();
  }
  Bytes parameter_bytes(LayerId layer) const;
  Bytes parameter_bytes() const;  // each parameter once
  // Per layer, the layer that owns the storage of its output: itself unless a
  // view.
  std::vector<LayerId> storages() const;

  // Fails with MalformedInput and lists everything that is wrong, unless layers
  // and parameters have unique names, inputs precede users, every table has one
  // entry per layer, and every number is finite, not negative and within the
  // limits below.
  Result<void> check(const std::string& where) const;

  bool operator==(const Profile&) const = default;
};

// Beyond any real model, and small enough that no sum overflows.
inline constexpr int kMaxLayers = 1 << 16;  // and parameters
inline constexpr int kMaxMicrobatch = 1 << 30;
inline constexpr Bytes kMaxSize{1LL << 46};
inline constexpr Seconds kMaxTime{1e9};

// If backward was given as one number, its split into two halves is estimated
// (origin.split_is_estimated): all for the weights if no input needs a
// gradient, all for the inputs if there are no parameters, otherwise half each.
// The halves add up to the number exactly, and the file keeps the one number.
void set_backward(LayerTimes& times, Seconds backward,
                  const ProfileLayer& layer);

// Costs at one microbatch size, one row per layer. Between two profiled sizes
// they are interpolated. Outside they fail with BadConfiguration unless
// extrapolation is requested: above, in proportion; below, on the line through
// the two smallest sizes, or in proportion if there is only one. The update
// does not depend on the size.
enum class Outside {
  Refuse,
  Extrapolate
};
Result<std::vector<LayerTimes>> times_at(const Profile& profile,
                                         const std::string& kind,
                                         int microbatch,
                                         Outside outside = Outside::Refuse);
Result<std::vector<LayerSizes>> sizes_at(const Profile& profile, int microbatch,
                                         Outside outside = Outside::Refuse);

// The file "pipewright/profile", version 1. Layers are named, and every column
// has one number per layer:
//
//   "layers": [{"name": "conv1", "kind": "conv2d", "inputs": [], ...}, ...],
//   "sizes": [{"microbatch": 32, "output_bytes": [...], ...}],
//   "times": [{"device": "V100", "microbatch": 32, "forward_seconds": [...],
//              "backward_input_seconds": [...], ...}]
//
// A table may give "backward_seconds" instead of its two halves; set_backward()
// then splits it, and origin says so. Columns of zeros (update, keeps_private,
// workspace, carried) may be omitted.
Result<Profile> parse_profile(std::string_view text, const std::string& file);
std::string to_text(const Profile& profile);

}  // namespace pipewright
