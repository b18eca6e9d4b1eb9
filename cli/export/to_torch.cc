// torch.distributed.pipelining (PyTorch 2.11 to 2.13): split points by module
// path, the rank of each stage, the schedule as CSV, and a script that runs
// them. docs/reference/formats/exports.md cites what it can and cannot do.

#include <algorithm>

#include "cli/export/exporter.h"
#include "cli/export/plan_limits.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/schedule/schedule_csv.h"

namespace pipewright::cli {
namespace {

const std::string kTorch = "torch.distributed.pipelining";

// run.py, with the plan's numbers between its two parts.
constexpr const char* kScriptBegin =
    R"PY("""Trains with a plan of Pipewright: torchrun --nproc-per-node RANKS run.py NET.py

NET.py has make(), which returns the module, its loss (a function of output and target), a function that makes the
optimizer of parameters, and minibatches (inputs, target). It must make the same weights on every rank.
"""
import pathlib, runpy, sys
import torch
import torch.distributed as dist
from torch.distributed.pipelining import PipelineStage, SplitPoint, pipeline
from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

)PY";

constexpr const char* kScriptEnd = R"PY(

def main(net):
    dist.init_process_group()
    rank, last = dist.get_rank(), STAGE_TO_RANK[-1]
    device = torch.device("cuda", rank % torch.cuda.device_count()) if torch.cuda.is_available() else torch.device("cpu")
    module, loss, make_optimizer, minibatches = runpy.run_path(net)["make"]()
    sample = tuple(tensor[:MICROBATCH].to(device) for tensor in minibatches[0][0])
    pipe = pipeline(module.to(device), sample, split_spec={path: SplitPoint.BEGINNING for path in SPLIT_POINTS})
    stages = [PipelineStage(pipe.get_stage_module(s), s, len(STAGE_TO_RANK), device)
              for s, owner in enumerate(STAGE_TO_RANK) if owner == rank]
    schedule = _PipelineScheduleRuntime(stages, MICROBATCHES, loss_fn=loss)
    schedule._load_csv(pathlib.Path(__file__).with_name("schedule.csv"))
    optimizer = make_optimizer([p for stage in stages for p in stage.submod.parameters()])
    for inputs, target in minibatches:
        losses = []
        optimizer.zero_grad()
        schedule.step(*(tensor.to(device) for tensor in inputs if STAGE_TO_RANK[0] == rank),
                      target=target.to(device) if rank == last else None, losses=losses)
        optimizer.step()
        if rank == last:
            print(f"loss {torch.stack(losses).mean().item():.9g}", flush=True)
    dist.destroy_process_group()


main(sys.argv[1])
)PY";

Result<void> check_for_torch(const PlannedModel& model) {
  const Plan& plan = model.plan;
  if (!model.has_module_paths())
    return bad_configuration(
        kTorch + " is told where to cut by module paths; the layers of \"" +
            plan.model + "\" have none",
        "export the nn.Module with pipewright.export() and plan that");
  if (auto fine = check_synchronous(plan, kTorch); !fine) return fine.error();
  for (int s = 0; s < plan.num_stages(); ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    if (stage.workers.size() > 1)
      return bad_configuration(
          kTorch + " has one rank per stage; stage " + std::to_string(s) +
              " of the plan has " + std::to_string(stage.workers.size()) +
              " replicas",
          "plan without replicas, such as with --planner balanced");
    if (stage.recompute)
      return bad_configuration(kTorch + " does not recompute; stage " +
                                   std::to_string(s) + " of the plan does",
                               "wrap modules with torch.utils.checkpoint, and "
                               "remove \"recompute\" from the plan");
  }
  return {};
}

std::vector<int> stage_of_layers(const Plan& plan, int num_layers) {
  std::vector<int> stages(static_cast<std::size_t>(num_layers));
  for (int s = 0; s < plan.num_stages(); ++s)
    for (LayerId id : plan.stages[static_cast<std::size_t>(s)].forward)
      stages[id.index()] = s;
  return stages;
}

// Its stages talk to their neighbours only, and weights have one home.
Result<void> check_neighbours(const PlannedModel& model) {
  const Profile& profile = model.profile;
  const std::vector<int> stages =
      stage_of_layers(model.plan, profile.num_layers());
  std::vector<int> home(profile.parameters.size(), -1);
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    const ProfileLayer& layer = profile.layers[i];
    for (LayerId input : layer.inputs)
      if (stages[input.index()] < stages[i] - 1)
        return bad_configuration(
            kTorch + " passes tensors to the next stage only; " + layer.name +
                " on stage " + std::to_string(stages[i]) + " reads " +
                profile.layers[input.index()].name + " of stage " +
                std::to_string(stages[input.index()]),
            "plan with fewer stages, or cut elsewhere");
    for (ParameterId id : layer.parameters) {
      int& first = home[id.index()];
      if (first >= 0 && first != stages[i])
        return bad_configuration(
            kTorch + " does not add up gradients of tied weights; " +
                profile.parameters[id.index()].name + " is on stages " +
                std::to_string(first) + " and " + std::to_string(stages[i]),
            "untie the weights in the module, or train with pipewright train");
      first = stages[i];
    }
  }
  return {};
}

Result<std::vector<std::string>> split_points(const StageModules& stages) {
  std::vector<std::string> points, before(stages.front());
  for (std::size_t s = 1; s < stages.size(); ++s) {
    const std::string& first = stages[s].front();
    if (first == "loss")
      return bad_configuration(
          kTorch +
              " computes the loss on the last stage of the module; stage " +
              std::to_string(s) + " of the plan has nothing but the loss",
          "join the last two stages of the plan");
    if (std::find(before.begin(), before.end(), first) != before.end())
      return bad_configuration(
          kTorch + " cuts before the first use of a module; stage " +
          std::to_string(s) + " begins with a later use of " + first);
    points.push_back(first);
    before.insert(before.end(), stages[s].begin(), stages[s].end());
  }
  return points;
}

std::string script_text(const Plan& plan, const Json& points,
                        const Json& ranks) {
  return kScriptBegin + ("SPLIT_POINTS = " + points.to_line() + "\n") +
         "STAGE_TO_RANK = " + ranks.to_line() + "\n" +
         "MICROBATCHES, MICROBATCH = " +
         std::to_string(plan.num_microbatches()) + ", " +
         std::to_string(plan.microbatch) + "\n" + kScriptEnd;
}

}  // namespace

Result<ExportedPlan> to_torch(const PlannedModel& model) {
  if (auto fine = check_for_torch(model); !fine) return fine.error();
  PIPEWRIGHT_TRY(const StageModules stages, modules_of_stages(model, kTorch));
  if (auto fine = check_neighbours(model); !fine) return fine.error();
  PIPEWRIGHT_TRY(const std::vector<std::string> paths, split_points(stages));
  PIPEWRIGHT_TRY(const CsvGrid grid, grid_of(model.plan.schedule));
  Json points = Json::array(), ranks = Json::array();
  for (const std::string& path : paths) points.push(path);
  for (const Stage& stage : model.plan.stages)
    ranks.push(stage.workers.front().value);
  ExportedPlan written{{{"run.py", script_text(model.plan, points, ranks)},
                        {"schedule.csv", to_csv(grid)}}};
  written.facts.set("split_points", std::move(points))
      .set("stage_to_rank", std::move(ranks));
  return written;
}

}  // namespace pipewright::cli
