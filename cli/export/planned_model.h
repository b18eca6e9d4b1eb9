// A plan and the layers it is about, as modules: what exporters start from.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {

struct PlannedModel {
  Plan plan;
  Profile profile;  // layers and their inputs; its costs are not used

  // Whether layers are named after modules of PyTorch: the model was exported.
  bool has_module_paths() const;
};

// Reads a plan and its layers: of the profile, of the model, or of the model
// that the plan names.
Result<PlannedModel> load_planned_model(const std::string& plan_file,
                                        const std::string& profile,
                                        const std::string& model);

// The module that a layer is a part of: "blocks.2" of "blocks.2/add", "block3"
// of the built-in "block3.norm1"; the layer's own name otherwise.
std::string module_of(const std::string& layer);

using StageModules = std::vector<std::vector<std::string>>;  // per stage

// The modules of each stage, in order. Fails with BadConfiguration unless
// stages are consecutive runs of whole modules; `system` is who needs that.
Result<StageModules> modules_of_stages(const PlannedModel& model,
                                       const std::string& system);

// What a stage has of a stack of equal blocks, with what is before and after
// it.
struct StageBlocks {
  bool has_embedding = false;
  int first = 0, num_blocks = 0;
  bool has_head = false;
};

// Fails with BadConfiguration unless the model is one stack of numbered blocks
// with everything before it on the first stage and everything after on the
// last.
Result<std::vector<StageBlocks>> blocks_of_stages(const StageModules& stages,
                                                  const std::string& system);

}  // namespace pipewright::cli
