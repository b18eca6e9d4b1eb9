#include "cli/simulate/lowered_plan.h"

#include <algorithm>

#include "cli/load_profile.h"
#include "cli/validate/memory_proof.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/plan/schedule/schedule_csv.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/profile/formats/importer.h"
#include "pipewright/profile/split_profile.h"

namespace pipewright::cli {
namespace {

// State of the plan's optimizer, in words of weights of this type.
int words_in(const std::string& type, const Plan& plan) {
  const OptimizerMemory memory{plan.optimizer_words, 0};
  const bool had_masters = has_masters(plan.number_type);
  if (had_masters == has_masters(type)) return memory.words;
  return had_masters ? std::max(0, memory.words / 2 - 1)
                     : with_masters(memory).words;
}

// An estimate has a number type, in which the plan's memory then counts.
Result<void> settle_number_type(const PlanInputs& inputs,
                                const Profile& profile, Plan& plan) {
  if (!inputs.profile.empty()) return {};
  PIPEWRIGHT_TRY(const Model model, load_model(profile.model));
  const std::string type = number_type_of(model);
  plan.optimizer_words = words_in(type, plan);
  plan.number_type = type;
  return {};
}

Result<Profile> profile_for(const PlanInputs& inputs, const Plan& plan,
                            const Cluster& cluster) {
  if (!inputs.profile.empty()) {
    PIPEWRIGHT_TRY(const std::string text, read_file(inputs.profile));
    PIPEWRIGHT_TRY(Profile profile, parse_profile(text, inputs.profile));
    return with_splits(std::move(profile), plan.model, cluster.kinds());
  }
  if (!inputs.model.empty())
    return load_profile("", inputs.model, cluster, plan.minibatch);
  auto profile =
      load_profile("", estimated_model(plan), cluster, plan.minibatch);
  if (profile) return profile;
  return bad_configuration(
      "the costs of the plan's model \"" + plan.model +
          "\" cannot be estimated: " + profile.error().message,
      "use --profile FILE, or --model MODEL");
}

// By its first line that is not empty, so that a damaged file is one, too.
bool is_schedule_csv(const std::string& text, const std::string& file) {
  const std::string first(trim(text).substr(0, trim(text).find('\n')));
  const auto grid = parse_csv(first, file);
  return grid && std::any_of(grid->begin(), grid->end(), [](const auto& row) {
           return std::any_of(row.begin(), row.end(), [](const CsvCell& cell) {
             return !cell.empty();
           });
         });
}

// A schedule has no layers and no devices.
std::string schedule_usage(const std::string& file) {
  return "pipewright validate " + file + " checks it, pipewright schedule " +
         file + " draws it; it has no layers and no devices";
}

// A plan of another system is not an error in a plan of ours.
Error not_ours(Error error, const std::string& text, const std::string& file) {
  const bool is_ours = text.find("pipewright/") != std::string::npos;
  if (!is_ours && is_schedule_csv(text, file))
    return malformed(
        "this is a schedule of torch.distributed.pipelining, not a plan file",
        file, schedule_usage(file));
  const Importer* importer = is_ours ? nullptr : importer_for({file, text});
  if (!importer) return error;
  return malformed("this is a file of " + importer->name + ", not a plan file",
                   file, importer->usage({file, text}));
}

// Without a profile or model of its own, an error is about the plan's model.
Error about_plan(const std::string& file, const PlanInputs& inputs,
                 Error error) {
  const bool is_of_plan = inputs.profile.empty() && inputs.model.empty();
  return is_of_plan ? in_file(file, std::move(error)) : error;
}

// With another model or profile the plan may be right.
Result<void> check_num_layers(const Plan& plan, const Profile& profile,
                              const PlanInputs& inputs) {
  int end = 0;
  for (const Stage& stage : plan.stages)
    for (const auto* layers : {&stage.forward, &stage.backward})
      if (!layers->empty()) end = std::max(end, layers->back().value + 1);
  if (end == profile.num_layers()) return {};
  const bool may_be_measured = inputs.profile.empty() && inputs.model.empty() &&
                               plan.number_type.empty();
  return bad_configuration(
      "the plan is for " + counted(end, "layer") + ", and " + profile.model +
          " has " + std::to_string(profile.num_layers()) + " here",
      may_be_measured
          ? "add --profile FILE, the profile that it was planned with"
          : "give the model or the profile that the plan was made for");
}

Error no_cluster() {
  return {ErrorCode::Usage,
          "--cluster is required",
          {},
          "for example --cluster 4xV100@1GB/s",
          {}};
}

}  // namespace

std::string estimated_model(const Plan& plan) {
  // A plan that says float32 keeps it on kinds that have bfloat16.
  const bool is_float32 = plan.number_type == "float32" && !plan.model.empty();
  return is_float32 ? with_type(plan.model, "float32") : plan.model;
}

Error in_file(const std::string& file, Error error) {
  error.where = file + (error.where.empty() ? "" : ": " + error.where);
  return error;
}

Result<LoweredPlan> load_lowered(const std::string& plan_file,
                                 const PlanInputs& inputs) {
  PIPEWRIGHT_TRY(const std::string text, read_file(plan_file));
  Result<Plan> parsed = parse_plan(text, plan_file);
  if (!parsed) return not_ours(parsed.error(), text, plan_file);
  Plan plan = std::move(*parsed);
  if (inputs.cluster.empty()) return no_cluster();
  PIPEWRIGHT_TRY(Cluster cluster, load_cluster(inputs.cluster));
  Result<Profile> costs = profile_for(inputs, plan, cluster);
  if (!costs) return about_plan(plan_file, inputs, costs.error());
  Profile profile = *std::move(costs);
  if (auto fine = check_num_layers(plan, profile, inputs); !fine)
    return in_file(plan_file, fine.error());
  if (auto settled = settle_number_type(inputs, profile, plan); !settled)
    return settled.error();
  Result<Program> program = lower(plan, profile);
  if (!program) return in_file(plan_file, program.error());
  Result<ProgramFacts> facts = validate(*program);
  if (!facts) return in_file(plan_file, facts.error());
  if (auto memory = device_memory(*program, cluster); !memory)
    return in_file(plan_file, memory.error());
  return LoweredPlan{std::move(plan), std::move(cluster), std::move(profile),
                     *std::move(program), *std::move(facts)};
}

}  // namespace pipewright::cli
