#include "cli/plan/planning.h"

#include <algorithm>
#include <atomic>

#include "pipewright/base/heap.h"
#include "pipewright/base/text.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/planners/auto/auto_planner.h"
#include "pipewright/planners/auto/auto_search.h"
#include "pipewright/planners/bounds/bounds.h"
#include "pipewright/planners/parallel.h"
#include "pipewright/planners/plan_in_time.h"
#include "pipewright/planners/shared_time.h"
#include "pipewright/planners/tuned_replicas.h"

namespace pipewright::cli {
namespace {

Error wrong_number_of_stages(const Plan& plan, const Problem& problem) {
  return bad_configuration(
      plan.planner + " made " + std::to_string(plan.stages.size()) +
          " stages instead of " + std::to_string(problem.stages),
      "the planners auto and pipemare support --stages");
}

// Of the time that all planners share, auto's; each of the others has 1.
constexpr double kAutoWeight = 4;

// The cheap ones first: a plan is there soon, and what they leave of the time
// goes to the others.
std::vector<std::size_t> cheap_first(const std::vector<const Planner*>& all) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < all.size(); ++i) order.push_back(i);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) {
                     return all[a]->effort() < all[b]->effort();
                   });
  return order;
}

// All planners, then auto, which starts from their plans. The time limit is for
// all of them together, but a planner may overrun.
std::vector<Candidate> all_candidates(const Problem& problem, Watch& watch,
                                      Seconds limit) {
  std::vector<const Planner*> singles;
  const Planner* last = nullptr;
  for (const auto& planner : planners())
    if (planner->effort() == PlanningEffort::AllPlanners)
      last = planner.get();
    else
      singles.push_back(planner.get());
  const auto count = static_cast<double>(singles.size());
  const std::vector<std::size_t> order = cheap_first(singles);
  std::vector<Candidate> all(singles.size());
  Problem shared = problem;
  shared.wants_bound = false;
  SharedTime whole(limit, count + kAutoWeight, 1, watch.clock());
  SharedTime time(whole.take(count), count, num_threads(problem.threads),
                  watch.clock());
  std::atomic<std::size_t> started = 0;
  in_parallel(singles.size(), problem.threads, [&](std::size_t turn) {
    watch.set_task(to_text(problem.method) + ", planner " +
                   std::to_string(++started) + " of " +
                   std::to_string(singles.size() + 1));
    Problem single = shared;
    single.threads = 1;
    Candidate& candidate = all[order[turn]];
    candidate = candidate_of(*singles[order[turn]],
                             watch.watched(single, time.take(1)));
    if (candidate.planned)
      watch.set_found(candidate.planner, candidate.planned->estimate.step);
  });
  watch.set_task(to_text(problem.method) + ", auto");
  std::vector<Planned> starts;
  for (const Candidate& candidate : all)
    if (candidate.planned && candidate.planned->estimate.fits)
      starts.push_back(*candidate.planned);
  // Its share, even if the others took longer than theirs.
  const Seconds fair = limit * (kAutoWeight / (count + kAutoWeight));
  all.push_back(candidate_of(
      *last, watch.watched(shared, std::max(fair, whole.take(kAutoWeight))),
      &starts));
  // The same bound for all: a planner's own bound may hold only for its plans.
  const Seconds bound = lower_bound(problem);
  for (Candidate& candidate : all)
    if (candidate.planned) candidate.planned->lower_bound = bound;
  return all;
}

Json layer_names(const std::vector<LayerId>& layers, const Profile& profile) {
  Json names = Json::array();
  for (LayerId layer : layers) names.push(profile.layers[layer.index()].name);
  return names;
}

Json names_json(const std::vector<DeviceId>& devices, const Cluster& cluster) {
  Json names = Json::array();
  for (DeviceId device : devices)
    names.push(cluster.devices()[device.index()].name);
  return names;
}

