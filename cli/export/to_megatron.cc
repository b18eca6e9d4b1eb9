// Megatron-LM: the arguments of its training scripts that place layers, as a
// Bash array. docs/reference/formats/exports.md cites them.

#include <algorithm>

#include "cli/export/exporter.h"
#include "cli/export/plan_limits.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

const std::string kMegatron = "Megatron-LM";

using Shares = std::vector<StageBlocks>;

// "Et*3|ttt": E embedding, t block, L head and loss.
std::string layout_text(const Shares& shares) {
  std::vector<std::string> stages;
  for (const StageBlocks& share : shares) {
    std::string text = share.has_embedding ? "E" : "";
    if (share.num_blocks > 0) text += "t";
    if (share.num_blocks > 1) text += "*" + std::to_string(share.num_blocks);
    stages.push_back(text + (share.has_head ? "L" : ""));
  }
  return join(stages, "|");
}

// Whether all stages from `from` to before `to` have equally many blocks.
bool is_even(const Shares& shares, std::size_t from, std::size_t to) {
  for (std::size_t s = from; s < to; ++s)
    if (shares[s].num_blocks != shares[from].num_blocks) return false;
  return true;
}

std::vector<std::string> cut_arguments(const Shares& shares, int workers) {
  const int virtual_stages = static_cast<int>(shares.size()) / workers;
  if (is_even(shares, 0, shares.size()))
    return virtual_stages == 1
               ? std::vector<std::string>{}
               : std::vector{"--num-virtual-stages-per-pipeline-rank " +
                             std::to_string(virtual_stages)};
  const int first = shares.front().num_blocks, last = shares.back().num_blocks;
  if (virtual_stages > 1 || !is_even(shares, 1, shares.size() - 1) ||
      first == 0 || last == 0)
    return {"--pipeline-model-parallel-layout '" + layout_text(shares) + "'"};
  const int inner = shares.size() == 2 ? last : shares[1].num_blocks;
  std::vector<std::string> arguments;
  if (first != inner)
    arguments.push_back("--decoder-first-pipeline-num-layers " +
                        std::to_string(first));
  if (last != inner)
    arguments.push_back("--decoder-last-pipeline-num-layers " +
                        std::to_string(last));
  return arguments;
}

int largest_share(const Shares& shares) {
  int largest = 1;
  for (const StageBlocks& share : shares)
    largest = std::max(largest, share.num_blocks);
  return largest;
}

}  // namespace

Result<ExportedPlan> to_megatron(const PlannedModel& model) {
  const Plan& plan = model.plan;
  if (auto fine = check_synchronous(plan, kMegatron); !fine)
    return fine.error();
  PIPEWRIGHT_TRY(const int replicas, equal_replicas(plan, kMegatron));
  PIPEWRIGHT_TRY(const bool recomputes, recomputes_everywhere(plan, kMegatron));
  if (order_among(plan, {"1f1b", "interleaved"}).empty())
    return bad_configuration(
        kMegatron +
            " runs 1f1b, or interleaved with several stages per "
            "worker; the plan's order is another (" +
            plan.schedule_name + ")",
        "plan with --planner balanced, which uses 1f1b");
  PIPEWRIGHT_TRY(const StageModules stages,
                 modules_of_stages(model, kMegatron));
  PIPEWRIGHT_TRY(const Shares shares, blocks_of_stages(stages, kMegatron));
  const int workers = num_pipeline_workers(plan);
  std::vector<std::string> arguments = {
      "--num-layers " +
          std::to_string(shares.back().first + shares.back().num_blocks),
      "--pipeline-model-parallel-size " + std::to_string(workers)};
  for (std::string& argument : cut_arguments(shares, workers))
    arguments.push_back(std::move(argument));
  arguments.push_back("--micro-batch-size " +
                      std::to_string(plan.microbatch / replicas));
  arguments.push_back("--global-batch-size " + std::to_string(plan.minibatch));
  if (recomputes)
    arguments.push_back(
        "--recompute-granularity full --recompute-method uniform "
        "--recompute-num-layers " +
        std::to_string(largest_share(shares)));
  std::string text = "# " + counted(workers * replicas, "GPU") +
                     "; data parallel: " + std::to_string(replicas) +
                     "\nPIPELINE_ARGS=(\n";
  Json list = Json::array();
  for (const std::string& argument : arguments) {
    text += "  " + argument + "\n";
    list.push(argument);
  }
  ExportedPlan written{{{"pipeline_args.sh", text + ")\n"}}};
  written.facts.set("arguments", std::move(list));
  return written;
}

}  // namespace pipewright::cli
