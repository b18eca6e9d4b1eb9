#include "pipewright/planners/exact/exact_any_set.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// The device of each group, and the loads of all devices. Accelerators come
// before CPUs.
class Placement {
 public:
  Placement(const ChainProblem& problem, std::vector<int> device_of)
      : problem_(problem),
        device_of_(std::move(device_of)),
        tensors_of_(problem.nodes.size()),
        load_(at(num_devices()), 0),
        size_(at(num_devices()), 0),
        held_(problem.tensors.size(), std::vector<int>(at(num_devices()), 0)) {
    for (std::size_t t = 0; t < problem.tensors.size(); ++t)
      for (int g : problem.tensors[t].nodes) {
        tensors_of_[at(g)].push_back(static_cast<int>(t));
        ++held_[t][at(device_of_[at(g)])];
      }
    sum_up();
  }

  int num_devices() const {
    return problem_.num_accelerators + problem_.num_cpus;
  }
  int num_groups() const { return static_cast<int>(device_of_.size()); }
  int device_of(int group) const { return device_of_[at(group)]; }
  const std::vector<double>& loads() const { return load_; }
  double largest() const {
    return *std::max_element(load_.begin(), load_.end());
  }
  bool fits(int device) const {
    return is_cpu(device) || size_[at(device)] <= problem_.limit;
  }

  void move(int group, int to) {
    const int from = device_of_[at(group)];
    const ChainNode& node = problem_.nodes[at(group)];
    // kNever cannot be subtracted again; callers check may_be_on().
    load_[at(from)] -= is_cpu(from) ? node.cpu : node.accelerator;
    load_[at(to)] += is_cpu(to) ? node.cpu : node.accelerator;
    size_[at(from)] -= node.size;
    size_[at(to)] += node.size;
    for (int t : tensors_of_[at(group)])
      for (const auto& [device, change] : {std::pair{from, -1}, {to, 1}}) {
        if (!is_cpu(device)) load_[at(device)] -= cut(t, device);
        held_[at(t)][at(device)] += change;
        if (!is_cpu(device)) load_[at(device)] += cut(t, device);
      }
    device_of_[at(group)] = to;
  }

  bool may_be_on(int group, int device) const {
    const ChainNode& node = problem_.nodes[at(group)];
    return (is_cpu(device) ? node.cpu : node.accelerator) < kNever;
  }

  // Computes all loads again, which removes the rounding errors of moves.
  void sum_up() {
    std::vector<std::vector<int>> groups(at(num_devices()));
    for (int g = 0; g < num_groups(); ++g)
      groups[at(device_of(g))].push_back(g);
    for (int d = 0; d < num_devices(); ++d) {
      const auto& held = groups[at(d)];
      load_[at(d)] = is_cpu(d) ? cpu_load(problem_, held)
                               : accelerator_load(problem_, held);
      size_[at(d)] = size_on(problem_, held, 0);
    }
  }

 private:
  bool is_cpu(int device) const { return device >= problem_.num_accelerators; }
  double cut(int t, int device) const {
    const ChainTensor& tensor = problem_.tensors[at(t)];
    const int held = held_[at(t)][at(device)];
    return held > 0 && at(held) < tensor.nodes.size() ? tensor.cost : 0;
  }

  const ChainProblem& problem_;
  std::vector<int> device_of_;
  std::vector<std::vector<int>> tensors_of_;
  std::vector<double> load_, size_;
  std::vector<std::vector<int>> held_;
};

// A sum of high powers weighs the largest loads most, and still rewards
// lowering the others.
double score(const std::vector<double>& loads, double scale) {
  double sum = 0;
  for (double load : loads) sum += std::pow(load / scale, 16);
  return sum;
}

class Descent {
 public:
  explicit Descent(Placement& placement) : placement_(placement) {}

  int run() {
    constexpr int kMaxMoves = 10'000;
    int moves = 0;
    scale_ = std::max(placement_.largest(), 1e-300);
    while (moves < kMaxMoves && (one_move() || one_swap())) ++moves;
    return moves;
  }

