// Steps that were measured: the file "pipewright/runs", version 1, which
// `pipewright calibrate` reads.
//
//   {"format": "pipewright/runs", "version": 1, "runs": [
//     {"plan": "plan.json", "profile": "profile.json",
//      "cluster": "cluster.json", "step_seconds": 0.81,
//      "memory_bytes": 12500000000}
//   ]}

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

// Names of files are as in the file: relative to its folder.
struct RunRecord {
  std::string plan;
  std::string profile;  // "" if not given
  std::string cluster;  // "" if not given
  Seconds step;
  std::optional<Bytes> memory;  // of the device with the most in use
};

// Fails with MalformedInput.
Result<std::vector<RunRecord>> parse_runs(std::string_view text,
                                          const std::string& file);

}  // namespace pipewright
