#include "pipewright/planners/fewest_devices.h"

#include <algorithm>
#include <chrono>

#include "pipewright/base/text.h"
#include "pipewright/planners/devices_needed.h"
#include "pipewright/planners/plan_in_time.h"

namespace pipewright {
namespace {

constexpr double kMaxSeconds = 2;  // in addition to the planner's own search
constexpr int kMaxFactor = 64;     // times the devices of the cluster

// "4" and "xV100@1GB/s" of "4xV100@1GB/s".
struct ClusterText {
  int count = 0;
  std::string rest;

  std::string with(int number) const { return std::to_string(number) + rest; }
};

std::optional<ClusterText> text_of(const Cluster& cluster) {
  const std::string& name = cluster.name();
  const std::size_t end = name.find_first_not_of("0123456789");
  if (end == 0 || end == std::string::npos || name[end] != 'x') return {};
  const auto count = parse_integer(name.substr(0, end));
  const auto same = load_cluster(name);
  if (!count || !same || *same != cluster) return {};
  return ClusterText{static_cast<int>(*count), name.substr(end)};
}

class Search {
 public:
  Search(const Problem& problem, const Planner& planner, ClusterText text)
      : problem_(problem), planner_(planner), text_(std::move(text)) {}

  std::optional<FewestDevices> run() {
    if (is_over() || has_giant_layer()) return {};
    int low = text_.count, high = std::max(low + 1, first_guess());
    const int max_count = low * kMaxFactor;
    while (!fits(high)) {
      low = high;
      high = std::min(2 * high, max_count);
      if (is_over() || low >= max_count) return {};
    }
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
      if (is_over()) return {};
    }
    return FewestDevices{text_.with(high), devices_of(high)};
  }

 private:
  bool is_over() const {
    return (has_end_ && std::chrono::steady_clock::now() > end_) ||
           problem_.is_over();
  }

  // A layer whose weights exceed every device's memory fits on no cluster.
  bool has_giant_layer() const {
    Bytes memory, largest;
    for (int d = 0; d < problem_.cluster->num_devices(); ++d)
      memory = std::max(memory, problem_.memory_of(DeviceId(d)));
    for (int l = 0; l < problem_.profile->num_layers(); ++l)
      largest =
          std::max(largest, problem_.profile->parameter_bytes(LayerId(l)));
    return largest > memory;
  }

  int first_guess() const {
    const int devices = problem_.cluster->num_devices();
    const int needed = devices_needed(problem_, true);
    return (needed * text_.count + devices - 1) / devices;
  }

  // `auto` copies plans for small groups to many devices, which needs an
  // estimator of copies. There is none here, so its plan would be another.
  bool copies_plans(const Cluster& cluster) const {
    return planner_.effort() == PlanningEffort::AllPlanners &&
           cluster.num_devices() > 16;
  }

  int devices_of(int number) const {
    const auto cluster = load_cluster(text_.with(number));
    return cluster ? cluster->num_devices() : 0;
  }

  bool fits(int number) const {
    const auto cluster = load_cluster(text_.with(number));
    if (!cluster || copies_plans(*cluster)) return false;
    Problem larger = problem_;
    larger.cluster = &*cluster;
    if (problem_.microbatches_for)
      larger.microbatches = problem_.microbatches_for(*cluster);
    larger.estimate = problem_.estimator_for(*problem_.profile, *cluster,
                                             problem_.memory_limit);
    larger.estimate_copies = nullptr;
    larger.estimator_for = nullptr;  // a failure must not start this search
    larger.is_over_ = [this] { return is_over(); };
    larger.wants_bound = false;
    return bool(plan_in_time(planner_, larger));
  }

  const Problem& problem_;
  const Planner& planner_;
  const ClusterText text_;
  const bool has_end_ = problem_.budget > Seconds(0);
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(kMaxSeconds));
};

}  // namespace

std::optional<FewestDevices> fewest_devices(const Problem& problem,
                                            const std::string& planner) {
  if (!problem.estimator_for) return {};
  const auto found = find_planner(planner);
  const auto text = text_of(*problem.cluster);
  if (!found || !text) return {};
  return Search(problem, **found, *text).run();
}

}  // namespace pipewright