Json stage_json(const Stage& stage, const Planned& planned,
                const LoadedProblem& loaded) {
  std::vector<DeviceId> devices;
  Bytes memory;
  for (WorkerId worker : stage.workers) {
    devices.push_back(planned.plan.devices[worker.index()]);
    memory = std::max(memory, planned.estimate.memory[worker.index()]);
  }
  Json json = Json::object();
  json.set("layers", layer_names(stage.forward, *loaded.profile));
  json.set("backward_layers", layer_names(stage.backward, *loaded.profile));
  json.set("devices", names_json(devices, *loaded.cluster));
  json.set("memory_bytes", memory.value());
  json.set("recompute", stage.recompute);
  if (!stage.samples.empty()) {
    Json samples = Json::array();
    for (int count : stage.samples) samples.push(count);
    json.set("samples", std::move(samples));
  }
  return json;
}

Json strings(const std::vector<std::string>& texts) {
  Json json = Json::array();
  for (const std::string& text : texts) json.push(text);
  return json;
}

// Of estimates beyond a time limit, where there is a plan already.
constexpr Seconds kShortGrace{0.05};

// Plans of other methods that are tried, until one fits.
constexpr int kMaxTransferred = 3;

// The plan's pipeline for the problem's method; none if it is no plain
// pipeline.
std::optional<Pipeline> transferred(const Planned& planned,
                                    const Problem& problem) {
  std::optional<Pipeline> pipeline =
      pipeline_of_plan(untuned({planned}).front().plan);
  if (pipeline && is_asynchronous(problem.method) &&
      !is_asynchronous(planned.plan.method))
    pipeline->schedule = "async-1f1b";
  return pipeline;
}

// The fastest of the known plans that fits with the problem's method.
Result<Planned> best_transferred(const std::vector<Candidate>& known,
                                 const Problem& problem) {
  std::vector<Candidate> ranked = known;
  sort_by_step(ranked);
  int tried = 0;
  for (const Candidate& candidate : ranked) {
    if (!candidate.planned || tried == kMaxTransferred) break;
    const auto pipeline = transferred(*candidate.planned, problem);
    if (!pipeline) continue;
    ++tried;
    Result<Planned> made = planned(*pipeline, problem, "auto");
    if (!made || !made->estimate.fits ||
        !problem.has_required_stages(made->plan))
      continue;
    made->why = "It is the plan of " + candidate.planner + " for " +
                to_text(candidate.method) + ", trained with " +
                to_text(problem.method) + ".";
    made->bottleneck = made->promised / made->plan.num_microbatches();
    return made;
  }
  return bad_configuration("no known plan fits with this method");
}

// What `plan` finds, with tuned replicas; `planner` is its name.
Candidate candidate_by(
    const std::string& planner, const Problem& problem,
    const std::function<Result<Planned>(const Problem&)>& plan) {
  Candidate candidate;
  candidate.planner = planner;
  candidate.method = problem.method;
  const double start = now_seconds();
  Problem unbounded = problem;
  unbounded.wants_bound = false;
  std::atomic<bool> was_over = false;
  if (problem.is_over_)
    unbounded.is_over_ = [&problem, &was_over] {
      if (problem.is_over()) was_over = true;
      return was_over.load();
    };
  Result<Planned> planned = plan_with_tuned_replicas(unbounded, plan);
  candidate.planning = Seconds(now_seconds() - start);
  candidate.was_cut_short = was_over;
  if (!planned) {
    candidate.refusal = planned.error().to_text();
    return candidate;
  }
  if (!problem.has_required_stages(planned->plan)) {
    candidate.refusal =
        wrong_number_of_stages(planned->plan, problem).to_text();
    return candidate;
  }
  candidate.planned = *std::move(planned);
  name_device_kinds(candidate.planned->plan, *problem.cluster);
  candidate.planned->lower_bound = lower_bound(problem);
  return candidate;
}

