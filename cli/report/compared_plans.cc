#include "cli/report/compared_plans.h"

#include <algorithm>

#include "cli/plan/comparison.h"
#include "pipewright/base/text.h"
#include "pipewright/report/plan_report.h"
#include "pipewright/report/report_parts.h"

namespace pipewright::cli {
namespace {

constexpr std::size_t kMaxReportedPlans = 12;
constexpr std::size_t kMaxReportedBytes = 8'000'000;

// Whether no other plan is both faster and smaller.
bool is_on_front(const Candidate& candidate,
                 const std::vector<Candidate>& ranked) {
  if (!candidate.planned) return false;
  const Seconds step = candidate.planned->estimate.step;
  const Bytes memory = largest_memory(*candidate.planned);
  return std::none_of(ranked.begin(), ranked.end(), [&](const auto& other) {
    if (!other.planned) return false;
    const Seconds its_step = other.planned->estimate.step;
    const Bytes its_memory = largest_memory(*other.planned);
    return its_step <= step && its_memory <= memory &&
           (its_step < step || its_memory < memory);
  });
}

// The plan that "why" explains: the fastest that is synchronous.
std::size_t first_plan(const std::vector<Candidate>& ranked) {
  for (std::size_t i = 0; i < ranked.size(); ++i)
    if (ranked[i].planned && !is_asynchronous(ranked[i].method)) return i;
  return 0;
}

// Rows in the order in which they get a report: the first plan, then by rank.
std::vector<std::size_t> reporting_order(const std::vector<Candidate>& ranked) {
  std::vector<std::size_t> rows = {first_plan(ranked)};
  for (std::size_t i = 0; i < ranked.size(); ++i)
    if (ranked[i].planned && i != rows.front()) rows.push_back(i);
  if (rows.size() > kMaxReportedPlans) rows.resize(kMaxReportedPlans);
  return rows;
}

// Of a plan that is not the first.
std::string why_not_first(const Candidate& first, const Candidate& other) {
  const std::string& name = first.planned->plan.planner;
  const Seconds best = first.planned->estimate.step,
                step = other.planned->estimate.step;
  if (step < best)
    return "It takes " + share_text(1 - step / best) + " less than " + name +
           ", the fastest synchronous plan, because its weights may be stale.";
  return name + " is first with " + to_text(best) + "; this one takes " +
         share_text(step / best - 1) + " longer.";
}

}  // namespace

Json comparison_json(const std::vector<Candidate>& ranked,
                     const LoadedProblem& loaded) {
  Json front = Json::array();
  for (const Candidate& candidate : ranked)
    front.push(is_on_front(candidate, ranked));
  Json json = Json::object();
  json.set("comparison", ranking_json(ranked, loaded));
  json.set("first", first_plan(ranked));
  json.set("front", std::move(front));
  return json;
}

Result<Json> compared_plans(const ProblemOptions& options,
                            const std::vector<std::string>& methods) {
  PIPEWRIGHT_TRY(const LoadedProblem loaded, load_problem(options));
  PIPEWRIGHT_TRY(const std::vector<Candidate> ranked,
                 ranked_plans(methods, loaded));
  if (!ranked.front().planned)
    return bad_configuration("no planner found a plan: " +
                             ranked.front().refusal);
  const Json comparison = comparison_json(ranked, loaded);
  const std::string& why =
      *comparison.find("comparison")->find("why")->if_string();
  const std::size_t first = first_plan(ranked);
  Json::Array plans, reported(ranked.size(), Json(-1));
  std::size_t bytes = 0;
  for (std::size_t row : reporting_order(ranked)) {
    if (bytes > kMaxReportedBytes) break;
    Problem problem = loaded.problem;
    problem.method = ranked[row].method;
    auto plan = plan_report(
        ranked[row].planned->plan, problem,
        row == first ? why : why_not_first(ranked[first], ranked[row]));
    if (!plan) continue;
    bytes += plan->to_line().size();
    reported[row] = Json(plans.size());
    plans.push_back(*std::move(plan));
  }
  Json json = report_of(loaded.profile->model + " on " + loaded.cluster->name(),
                        std::move(plans));
  for (const auto& [key, value] : *comparison.if_object()) json.set(key, value);
  json.set("reported", std::move(reported));
  return json;
}

}  // namespace pipewright::cli
