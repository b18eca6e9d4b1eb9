#include "cli/serve/planning_service.h"

#include <chrono>

#include "cli/validate/memory_proof.h"
#include "pipewright/base/heap.h"
#include "pipewright/cluster/presets.h"
#include "pipewright/model/zoo/zoo.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/report/plan_report.h"

namespace pipewright::cli {
namespace {

constexpr std::chrono::milliseconds kAskAgain{50};

Json names_json(const std::vector<std::string>& names) {
  Json json = Json::array();
  for (const std::string& name : names) json.push(name);
  return json;
}

Json planners_json() {
  Json json = Json::array();
  for (const auto& planner : planners())
    json.push(Json::object()
                  .set("name", planner->name())
                  .set("summary", planner->summary()));
  return json;
}

// A semaphore's unit, while this exists; none if nobody wants it any more.
template <typename Semaphore>
class Turn {
 public:
  Turn(Semaphore& semaphore, const std::function<bool()>& is_unwanted)
      : semaphore_(semaphore) {
    while (!has_ && !is_unwanted())
      has_ = semaphore_.try_acquire_for(kAskAgain);
  }
  ~Turn() {
    if (has_) semaphore_.release();
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const { return has_; }

 private:
  Semaphore& semaphore_;
  bool has_ = false;
};

// A plan file may name devices that the cluster does not have.
Result<void> check_devices(const Plan& plan, const LoadedProblem& loaded) {
  PIPEWRIGHT_TRY(const Program program, lower(plan, *loaded.profile));
  if (auto memory = device_memory(program, *loaded.cluster); !memory)
    return memory.error();
  return {};
}

}  // namespace

Json PlanningService::start() const {
  std::vector<std::string> models = files_.models, kinds, links;
  models.insert(models.end(), files_.profiles.begin(), files_.profiles.end());
  for (const ZooEntry& entry : zoo()) models.push_back(entry.name);
  for (const KindPreset& preset : kind_presets())
    kinds.push_back(preset.kind.name);
  for (const LinkPreset& preset : link_presets()) links.push_back(preset.name);
  Json methods = Json::array();
  for (Method method : kMethods) methods.push(to_text(method));
  Json serve = Json::object();
  serve.set("models", names_json(models));
  serve.set("clusters", names_json(files_.clusters));
  serve.set("kinds", names_json(kinds));
  serve.set("links", names_json(links));
  serve.set("planners", planners_json());
  serve.set("methods", std::move(methods));
  Json json = report_of("Pipewright", {});
  json.set("serve", std::move(serve));
  return json;
}

Result<ServedSearch> PlanningService::search(std::string_view text) const {
  PIPEWRIGHT_TRY(SearchRequest request, parse_search_request(text, files_));
  PIPEWRIGHT_TRY(LoadedProblem loaded, load_problem(request.problem));
  return ServedSearch{std::move(request), std::move(loaded)};
}

void PlanningService::run(const ServedSearch& search,
                          const std::function<bool()>& is_unwanted,
                          const RankingListener& listener) {
  keep_freed_memory();
  if (const Turn turn(free_, is_unwanted); turn)
    run_search(search.request, search.loaded, is_unwanted, listener);
}

Result<Json> PlanningService::report(std::string_view text,
                                     const std::function<bool()>& is_unwanted) {
  PIPEWRIGHT_TRY(const PlanRequest request, parse_plan_request(text, files_));
  PIPEWRIGHT_TRY(const LoadedProblem loaded, load_problem(request.problem));
  if (auto fine = check_devices(request.plan, loaded); !fine)
    return fine.error();
  const Turn turn(free_, is_unwanted);
  if (!turn) return bad_configuration("the request was stopped");
  Problem problem = loaded.problem;
  problem.method = request.plan.method;
  PIPEWRIGHT_TRY(Json plan, plan_report(request.plan,
                                        ended_problem(problem, is_unwanted)));
  return report_of(loaded.profile->model + " on " + loaded.cluster->name(),
                   {std::move(plan)});
}

}  // namespace pipewright::cli