bool is_faster(const Candidate& one, const Candidate& other) {
  return one.planned && (!other.planned || one.planned->estimate.step <
                                               other.planned->estimate.step);
}

}  // namespace

Candidate candidate_of(const Planner& planner, const Problem& problem,
                       const std::vector<Planned>* starts) {
  return candidate_by(planner.name(), problem,
                      [&](const Problem& tuned) -> Result<Planned> {
                        if (starts) return best_plan(tuned, untuned(*starts));
                        if (planner.effort() == PlanningEffort::AllPlanners)
                          return planner.plan(tuned);
                        return plan_in_time(planner, tuned);
                      });
}

Candidate candidate_of(const Planner& planner, const LoadedProblem& loaded,
                       Method method, Watch& watch, Seconds limit) {
  keep_freed_memory();
  Problem problem = loaded.problem;
  problem.method = method;
  watch.set_task(to_text(method) + ", " + planner.name());
  if (limit == Seconds(0)) limit = problem.budget;
  Candidate candidate = candidate_of(planner, watch.watched(problem, limit));
  if (candidate.planned)
    candidate.planned->plan.number_type = loaded.number_type;
  return candidate;
}

Candidate best_candidate(const LoadedProblem& loaded, Method method,
                         Watch& watch, Seconds limit,
                         const std::vector<Candidate>& known) {
  keep_freed_memory();
  Problem problem = loaded.problem;
  problem.method = method;
  watch.set_task(to_text(method) + ", auto");
  const double start = watch.clock()();
  Problem plain = problem;  // tuning replicas takes most of an estimate's time
  plain.bucket = Bytes(0);
  plain.shares_by_speed = false;
  Candidate early = candidate_by(
      "auto", watch.watched(plain, limit),
      [&](const Problem& watched) { return best_transferred(known, watched); });
  const Seconds left = limit - Seconds(watch.clock()() - start);
  Candidate best =
      candidate_of(*find_planner("auto").value(),
                   watch.watched(problem, std::max(left, Seconds(1e-3)),
                                 early.planned ? kShortGrace : Watch::kGrace));
  if (is_faster(early, best)) {
    early.was_cut_short = best.was_cut_short;
    best = std::move(early);
  }
  best.planning = Seconds(watch.clock()() - start);
  if (best.planned) best.planned->plan.number_type = loaded.number_type;
  return best;
}

Result<std::vector<Candidate>> candidates(const LoadedProblem& loaded,
                                          const std::string& planner,
                                          Method method, Watch& watch,
                                          Seconds limit) {
  if (!planner.empty()) {
    PIPEWRIGHT_TRY(const Planner* found, find_planner(planner));
    return std::vector{candidate_of(*found, loaded, method, watch, limit)};
  }
  keep_freed_memory();
  Problem problem = loaded.problem;
  problem.method = method;
  std::vector<Candidate> all = all_candidates(
      problem, watch, limit == Seconds(0) ? problem.budget : limit);
  for (Candidate& candidate : all)
    if (candidate.planned)
      candidate.planned->plan.number_type = loaded.number_type;
  return all;
}

void sort_by_step(std::vector<Candidate>& candidates) {
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) {
                     if (!a.planned || !b.planned)
                       return a.planned.has_value() && !b.planned.has_value();
                     return a.planned->estimate.step < b.planned->estimate.step;
                   });
}

Result<std::vector<Method>> parse_methods(
    const std::vector<std::string>& names) {
  std::vector<Method> methods;
  for (const std::string& name : names) {
    if (name == "all")
      return std::vector<Method>(kMethods.begin(), kMethods.end());
    const auto method = parse_method(name);
    if (!method) {
      std::vector<std::string> known = {"all"};
      for (Method each : kMethods) known.push_back(to_text(each));
      return bad_configuration("unknown method \"" + name + "\"",
                               suggestion(name, known));
    }
    methods.push_back(*method);
  }
  return methods;
}

