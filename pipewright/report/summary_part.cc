#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/choice.h"
#include "pipewright/report/report_parts.h"
#include "pipewright/timeline/bottleneck.h"

namespace pipewright {
namespace {

constexpr double kNoticeable = 0.001;  // share of the step

std::string plan_sentence(const SimulatedPlan& simulated) {
  const Plan& plan = simulated.plan;
  std::string text = simulated.profile().model + " (" +
                     counted(simulated.profile().num_layers(), "layer") +
                     ") is cut into " + stage_count_text(plan) + " on " +
                     counted(plan.num_workers(), "worker") + " of " +
                     simulated.cluster().name() + planned_by(plan);
  if (plan.num_workers() > num_whole_stages(plan))
    text += ", replicas per stage " + replicas_text(plan);
  text += ". Method " + to_text(plan.method) + ", schedule " +
          schedule_text(plan) + ": " +
          counted(plan.num_microbatches(), "microbatch") + " of " +
          counted(plan.microbatch, "sample") + ".";
  return text;
}

std::string speed_sentence(const SimulatedPlan& simulated) {
  const Timeline& timeline = simulated.timeline;
  const double step = timeline.step_seconds.value();
  std::string text = "A step of " +
                     counted(simulated.plan.minibatch, "sample") + " takes " +
                     to_text(timeline.step_seconds);
  if (step > 0)
    text += ", which is " + to_text(simulated.plan.minibatch / step) +
            " samples per second";
  return text + ". Workers compute during " + share_text(1 - timeline.bubble) +
         " of it; the bubble is " + share_text(timeline.bubble) + ".";
}

std::string sentence(std::string text) {
  if (!text.empty()) text[0] = char(std::toupper(text[0]));
  return text + ".";
}

std::string memory_sentence(const SimulatedPlan& simulated) {
  const auto& workers = simulated.timeline.workers;
  std::size_t fullest = 0;
  double highest = -1;
  for (std::size_t w = 0; w < workers.size(); ++w) {
    const Bytes limit =
        simulated.problem.memory_with_base_of(workers[w].device);
    const double share = limit > Bytes(0) ? workers[w].peak.total() / limit : 0;
    if (share > highest) highest = share, fullest = w;
  }
  if (workers.empty()) return "";
  const WorkerSummary& worker = workers[fullest];
  const Bytes limit = simulated.problem.memory_with_base_of(worker.device);
  return "Worker " + std::to_string(fullest) +
         " is the fullest: " + to_text(worker.peak.total()) + " of " +
         to_text(limit) + " (" + share_text(highest) +
         "): " + to_text(worker.peak) + "." +
         (highest > 1 ? " The plan does not fit." : "");
}

std::string bound_sentence(const SimulatedPlan& simulated) {
  const Seconds bound = lower_bound(simulated.problem);
  if (bound <= Seconds(0)) return "There is no lower bound for this problem.";
  const double gap = simulated.timeline.step_seconds / bound - 1;
  return "No plan of this model on this cluster can take less than " +
         to_text(bound) + "; this one takes " + share_text(gap) +
         " longer than that.";
}

std::string improvements_sentence(const std::vector<Improvement>& list) {
  if (list.empty())
    return "Nothing that was tried makes the step shorter: faster links, "
           "faster devices, other microbatches.";
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < list.size() && i < 3; ++i)
    parts.push_back(list[i].what + " saves " + share_text(list[i].saved));
  return sentence(join(parts, "; "));
}

}  // namespace

std::string planned_by(const Plan& plan) {
  if (plan.planner.empty()) return "";
  return plan.planner.starts_with("by ") ? ", planned " + plan.planner
                                         : ", planned by " + plan.planner;
}

std::string schedule_text(const Plan& plan) {
  if (!plan.schedule_name.empty()) return plan.schedule_name;
  const bool is_by_hand =
      plan.planner.empty() || plan.planner.starts_with("by ");
  return is_by_hand ? "written by hand" : "of the planner's own";
}

Json sentence_json(const char* about, const char* title, std::string text) {
  Json json = Json::object();
  json.set("about", about);
  json.set("title", title);
  json.set("text", std::move(text));
  return json;
}

std::string share_text(double share) {
  return to_text(std::round(share * 1000) / 10) + " %";
}

Json bound_part(const SimulatedPlan& simulated) {
  const Bounds bounds = bounds_of(simulated.problem);
  const Seconds largest = bounds.largest();
  Json json = Json::object();
  json.set("lower_bound_seconds", largest.value());
  json.set("gap", largest > Seconds(0)
                      ? simulated.timeline.step_seconds / largest - 1
                      : 0.0);
  json.set("work_seconds", bounds.work.value());
  json.set("layer_seconds", bounds.layer.value());
  json.set("path_seconds", bounds.path.value());
  json.set("link_seconds", bounds.link.value());
  json.set("memory_seconds", bounds.memory.value());
  json.set("replicas_seconds", bounds.replicas.value());
  json.set("cards_seconds", bounds.cards.value());
  return json;
}

std::string why_text(const SimulatedPlan& simulated,
                     const std::optional<Planned>& anew) {
  if (!anew)
    return "It was not compared with others: the problem is large. "
           "`pipewright compare` asks all planners.";
  const Seconds here = simulated.timeline.step_seconds,
                other = anew->estimate.step;
  const std::string& planner = anew->plan.planner;
  const double more = here > Seconds(0) ? other / here - 1 : 0;
  if (more <= -kNoticeable)
    return "It is not the fastest: " + planner + " plans a step of " +
           to_text(other) + " for the same devices, " + share_text(-more) +
           " less.";
  const std::string none =
      "No quick planner finds a faster one for these devices";
  if (more < kNoticeable)
    return none + (planner == simulated.plan.planner
                       ? "."
                       : "; " + planner + " finds one as fast.");
  return none + "; the best of them, " + planner + ", plans a step of " +
         to_text(other) + ", " + share_text(more) + " more.";
}

Json bottleneck_sentence(const SimulatedPlan& simulated) {
  return sentence_json("bottleneck", "What bounds it",
                       sentence(bottleneck_text(
                           simulated.path, whole_stage_ids(simulated.plan))));
}

Json summary_part(const SimulatedPlan& simulated, const std::string& why,
                  const std::vector<Improvement>& improvements) {
  Json json = Json::array();
  json.push(sentence_json("plan", "The plan", plan_sentence(simulated)));
  json.push(sentence_json("why", "Why this plan", why));
  json.push(sentence_json("speed", "Speed", speed_sentence(simulated)));
  json.push(bottleneck_sentence(simulated));
  json.push(sentence_json("memory", "Memory", memory_sentence(simulated)));
  json.push(sentence_json("bound", "Best possible", bound_sentence(simulated)));
  json.push(sentence_json("improvements", "What would help most",
                          improvements_sentence(improvements)));
  return json;
}

}  // namespace pipewright
