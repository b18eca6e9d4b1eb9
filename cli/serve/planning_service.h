// What `serve` answers, without HTTP.

#pragma once

#include <functional>
#include <semaphore>
#include <string>
#include <string_view>

#include "cli/serve/plan_search.h"
#include "cli/serve/planning_request.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"

namespace pipewright::cli {

// A search that can run.
struct ServedSearch {
  SearchRequest request;
  LoadedProblem loaded;
};

// All functions may be called from several threads at once.
class PlanningService {
 public:
  explicit PlanningService(ServedFiles files) : files_(std::move(files)) {}

  // What the page begins with: models, kinds of devices, planners and methods
  // to choose from.
  Json start() const;

  // The search that a request describes: model, cluster, minibatch,
  // microbatches, memory, methods, planners. Fails as parse_search_request()
  // and load_problem() do.
  Result<ServedSearch> search(std::string_view request) const;
  // As run_search(). Few searches run at once; others wait.
  void run(const ServedSearch& search, const std::function<bool()>& is_unwanted,
           const RankingListener& listener);

  // As `report` shows it: a plan of the problem that a request describes.
  // Fails as parse_plan_request() and plan_report() do.
  Result<Json> report(std::string_view request,
                      const std::function<bool()>& is_unwanted);

 private:
  static constexpr int kMaxAtOnce = 2;

  ServedFiles files_;
  std::counting_semaphore<kMaxAtOnce> free_{kMaxAtOnce};
};

}  // namespace pipewright::cli
