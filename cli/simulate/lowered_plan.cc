#include "cli/simulate/lowered_plan.h"

#include "cli/load_profile.h"
#include "pipewright/base/files.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright::cli {
namespace {

Result<Profile> profile_for(const PlanInputs& inputs, const Plan& plan,
                            const Cluster& cluster) {
  if (!inputs.profile.empty()) {
    PIPEWRIGHT_TRY(const std::string text, read_file(inputs.profile));
    return parse_profile(text, inputs.profile);
  }
  if (!inputs.model.empty())
    return load_profile("", inputs.model, cluster, plan.minibatch);
  auto profile = load_profile("", plan.model, cluster, plan.minibatch);
  if (profile) return profile;
  return bad_configuration(
      "the costs of the plan's model \"" + plan.model +
          "\" cannot be estimated: " + profile.error().message,
      "use --profile FILE, or --model MODEL");
}

// A plan of another system is not an error in a plan of ours.
Error not_ours(Error error, const std::string& text, const std::string& file) {
  const bool is_ours = text.find("pipewright/") != std::string::npos;
  const Importer* importer = is_ours ? nullptr : importer_for({file, text});
  if (!importer) return error;
  return malformed("this is a file of " + importer->name + ", not a plan file",
                   file,
                   "pipewright import " + file +
                       " LAYER_TIMES... -o profile.json --plan plan.json "
                       "--cluster cluster.json reads it");
}

}  // namespace

Result<LoweredPlan> load_lowered(const std::string& plan_file,
                                 const PlanInputs& inputs) {
  PIPEWRIGHT_TRY(const std::string text, read_file(plan_file));
  Result<Plan> parsed = parse_plan(text, plan_file);
  if (!parsed) return not_ours(parsed.error(), text, plan_file);
  Plan plan = std::move(*parsed);
  PIPEWRIGHT_TRY(Cluster cluster, load_cluster(inputs.cluster));
  PIPEWRIGHT_TRY(Profile profile, profile_for(inputs, plan, cluster));
  PIPEWRIGHT_TRY(Program program, lower(plan, profile));
  PIPEWRIGHT_TRY(ProgramFacts facts, validate(program));
  return LoweredPlan{std::move(plan), std::move(cluster), std::move(profile),
                     std::move(program), std::move(facts)};
}

}  // namespace pipewright::cli
