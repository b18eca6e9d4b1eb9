// torchtitan: the part of its configuration file that places modules, and the
// schedule as CSV where it has no name there. docs/reference/formats/exports.md
// cites them.

#include "cli/export/exporter.h"
#include "cli/export/plan_limits.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/schedule/schedule_csv.h"

namespace pipewright::cli {
namespace {

const std::string kTitan = "torchtitan";

struct TitanName {
  const char* ours;
  const char* theirs;
};
constexpr TitanName kTitanNames[] = {{"1f1b", "1F1B"},
                                     {"gpipe", "GPipe"},
                                     {"interleaved", "Interleaved1F1B"},
                                     {"looped-bfs", "LoopedBFS"},
                                     {"zb-v", "ZBVZeroBubble"},
                                     {"dualpipev", "DualPipeV"}};

// The name of a schedule there; "" for an order of our own.
std::string titan_schedule(const Plan& plan) {
  for (const TitanName& name : kTitanNames)
    if (!order_among(plan, {name.ours}).empty()) return name.theirs;
  return "";
}

// Built-in models have no module paths: they get those of torchtitan's own
// language models.
Result<StageModules> titan_modules(const PlannedModel& model) {
  PIPEWRIGHT_TRY(StageModules stages, modules_of_stages(model, kTitan));
  if (model.has_module_paths()) {
    std::erase(stages.back(), "loss");
    return stages;
  }
  PIPEWRIGHT_TRY(const std::vector<StageBlocks> shares,
                 blocks_of_stages(stages, kTitan));
  StageModules named;
  for (const StageBlocks& share : shares) {
    std::vector<std::string>& own = named.emplace_back();
    if (share.has_embedding) own.emplace_back("tok_embeddings");
    for (int b = 0; b < share.num_blocks; ++b)
      own.push_back("layers." + std::to_string(share.first + b));
    if (!share.has_head) continue;
    own.emplace_back("norm");
    own.emplace_back("output");
  }
  return named;
}

Json modules_json(const StageModules& stages) {
  Json list = Json::array();
  for (const auto& modules : stages) {
    Json names = Json::array();
    for (const std::string& name : modules) names.push(name);
    list.push(std::move(names));
  }
  return list;
}

}  // namespace

Result<ExportedPlan> to_torchtitan(const PlannedModel& model) {
  const Plan& plan = model.plan;
  if (auto fine = check_synchronous(plan, kTitan); !fine) return fine.error();
  PIPEWRIGHT_TRY(const int replicas, equal_replicas(plan, kTitan));
  PIPEWRIGHT_TRY(const bool recomputes, recomputes_everywhere(plan, kTitan));
  PIPEWRIGHT_TRY(const StageModules stages, titan_modules(model));
  const std::string name = titan_schedule(plan);
  ExportedPlan written;
  std::string csv;
  if (name.empty()) {
    if (replicas > 1)
      return bad_configuration(
          kTitan + " has no name for the plan's order (" + plan.schedule_name +
              "), and a CSV has no replicas",
          "plan with --planner balanced, which uses 1f1b, or without replicas");
    PIPEWRIGHT_TRY(const CsvGrid grid, grid_of(plan.schedule));
    written.files.push_back({"schedule.csv", to_csv(grid)});
    csv = "pipeline_parallel_schedule_csv = \"schedule.csv\"\n";
  }
  const std::string shown = name.empty() ? "PipelineScheduleMulti" : name;
  const std::string text =
      "# " + counted(plan.num_workers(), "GPU") +
      "\n[parallelism]\n"
      "data_parallel_replicate_degree = " +
      std::to_string(replicas) +
      "\ndata_parallel_shard_degree = 1\n"
      "pipeline_parallel_degree = " +
      std::to_string(num_pipeline_workers(plan)) +
      "\npipeline_parallel_schedule = \"" + shown + "\"\n" + csv +
      "pipeline_parallel_microbatch_size = " +
      std::to_string(plan.microbatch / replicas) +
      "\nmodule_fqns_per_model_part = " + modules_json(stages).to_line() +
      "\n\n[training]\nlocal_batch_size = " +
      std::to_string(plan.minibatch / replicas) +
      "\nglobal_batch_size = " + std::to_string(plan.minibatch) +
      "\n\n[activation_checkpoint]\nmode = \"" +
      (recomputes ? "full" : "none") + "\"\n";
  written.files.insert(written.files.begin(), {"pipeline.toml", text});
  written.facts.set("schedule", shown)
      .set("module_fqns_per_model_part", modules_json(stages));
  return written;
}

}  // namespace pipewright::cli
