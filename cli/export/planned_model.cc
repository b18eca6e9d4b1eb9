#include "cli/export/planned_model.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "cli/load_profile.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/gradient_buckets.h"

namespace pipewright::cli {
namespace {

Result<Profile> layers_of(const Plan& plan, const std::string& profile,
                          const std::string& model) {
  if (!profile.empty()) {
    PIPEWRIGHT_TRY(const std::string text, read_file(profile));
    return parse_profile(text, profile);
  }
  // Any kind of device will do: nobody reads the costs.
  PIPEWRIGHT_TRY(const Cluster cluster, load_cluster("1xV100"));
  auto found = load_profile("", model.empty() ? plan.model : model, cluster,
                            plan.minibatch);
  if (found || !model.empty()) return found;
  return bad_configuration("the layers of the plan's model \"" + plan.model +
                               "\" are not known: " + found.error().message,
                           "use --profile FILE, or --model MODEL");
}

bool is_run(const std::vector<LayerId>& layers, int first) {
  for (std::size_t i = 0; i < layers.size(); ++i)
    if (layers[i].value != first + static_cast<int>(i)) return false;
  return true;
}

struct BlockName {
  std::string stack;  // "transformer.h."
  int number = 0;
};

std::optional<BlockName> block_name(const std::string& module) {
  std::size_t digits = module.size();
  while (digits > 0 &&
         std::isdigit(static_cast<unsigned char>(module[digits - 1])) != 0)
    --digits;
  const auto number = parse_integer(module.substr(digits));
  const std::string stack = module.substr(0, digits);
  if (!number || *number > kMaxLayers) return std::nullopt;
  if (stack != "block" && !stack.ends_with('.')) return std::nullopt;
  return BlockName{stack, static_cast<int>(*number)};
}

Error no_stack(const std::string& system, const std::string& why) {
  return bad_configuration(
      system + " runs an embedding, one stack of equal blocks and a head; " +
          why,
      "--to torch takes any sequence of modules");
}

// Of the modules of all stages, those that are blocks of the one stack.
Result<std::vector<bool>> stack_members(const std::vector<std::string>& modules,
                                        const std::string& system) {
  std::set<std::string> stacks;
  std::vector<bool> members;
  int next = 0, runs = 0;
  for (const std::string& module : modules) {
    const auto block = block_name(module);
    if (block) stacks.insert(block->stack + "*");
    if (block && (members.empty() || !members.back())) ++runs;
    if (block && stacks.size() == 1 && block->number != next++)
      return no_stack(system,
                      "the blocks of this model are not in order at " + module);
    members.push_back(block.has_value());
  }
  if (stacks.empty()) return no_stack(system, "this model has no blocks");
  if (stacks.size() > 1)
    return no_stack(system,
                    "this model has " +
                        join(std::vector(stacks.begin(), stacks.end()), ", "));
  if (runs > 1)
    return no_stack(system, "something is between the blocks of this model");
  return members;
}

}  // namespace

bool PlannedModel::has_module_paths() const {
  return std::all_of(
      profile.layers.begin(), profile.layers.end(),
      [](const ProfileLayer& layer) { return layer.kind == "exported"; });
}

Result<PlannedModel> load_planned_model(const std::string& plan_file,
                                        const std::string& profile,
                                        const std::string& model) {
  PIPEWRIGHT_TRY(const std::string text, read_file(plan_file));
  PIPEWRIGHT_TRY(Plan plan, parse_plan(text, plan_file));
  PIPEWRIGHT_TRY(Profile layers, layers_of(plan, profile, model));
  if (auto fine = check_plan(plan, layers); !fine) {
    Error error = fine.error();
    error.where = plan_file + (error.where.empty() ? "" : ": " + error.where);
    return error;
  }
  // Other systems have buckets of their own.
  PIPEWRIGHT_TRY(plan, without_buckets(plan));
  return PlannedModel{std::move(plan), std::move(layers)};
}

std::string module_of(const std::string& layer) {
  const std::string path = layer.substr(0, layer.find('/'));
  const std::string first = path.substr(0, path.find('.'));
  const auto block = block_name(first);
  return block && block->stack == "block" ? first : path;
}

Result<StageModules> modules_of_stages(const PlannedModel& model,
                                       const std::string& system) {
  StageModules modules;
  int next = 0;
  std::string before;
  for (const Stage& stage : model.plan.stages) {
    const std::string name = "stage " + std::to_string(modules.size());
    if (!is_run(stage.forward, next))
      return bad_configuration(
          system + " cuts a model into consecutive parts; " + name +
              " of the plan does not continue where the stage before ends",
          "plan with --planner balanced");
    std::vector<std::string>& own = modules.emplace_back();
    for (LayerId id : stage.forward) {
      const std::string& layer = model.profile.layers[id.index()].name;
      const std::string module = module_of(layer);
      if (own.empty() && module == before)
        return bad_configuration(
            system + " cuts between modules; " + name +
                " of the plan begins inside " + module + ", at " + layer,
            "move that cut in the plan file to the first layer of a module");
      if (own.empty() || own.back() != module) own.push_back(module);
      before = module;
      ++next;
    }
  }
  return modules;
}

Result<std::vector<StageBlocks>> blocks_of_stages(const StageModules& stages,
                                                  const std::string& system) {
  std::vector<std::string> all;
  for (const auto& modules : stages)
    all.insert(all.end(), modules.begin(), modules.end());
  PIPEWRIGHT_TRY(const std::vector<bool> members, stack_members(all, system));
  std::vector<StageBlocks> shares;
  int blocks = 0;
  std::size_t at = 0;
  for (const auto& modules : stages) {
    StageBlocks share{shares.empty(), blocks, 0,
                      shares.size() + 1 == stages.size()};
    for (const std::string& module : modules) {
      const bool is_block = members[at++];
      const bool is_before = !is_block && blocks == 0;
      share.num_blocks += is_block ? 1 : 0;
      blocks += is_block ? 1 : 0;
      if (!is_block && !(is_before ? share.has_embedding : share.has_head))
        return no_stack(system, module + " of this plan is on stage " +
                                    std::to_string(shares.size()));
    }
    shares.push_back(share);
  }
  return shares;
}

}  // namespace pipewright::cli
