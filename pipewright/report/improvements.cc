#include "pipewright/report/improvements.h"

#include <algorithm>
#include <map>

#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/plan/gradient_buckets.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/planners/tuned_replicas.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

constexpr double kLeastSaved = 0.001;
constexpr std::size_t kMaxTried = 3;  // links, and devices
// Where one more device is tried: planning anew takes about a second at most.
constexpr int kMaxDevicesReplanned = 16, kMaxLayersReplanned = 200;

using Workers = std::vector<WorkerId>;
using WorkerPair = std::pair<WorkerId, WorkerId>;

std::string number(std::int32_t value) { return std::to_string(value); }

// Keys by their share of the critical path, the largest first.
template <typename Key>
std::vector<Key> largest_shares(const std::map<Key, double>& seconds) {
  std::vector<Key> keys;
  for (const auto& [key, share] : seconds)
    if (share > 0) keys.push_back(key);
  std::stable_sort(keys.begin(), keys.end(), [&](const Key& a, const Key& b) {
    return seconds.at(a) > seconds.at(b);
  });
  if (keys.size() > kMaxTried) keys.resize(kMaxTried);
  return keys;
}

bool can_replan(const SimulatedPlan& simulated) {
  return simulated.cluster().num_devices() < kMaxDevicesReplanned &&
         simulated.profile().num_layers() <= kMaxLayersReplanned;
}

// The fastest plan of the planners that take little time.
std::optional<Planned> replanned(const SimulatedPlan& simulated,
                                 const Cluster& cluster) {
  Problem problem = simulated.problem;
  problem.cluster = &cluster;
  if (problem.microbatches_for)
    problem.microbatches = problem.microbatches_for(cluster);
  set_estimators(problem);
  std::optional<Planned> best;
  for (const auto& planner : planners()) {
    if (planner->effort() > PlanningEffort::Quadratic) continue;
    auto other = plan_with_tuned_replicas(
        problem, [&](const Problem& tuned) { return planner->plan(tuned); });
    if (other && other->estimate.fits &&
        (!best || other->estimate.step < best->estimate.step))
      best = *std::move(other);
  }
  return best;
}

class Trials {
 public:
  Trials(const SimulatedPlan& simulated, const std::optional<Planned>& anew)
      : simulated_(simulated), anew_(anew) {}

  std::vector<Improvement> run() {
    note_path();
    for (const WorkerPair& pair : largest_shares(links_)) try_link(pair);
    if (simulated_.timeline.links.size() > 1) try_all_links();
    for (const Workers& workers : largest_shares(computing_))
      try_devices(workers);
    try_microbatch(simulated_.plan.microbatch / 2);
    try_microbatch(simulated_.plan.microbatch * 2);
    if (anew_)
      add("planning anew with " + anew_->plan.planner + " on the same devices",
          anew_->estimate.step);
    if (can_replan(simulated_)) try_one_more_device();
    std::stable_sort(found_.begin(), found_.end(),
                     [](const Improvement& a, const Improvement& b) {
                       return a.saved > b.saved;
                     });
    return std::move(found_);
  }

 private:
  void note_path() {
    for (const PathPiece& piece : simulated_.path) {
      const double seconds = (piece.end - piece.start).value();
      if (piece.kind == PathPiece::Kind::Compute)
        computing_[workers_of(piece.stage)] += seconds;
      if (piece.kind == PathPiece::Kind::Link)
        links_[std::minmax(piece.worker, piece.to)] += seconds;
    }
  }

  const Workers& workers_of(StageId stage) const {
    return simulated_.plan.stages[stage.index()].workers;
  }

  void add(std::string what, Seconds step) {
    const Seconds now = simulated_.timeline.step_seconds;
    if (now <= Seconds(0)) return;
    const double saved = 1 - step / now;
    if (saved >= kLeastSaved) found_.push_back({std::move(what), step, saved});
  }

  void add_simulated(std::string what, const Costs& costs) {
    SimulateOptions summaries_only;
    summaries_only.keep_spans = summaries_only.track_memory = false;
    add(std::move(what),
        simulate(simulated_.program, costs, summaries_only).step_seconds);
  }

  // What the pair's link shares with others gets faster with it.
  void try_link(const WorkerPair& pair) {
    Costs costs = simulated_.costs;
    std::vector<bool> doubled(costs.resources.size(), false);
    for (std::size_t t = 0; t < costs.transfers.size(); ++t) {
      const Transfer& what = simulated_.program.transfers[t];
      if (WorkerPair(std::minmax(what.from, what.to)) != pair) continue;
      costs.transfers[t].bandwidth =
          BytesPerSecond(costs.transfers[t].bandwidth.value() * 2);
      for (const Link::Use& use : costs.transfers[t].uses)
        doubled[std::size_t(use.resource)] = true;
    }
    double_resources(costs, doubled);
    add_simulated("doubling the bandwidth between workers " +
                      number(pair.first.value) + " and " +
                      number(pair.second.value),
                  costs);
  }

  void try_all_links() {
    Costs costs = simulated_.costs;
    for (Costs::TransferCost& transfer : costs.transfers)
      transfer.bandwidth = BytesPerSecond(transfer.bandwidth.value() * 2);
    for (Costs::ReductionCost& reduction : costs.reductions)
      reduction.bandwidth = BytesPerSecond(reduction.bandwidth.value() * 2);
    double_resources(costs, std::vector<bool>(costs.resources.size(), true));
    add_simulated("doubling the bandwidth of all links", costs);
  }

  static void double_resources(Costs& costs, const std::vector<bool>& which) {
    for (std::size_t r = 0; r < which.size(); ++r)
      if (which[r])
        costs.resources[r].bandwidth =
            BytesPerSecond(costs.resources[r].bandwidth.value() * 2);
  }

