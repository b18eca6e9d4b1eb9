#include "cli/plan/plan_buckets.h"

#include <utility>

#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/plan/gradient_buckets.h"

namespace pipewright::cli {
namespace {

bool is_better(const Result<Estimate>& one, const Result<Estimate>& other) {
  if (!one || !other) return one.ok();
  if (one->fits != other->fits) return one->fits;
  return one->step < other->step;
}

}  // namespace

Result<Bytes> parse_bucket(const std::string& text) {
  std::optional<Bytes> bytes = parse_bytes(text);
  if (const auto plain = parse_integer(text)) bytes = Bytes(*plain);
  if (bytes && *bytes > Bytes(0)) return *bytes;
  return Error{ErrorCode::Usage,
               "expected a size for --bucket, found \"" + text + "\"",
               {},
               "for example --bucket 25MB",
               {}};
}

void estimate_buckets(LoadedProblem& loaded, Bytes bucket) {
  const Profile& profile = *loaded.profile;
  loaded.problem.estimate = [estimate = loaded.problem.estimate, &profile,
                             bucket](const Plan& plan) -> Result<Estimate> {
    Result<Estimate> whole = estimate(plan);
    const Result<Plan> cut = with_buckets(plan, profile, bucket);
    if (!cut || cut->num_stages() == plan.num_stages()) return whole;
    Result<Estimate> in_buckets = estimate(*cut);
    return is_better(in_buckets, whole) ? in_buckets : whole;
  };
}

void cut_into_buckets(Planned& planned, const Profile& profile, Bytes bucket,
                      const Estimator& estimate) {
  Result<Plan> cut = with_buckets(planned.plan, profile, bucket);
  if (!cut || cut->num_stages() == planned.plan.num_stages()) return;
  const Result<Estimate> whole = estimate(planned.plan);
  if (!is_better(estimate(*cut), whole)) return;
  planned.why += std::string(planned.why.empty() ? "" : "\n") +
                 "gradients are summed while backward goes on: " +
                 counted(cut->num_stages(), "stage") + " instead of " +
                 std::to_string(planned.plan.num_stages());
  if (whole)
    planned.why += "; without buckets the step takes " + to_text(whole->step);
  planned.plan = *std::move(cut);
}

}  // namespace pipewright::cli
