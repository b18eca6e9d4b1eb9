// DeepSpeed: a PipelineModule with the plan's cuts, and the sizes of its
// configuration. docs/reference/formats/exports.md cites what it takes.

#include <algorithm>

#include "cli/export/exporter.h"
#include "cli/export/plan_limits.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

const std::string kDeepSpeed = "DeepSpeed";

// Where each stage begins in the list of modules, and its length at the end.
// The loss is a function of DeepSpeed's own, not a module.
Result<std::vector<int>> stage_bounds(const StageModules& stages) {
  std::vector<int> bounds = {0};
  for (const auto& modules : stages) {
    const auto number =
        std::count_if(modules.begin(), modules.end(),
                      [](const std::string& name) { return name != "loss"; });
    if (number == 0)
      return bad_configuration(
          kDeepSpeed + " computes the loss after the last module; stage " +
              std::to_string(bounds.size() - 1) +
              " of the plan has nothing but the loss",
          "join the last two stages of the plan");
    bounds.push_back(bounds.back() + static_cast<int>(number));
  }
  return bounds;
}

// What partition_method="uniform" gives: the first stages have one more.
std::vector<int> uniform_bounds(int modules, int stages) {
  std::vector<int> bounds;
  for (int s = 0; s <= stages; ++s)
    bounds.push_back(s * (modules / stages) + std::min(s, modules % stages));
  return bounds;
}

constexpr const char* kPlannedCuts = R"PY(

class PlannedPipeline(PipelineModule):
    """partition_method has no form for these cuts, so they are set where it would compute them."""

    def _partition_layers(self, method="uniform"):
        assert len(self._layer_specs) == BOUNDS[-1], f"the plan is for {BOUNDS[-1]} layers"
        self.parts = BOUNDS
        self._set_bounds(BOUNDS[self.stage_id], BOUNDS[self.stage_id + 1])
)PY";

std::string names_text(const StageModules& stages) {
  std::string text;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    text += "    # stage " + std::to_string(s) + "\n";
    for (const std::string& name : stages[s])
      if (name != "loss") text += "    \"" + name + "\",\n";
  }
  return text;
}

std::string module_text(const std::vector<int>& bounds, bool is_uniform,
                        int interval) {
  return std::string(is_uniform ? "" : kPlannedCuts) +
         "\n\ndef pipeline(layers, loss):\n"
         "    \"\"\"Of the modules above, as a list of modules or LayerSpecs "
         "in that order.\"\"\"\n"
         "    return " +
         (is_uniform ? "PipelineModule" : "PlannedPipeline") +
         "(layers=layers, num_stages=" + std::to_string(bounds.size() - 1) +
         ", loss_fn=loss, partition_method=\"uniform\",\n"
         "        activation_checkpoint_interval=" +
         std::to_string(interval) + ")\n";
}

int largest_stage(const std::vector<int>& bounds) {
  int largest = 0;
  for (std::size_t s = 1; s < bounds.size(); ++s)
    largest = std::max(largest, bounds[s] - bounds[s - 1]);
  return largest;
}

Json bounds_json(const std::vector<int>& bounds) {
  Json list = Json::array();
  for (int bound : bounds) list.push(bound);
  return list;
}

}  // namespace

Result<ExportedPlan> to_deepspeed(const PlannedModel& model) {
  const Plan& plan = model.plan;
  if (auto fine = check_synchronous(plan, kDeepSpeed); !fine)
    return fine.error();
  PIPEWRIGHT_TRY(const int replicas, equal_replicas(plan, kDeepSpeed));
  PIPEWRIGHT_TRY(const bool recomputes,
                 recomputes_everywhere(plan, kDeepSpeed));
  if (num_pipeline_workers(plan) != plan.num_stages())
    return bad_configuration(kDeepSpeed +
                                 " has one stage per worker; the plan has " +
                                 counted(plan.num_stages(), "stage") + " on " +
                                 counted(num_pipeline_workers(plan), "worker"),
                             "plan with --planner balanced, which uses 1f1b");
  if (order_among(plan, {"1f1b"}).empty())
    return bad_configuration(kDeepSpeed +
                                 " runs 1f1b; the plan's order is another (" +
                                 plan.schedule_name + ")",
                             "plan with --planner balanced, which uses 1f1b");
  PIPEWRIGHT_TRY(const StageModules stages,
                 modules_of_stages(model, kDeepSpeed));
  PIPEWRIGHT_TRY(const std::vector<int> bounds, stage_bounds(stages));
  const bool is_uniform =
      bounds == uniform_bounds(bounds.back(), plan.num_stages());
  const std::string text =
      "\"\"\"A plan of Pipewright for DeepSpeed, on " +
      counted(plan.num_workers(), "GPU") +
      ".\"\"\"\n"
      "from deepspeed.pipe import PipelineModule\n\n"
      "LAYERS = [\n" +
      names_text(stages) + "]\nBOUNDS = " + bounds_json(bounds).to_line() +
      "  # of the stages in LAYERS\n"
      "CONFIG = {\"train_batch_size\": " +
      std::to_string(plan.minibatch) +
      ", \"train_micro_batch_size_per_gpu\": " +
      std::to_string(plan.microbatch / replicas) +
      ", \"gradient_accumulation_steps\": " +
      std::to_string(plan.num_microbatches()) + "}\n" +
      module_text(bounds, is_uniform, recomputes ? largest_stage(bounds) : 0);
  ExportedPlan written{{{"pipeline.py", text}}};
  written.facts.set("bounds", bounds_json(bounds)).set("uniform", is_uniform);
  return written;
}

}  // namespace pipewright::cli
