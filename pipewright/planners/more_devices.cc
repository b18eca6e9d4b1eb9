#include "pipewright/planners/more_devices.h"

#include <algorithm>
#include <chrono>

#include "pipewright/base/text.h"
#include "pipewright/planners/refusal.h"

namespace pipewright {
namespace {

constexpr double kMostSeconds = 2;  // beyond what the search itself took
constexpr int kMostTimes = 64;      // as many devices as there are

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

  std::optional<Enough> run() {
    if (has_giant()) return {};
    int low = text_.count, high = std::max(low + 1, first_guess());
    const int most = low * kMostTimes;
    while (!fits(high)) {
      low = high;
      high = std::min(2 * high, most);
      if (is_over() || low >= most) return {};
    }
    while (high - low > 1) {
      const int middle = low + (high - low) / 2;
      (fits(middle) ? high : low) = middle;
      if (is_over()) return {};
    }
    return Enough{text_.with(high), devices_of(high)};
  }

 private:
  bool is_over() const {
    return (has_end_ && std::chrono::steady_clock::now() > end_) ||
           problem_.is_over();
  }

  // A layer whose weights alone fill a device fits on none, however many there
  // are.
  bool has_giant() const {
    Bytes memory, largest;
    for (int d = 0; d < problem_.cluster->num_devices(); ++d)
      memory = std::max(memory, problem_.memory_of(DeviceId(d)));
    for (int l = 0; l < problem_.profile->num_layers(); ++l)
      largest =
          std::max(largest, problem_.profile->parameter_bytes(LayerId(l)));
    return largest > memory;
  }

  // As many as the formula says.
  int first_guess() const {
    const int devices = problem_.cluster->num_devices();
    const int wanted = devices_needed(problem_, true);
    return (wanted * text_.count + devices - 1) / devices;
  }

  // auto copies plans to many devices, for which there is no estimator here:
  // what it would find then is not known.
  bool copies_plans(const Cluster& cluster) const {
    return planner_.name() == "auto" && cluster.num_devices() > 16;
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
    larger.estimator_for = nullptr;  // its refusals need not search again
    larger.is_over_ = [this] { return is_over(); };
    return bool(planner_.plan(larger));
  }

  const Problem& problem_;
  const Planner& planner_;
  const ClusterText text_;
  const bool has_end_ = problem_.budget > Seconds(0);
  const std::chrono::steady_clock::time_point end_ =
      std::chrono::steady_clock::now() +
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::duration<double>(kMostSeconds));
};

}  // namespace

std::optional<Enough> enough_devices(const Problem& problem,
                                     const std::string& planner) {
  if (!problem.estimator_for) return {};
  const auto found = find_planner(planner);
  const auto text = text_of(*problem.cluster);
  if (!found || !text) return {};
  return Search(problem, **found, *text).run();
}

}  // namespace pipewright
