// Plans for other systems: each exporter writes what one of them takes, or
// refuses and names what it cannot express. One file per exporter.

#pragma once

#include <string>
#include <vector>

#include "cli/export/planned_model.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"

namespace pipewright::cli {

struct ExportedFile {
  std::string name;  // "schedule.csv"
  std::string text;
};

struct ExportedPlan {
  std::vector<ExportedFile> files;
  Json facts = Json::object();  // for --json: "split_points", ...
};

struct PlanExporter {
  const char* name;  // as --to takes it
  Result<ExportedPlan> (*write)(const PlannedModel& model);
};

// Each fails with BadConfiguration where the system cannot run the plan.
Result<ExportedPlan> to_torch(const PlannedModel& model);
Result<ExportedPlan> to_megatron(const PlannedModel& model);
Result<ExportedPlan> to_deepspeed(const PlannedModel& model);
Result<ExportedPlan> to_torchtitan(const PlannedModel& model);
Result<ExportedPlan> to_plain_json(const PlannedModel& model);

}  // namespace pipewright::cli