std::vector<Stage> whole_stages(const Plan& plan) {
  const Result<Plan> whole = without_buckets(plan);
  return whole ? whole->stages : plan.stages;
}

std::vector<DeviceId> unused_devices(const Plan& plan, const Cluster& cluster) {
  std::vector<bool> is_used(cluster.devices().size());
  for (DeviceId device : plan.devices) is_used[device.index()] = true;
  std::vector<DeviceId> unused;
  for (std::size_t d = 0; d < is_used.size(); ++d)
    if (!is_used[d]) unused.push_back(DeviceId(d));
  return unused;
}

Bytes largest_memory(const Planned& planned) {
  Bytes largest;
  for (Bytes bytes : planned.estimate.memory)
    largest = std::max(largest, bytes);
  return largest;
}

double gap(const Planned& planned) {
  return planned.lower_bound > Seconds(0)
             ? planned.estimate.step / planned.lower_bound - 1
             : 0;
}

std::string gap_text(const Planned& planned) {
  if (planned.lower_bound <= Seconds(0)) return "";
  return "at most " + percent(gap(planned)) +
         " slower than the best possible plan (lower bound " +
         to_text(planned.lower_bound) + ")";
}

std::string layer_groups_text(const Candidate& candidate,
                              const Profile& profile) {
  if (!candidate.planned || candidate.planned->layer_groups == 0) return "";
  return candidate.planner + ": cuts between " +
         std::to_string(candidate.planned->layer_groups) +
         " groups of layers; a search over all " +
         std::to_string(profile.num_layers()) + " layers takes too long\n";
}

std::string layers_text(const std::vector<LayerId>& layers,
                        const Profile& profile) {
  if (layers.empty()) return "none";
  std::string text = profile.layers[layers.front().index()].name;
  if (layers.size() > 1)
    text += " .. " + profile.layers[layers.back().index()].name;
  return text + " (" + std::to_string(layers.size()) + ")";
}

Json to_json(const Candidate& candidate, const LoadedProblem& loaded) {
  Json json = Json::object();
  json.set("planner", candidate.planner);
  json.set("method", to_text(candidate.method));
  json.set("planning_seconds", candidate.planning.value());
  json.set("was_cut_short", candidate.was_cut_short);
  if (!candidate.planned) return json.set("refused", candidate.refusal);
  const Planned& planned = *candidate.planned;
  const Plan& plan = planned.plan;
  const double step = planned.estimate.step.value();
  json.set("schedule", plan.schedule_name);
  json.set("number_type", plan.number_type);
  json.set("microbatch", plan.microbatch);
  json.set("microbatches", plan.num_microbatches());
  json.set("step_seconds", step);
  json.set("throughput", step > 0 ? plan.minibatch / step : 0.0);
  json.set("bubble", planned.estimate.bubble);
  json.set("bottleneck_seconds", planned.bottleneck.value());
  json.set("promised_seconds", planned.promised.value());
  json.set("lower_bound_seconds", planned.lower_bound.value());
  json.set("gap", gap(planned));
  json.set("memory_bytes", largest_memory(planned).value());
  json.set("traffic_bytes", planned.estimate.traffic.value());
  json.set("staleness", planned.estimate.staleness);
  Json stages = Json::array();
  for (const Stage& stage : whole_stages(plan))
    stages.push(stage_json(stage, planned, loaded));
  json.set("stages", std::move(stages));
  if (has_buckets(plan)) json.set("buckets", num_buckets(plan));
  if (const auto unused = unused_devices(plan, *loaded.cluster);
      !unused.empty())
    json.set("unused_devices", names_json(unused, *loaded.cluster));
  if (planned.layer_groups > 0) json.set("layer_groups", planned.layer_groups);
  if (!planned.why.empty()) json.set("why", planned.why);
  if (!planned.notes.empty()) json.set("notes", strings(planned.notes));
  return json;
}

}  // namespace pipewright::cli
