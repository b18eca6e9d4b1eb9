#include "pipewright/planners/planner_registry.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"

namespace pipewright {

const std::vector<std::unique_ptr<Planner>>& planners() {
  static const auto kPlanners = [] {
    std::vector<std::unique_ptr<Planner>> list;
    list.push_back(data_parallel_planner());
    list.push_back(uniform_planner());
    list.push_back(balanced_planner());
    list.push_back(torchgpipe_planner());
    list.push_back(gpipe_planner());
    list.push_back(pipedream_planner());
    list.push_back(exact_planner());
    list.push_back(dapple_planner());
    list.push_back(piper_planner());
    list.push_back(bapipe_planner());
    list.push_back(bi_partition_planner());
    list.push_back(pipemare_planner());
    list.push_back(spp_planner());
    list.push_back(auto_planner());
    return list;
  }();
  return kPlanners;
}

Result<const Planner*> find_planner(const std::string& name) {
  std::vector<std::string> names;
  for (const auto& planner : planners()) {
    if (planner->name() == name) return planner.get();
    names.push_back(planner->name());
  }
  return bad_configuration("unknown planner \"" + name + "\"",
                           suggestion(name, names));
}

const Planner& least_memory_planner() {
  const auto found =
      std::find_if(planners().begin(), planners().end(),
                   [](const auto& each) { return each->has_least_memory(); });
  PIPEWRIGHT_CHECK(found != planners().end(),
                   "no planner has has_least_memory()");
  return **found;
}

}  // namespace pipewright