 private:
  // Whether the change to devices a and b is an improvement.
  bool is_better(int a, int b) const {
    return placement_.fits(a) && placement_.fits(b) &&
           score(placement_.loads(), scale_) < now_ * (1 - 1e-9);
  }
  void accept() {
    placement_.sum_up();
    scale_ = std::max(placement_.largest(), 1e-300);
  }
  bool one_move() {
    now_ = score(placement_.loads(), scale_);
    for (int g = 0; g < placement_.num_groups(); ++g) {
      const int from = placement_.device_of(g);
      for (int to = 0; to < placement_.num_devices(); ++to) {
        if (to == from || !placement_.may_be_on(g, to)) continue;
        placement_.move(g, to);
        if (is_better(from, to)) return accept(), true;
        placement_.move(g, from);
      }
    }
    return false;
  }
  // Swaps a group on a device with the largest load and one on another device.
  bool one_swap() {
    placement_.sum_up();
    now_ = score(placement_.loads(), scale_);
    const auto& loads = placement_.loads();
    const int full = static_cast<int>(
        std::max_element(loads.begin(), loads.end()) - loads.begin());
    for (int g = 0; g < placement_.num_groups(); ++g)
      for (int h = 0; h < placement_.num_groups(); ++h) {
        const int other = placement_.device_of(h);
        if (placement_.device_of(g) != full || other == full ||
            !placement_.may_be_on(g, other) || !placement_.may_be_on(h, full))
          continue;
        placement_.move(g, other);
        placement_.move(h, full);
        if (is_better(full, other)) return accept(), true;
        placement_.move(h, other);
        placement_.move(g, full);
      }
    return false;
  }

  Placement& placement_;
  double now_ = 0, scale_ = 1;
};

std::vector<int> devices_of(const PlacementInstance& instance,
                            const GroupedInstance& groups,
                            const PlacementSplit& split) {
  std::unordered_map<int, int> device_of_id;
  int device = 0;
  for (const PlacementPart& part : split.accelerators) {
    for (int id : part.node_ids) device_of_id[id] = device;
    ++device;
  }
  device = groups.problem.num_accelerators;
  for (const PlacementPart& part : split.cpus) {
    for (int id : part.node_ids) device_of_id[id] = device;
    ++device;
  }
  std::vector<int> devices;
  for (const auto& group : groups.groups)
    devices.push_back(device_of_id[instance.nodes[at(group[0])].id]);
  return devices;
}

}  // namespace

Result<AnySetSolution> any_set(const PlacementInstance& instance,
                               const PlacementSplit& start) {
  if (auto checked = loads(instance, start); !checked) return checked.error();
  GroupedInstance groups = grouped(instance, Chains::No);
  // More devices than groups are of no use.
  const int num_groups = static_cast<int>(groups.groups.size());
  groups.problem.num_accelerators =
      std::min(groups.problem.num_accelerators, num_groups);
  groups.problem.num_cpus = std::min(groups.problem.num_cpus, num_groups);
  if (num_groups == 0) return AnySetSolution{};
  Placement placement(groups.problem, devices_of(instance, groups, start));
  AnySetSolution solution;
  solution.moves = Descent(placement).run();
  std::vector<ChainPart> parts(at(placement.num_devices()));
  for (int g = 0; g < placement.num_groups(); ++g)
    parts[at(placement.device_of(g))].nodes.push_back(g);
  for (std::size_t d = 0; d < parts.size(); ++d) {
    parts[d].on_cpu = d >= at(groups.problem.num_accelerators);
    parts[d].load = load_of(groups.problem, parts[d]);
  }
  std::erase_if(parts, [](const ChainPart& p) { return p.nodes.empty(); });
  solution.split = split_of(instance, groups, parts);
  solution.load = solution.split.max_load;
  solution.lower_bound = work_bound(groups.problem);
  return solution;
}

}  // namespace pipewright