  // "stage 0", "stages 0 and 4": what these workers hold.
  std::string stages_on(const Workers& workers) const {
    const std::vector<StageId> whole = whole_stage_ids(simulated_.plan);
    std::vector<std::string> numbers;
    for (std::size_t s = 0; s < whole.size(); ++s)
      if (!simulated_.plan.stages[s].bucket &&
          workers_of(StageId(s)) == workers)
        numbers.push_back(number(whole[s].value));
    const std::string last = numbers.back();
    if (numbers.size() == 1) return "stage " + last;
    numbers.pop_back();
    return "stages " + join(numbers, ", ") + " and " + last;
  }

  void try_devices(const Workers& workers) {
    Costs costs = simulated_.costs;
    for (std::size_t o = 0; o < costs.operations.size(); ++o) {
      const WorkerId worker = simulated_.program.operations[o].worker;
      if (std::find(workers.begin(), workers.end(), worker) == workers.end())
        continue;
      for (Seconds& seconds : costs.operations[o].compute)
        seconds = seconds / 2.0;
      costs.operations[o].step = costs.operations[o].step / 2.0;
    }
    const std::string whose = workers.size() == 1 ? "device" : "devices";
    add_simulated(
        "doubling the speed of the " + whose + " of " + stages_on(workers),
        costs);
  }

  void try_microbatch(int size) {
    const Plan& plan = simulated_.plan;
    if (size < 1 || plan.minibatch % size != 0) return;
    const auto whole = without_buckets(plan);
    auto pipeline = whole ? pipeline_of(*whole) : std::nullopt;
    if (!pipeline) return;
    pipeline->microbatch = size;
    const auto other = planned(
        *pipeline, with_tuned_replicas(simulated_.problem), plan.planner);
    if (other && other->estimate.fits)
      add((size < plan.microbatch ? "halving" : "doubling") +
              std::string(" the microbatch to ") + number(size) +
              (size == 1 ? " sample" : " samples"),
          other->estimate.step);
  }

  // None for stages that are not consecutive layers, schedules written by hand
  // and recompute over several stages.
  static std::optional<Pipeline> pipeline_of(const Plan& plan) {
    if (plan.schedule_name.empty()) return {};
    Pipeline pipeline;
    pipeline.schedule = plan.schedule_name;
    pipeline.replication = plan.replication;
    std::vector<std::vector<WorkerId>> distinct;
    int end = 0, backward_end = 0;
    for (const Stage& stage : plan.stages) {
      if (stage.continues || !follows(stage.forward, end) ||
          !follows(stage.backward, backward_end))
        return {};
      PipelineStage next{
          end, backward_end == end ? -1 : backward_end, {}, stage.recompute};
      for (WorkerId worker : stage.workers)
        next.devices.push_back(plan.devices[worker.index()]);
      if (std::find(distinct.begin(), distinct.end(), stage.workers) ==
          distinct.end())
        distinct.push_back(stage.workers);
      pipeline.stages.push_back(std::move(next));
    }
    if (distinct.empty() || plan.stages.size() % distinct.size() != 0)
      return {};
    pipeline.stages_per_worker = int(plan.stages.size() / distinct.size());
    return pipeline;
  }

  // Whether the layers go on at `end`, which then is the first after them.
  static bool follows(const std::vector<LayerId>& layers, int& end) {
    for (LayerId layer : layers)
      if (layer.value != end++) return false;
    return true;
  }

  void try_one_more_device() {
    const Cluster& cluster = simulated_.cluster();
    const auto larger = with_one_more(cluster);
    if (!larger) return;
    if (const auto best = replanned(simulated_, *larger))
      add("one " + larger->kind_of(DeviceId(cluster.num_devices())).name +
              " more (planned anew with " + best->plan.planner + ")",
          best->estimate.step);
  }

  // The new device is like the last one: its kind, its host, its links.
  static Result<Cluster> with_one_more(const Cluster& cluster) {
    ClusterBuilder builder(cluster.name());
    for (const DeviceKind& kind : cluster.kinds()) builder.add_kind(kind);
    for (const SharedResource& resource : cluster.resources())
      builder.add_resource(resource);
    for (const Device& device : cluster.devices()) builder.add_device(device);
    const int last = cluster.num_devices() - 1;
    Device added = cluster.devices().back();
    added.name += "+1";
    const DeviceId extra = builder.add_device(added);
    for (int a = 0; a <= last; ++a)
      for (int b = 0; b <= last; ++b)
        if (const Link* link = cluster.link(DeviceId(a), DeviceId(b));
            a != b && link)
          builder.connect(DeviceId(a), DeviceId(b), *link);
    const int neighbour = std::max(0, last - 1);
    for (int d = 0; d <= last; ++d) {
      const DeviceId from = DeviceId(d == last ? neighbour : d);
      if (const Link* link = cluster.link(from, DeviceId(last));
          link && from != DeviceId(last))
        builder.connect_both(DeviceId(d), extra, *link);
    }
    return builder.build();
  }

  const SimulatedPlan& simulated_;
  const std::optional<Planned>& anew_;
  std::map<Workers, double> computing_;
  std::map<WorkerPair, double> links_;
  std::vector<Improvement> found_;
};

}  // namespace

std::optional<Planned> planned_anew(const SimulatedPlan& simulated) {
  if (!can_replan(simulated)) return {};
  return replanned(simulated, simulated.cluster());
}

std::vector<Improvement> improvements(const SimulatedPlan& simulated,
                                      const std::optional<Planned>& anew) {
  return Trials(simulated, anew).run();
}

}  // namespace pipewright
