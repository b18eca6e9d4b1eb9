#include "pipewright/planners/exact/exact_search.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

double finite_cost(double cost) { return cost < kNever ? cost : 0; }

// splitmix64 of the index.
std::uint64_t key_of(std::uint64_t i) {
  i = (i + 1) * 0x9e3779b97f4a7c15ULL;
  i = (i ^ (i >> 30)) * 0xbf58476d1ce4e5b9ULL;
  i = (i ^ (i >> 27)) * 0x94d049bb133111ebULL;
  return i ^ (i >> 31);
}

}  // namespace

ChainSearch::ChainSearch(const ChainProblem& problem, const ExactLimits& limits)
    : problem_(problem),
      limits_(limits),
      graph_(neighbours(problem)),
      order_(topological_orders(problem).at(0)),
      tensors_of_(problem.nodes.size()),
      reached_(problem) {
  for (std::size_t t = 0; t < problem.tensors.size(); ++t)
    for (int v : problem.tensors[t].nodes)
      tensors_of_[at(v)].push_back(static_cast<int>(t));
  for (std::size_t v = 0; v < problem.nodes.size(); ++v) {
    keys_.push_back(key_of(v));
    const ChainNode& node = problem.nodes[v];
    if (node.accelerator < kNever && node.cpu < kNever && node.accelerator > 0)
      cpu_worth_ = std::max(
          cpu_worth_, node.cpu > 0 ? node.accelerator / node.cpu : kNever);
  }
  sum_ancestors();
}

// What all nodes up to each node take, as far as it is finite.
void ChainSearch::sum_ancestors() {
  const std::size_t n = problem_.nodes.size(), words = reached_.words();
  std::vector<ReachedDownsets::Bits> up_to(n, ReachedDownsets::Bits(words, 0));
  up_to_.resize(n);
  for (int v : order_) {
    auto& bits = up_to[at(v)];
    bits[at(v) / 64] |= 1ULL << (at(v) % 64);
    for (int u : graph_.before[at(v)])
      for (std::size_t w = 0; w < words; ++w) bits[w] |= up_to[at(u)][w];
    for (std::size_t u = 0; u < n; ++u)
      if (bits[u / 64] >> (u % 64) & 1) {
        up_to_[at(v)].accelerator += finite_cost(problem_.nodes[u].accelerator);
        up_to_[at(v)].cpu += finite_cost(problem_.nodes[u].cpu);
      }
  }
}

void ChainSearch::start(double target) {
  target_ = target;
  last_way_ = -1;
  reached_.clear();
  bits_.assign(reached_.words(), 0);
  key_ = 0;
  count_ = 0;
  add_way(current_downset(), {});
}

std::vector<ChainPart> ChainSearch::below(double target) {
  start(target);
  for (std::size_t size = 0; size < problem_.nodes.size(); ++size)
    for (std::size_t i = 0; i < reached_.of_size(size).size() && !is_done();
         ++i)
      extend(reached_.of_size(size)[i]);
  if (last_way_ < 0) return {};
  return reached_.chain_to(last_way_);
}

// The accelerator time that so many devices can do below the target.
double ChainSearch::work_below(int accelerators, int cpus) const {
  const double by_cpu = cpus > 0 ? cpus * cpu_worth_ : 0;
  return target_ * (accelerators + by_cpu) * (1 + kLoadRounding);
}

void ChainSearch::extend(int downset) {
  if (!choose_ways(downset)) return;
  open_nodes(downset);
  decide(0);
}

// The ways that have a device left, and the most that they leave for the rest.
bool ChainSearch::choose_ways(int downset) {
  chosen_.clear();
  may_accelerator_ = may_cpu_ = false;
  no_cpu_left_ = true;
  rest_limit_ = 0;
  times_kept_ = 1;
  for (int w = reached_.first_way(downset); w >= 0; w = reached_.way(w).next) {
    const Way& way = reached_.way(w);
    const int accelerators = problem_.num_accelerators - way.accelerators;
    const int cpus = problem_.num_cpus - way.cpus;
    if (accelerators + cpus == 0) continue;
    chosen_.push_back(w);
    may_accelerator_ = may_accelerator_ || accelerators > 0;
    may_cpu_ = may_cpu_ || cpus > 0;
    if (cpus > 0) no_cpu_left_ = false;
    times_kept_ = std::max(times_kept_,
                           std::min(way.accelerators + 1, problem_.max_kept));
    if (accelerators > 0)
      rest_limit_ = std::max(rest_limit_, work_below(accelerators - 1, cpus));
    if (cpus > 0)
      rest_limit_ = std::max(rest_limit_, work_below(accelerators, cpus - 1));
  }
  return !chosen_.empty();
}

// Sets up the decisions about the nodes that are not in the downset. A node is
// out from the start if it and the nodes that must come with it take too long
// for any part.
void ChainSearch::open_nodes(int downset) {
  const std::size_t n = problem_.nodes.size();
  const std::uint64_t* bits = reached_.bits(downset);
  bits_.assign(bits, bits + reached_.words());
  place_.assign(n, Place::Open);
  missing_.assign(n, 0);
  ready_.clear();
  trail_.clear();
  sums_ = {};
  key_ = 0;
  count_ = start_count_ = reached_.size(downset);
  Sums before;
  const double reachable = target_ * (1 + 1e-9);  // allows for rounding
  tensors_.clear();
  for (const ChainTensor& tensor : problem_.tensors)
    tensors_.push_back(
        {tensor.cost, static_cast<int>(tensor.nodes.size()), 0, 0, 0});
  for (std::size_t v = 0; v < n; ++v)
    if (bits[v / 64] >> (v % 64) & 1) {
      place_[v] = Place::Before;
      key_ ^= keys_[v];
      before.accelerator += finite(problem_.nodes[v].accelerator);
      before.cpu += finite(problem_.nodes[v].cpu);
      for (int t : tensors_of_[v]) ++tensors_[at(t)].before;
    }
  for (int v : order_) {
    if (place_[at(v)] == Place::Before) continue;
    for (int u : graph_.before[at(v)])
      if (place_[at(u)] != Place::Before) ++missing_[at(v)];
    if (missing_[at(v)] == 0) ready_.push_back(v);
  }
  for (int v : order_)
    if (place_[at(v)] == Place::Open &&
        !(may_accelerator_ &&
          up_to_[at(v)].accelerator - before.accelerator < reachable) &&
        !(may_cpu_ && up_to_[at(v)].cpu - before.cpu < reachable))
      put_out(v);
  sum_open_nodes();
}

// What could still join the part.
void ChainSearch::sum_open_nodes() {
  double size = 0;
  sums_.accelerator_open = sums_.cpu_open = 0;
  for (std::size_t v = 0; v < place_.size(); ++v) {
    if (place_[v] != Place::Open) continue;
    const ChainNode& costs = problem_.nodes[v];
    sums_.accelerator_open += costs.accelerator;
    sums_.cpu_open += costs.cpu;
    size += costs.size + times_kept_ * costs.kept;
  }
  for (const Tensor& tensor : tensors_)
    if (tensor.open() > 0 && !tensor.is_cut())
      sums_.accelerator_open += tensor.cost;
  always_has_room_ = size <= problem_.limit;
}

// Whether some completion of the part may belong to a chain below the target.
bool ChainSearch::can_succeed() const {
  constexpr double kSlack = 1 + 1e-9;  // for the rounding of undone sums
  const bool accelerator =
      may_accelerator_ && sums_.accelerator < target_ &&
      sums_.size + sums_.kept <= problem_.limit &&
      !((sums_.accelerator + sums_.accelerator_open) * kSlack <
        sums_.accelerator_full);
  const bool cpu = may_cpu_ && sums_.cpu < target_ &&
                   !((sums_.cpu + sums_.cpu_open) * kSlack < sums_.cpu_full);
  if (!accelerator && !cpu) return false;
  return !(sums_.rest + (no_cpu_left_ ? sums_.rest_cut : 0) > rest_limit_);
}

void ChainSearch::put_in(int node) {
  ++steps_;
  place_[at(node)] = Place::In;
  const ChainNode& costs = problem_.nodes[at(node)];
  sums_.accelerator += costs.accelerator;
  sums_.cpu += costs.cpu;
  sums_.size += costs.size;
  sums_.kept += costs.kept;
  sums_.accelerator_open -= costs.accelerator;
  sums_.cpu_open -= costs.cpu;
  for (int t : tensors_of_[at(node)]) {
    Tensor& tensor = tensors_[at(t)];
    const bool was_cut = tensor.is_cut();
    ++tensor.in;
    if (!was_cut && tensor.is_cut()) sums_.accelerator += tensor.cost;
    if (!was_cut && (tensor.is_cut() || tensor.open() == 0))
      sums_.accelerator_open -= tensor.cost;
    if (tensor.in == 1 && tensor.out > 0 && tensor.before == 0)
      sums_.rest_cut += tensor.cost;
  }
  for (int w : graph_.after[at(node)])
    if (--missing_[at(w)] == 0 && place_[at(w)] == Place::Open)
      ready_.push_back(w);
  bits_[at(node) / 64] |= 1ULL << (at(node) % 64);
  key_ ^= keys_[at(node)];
  ++count_;
}

// All but the sums and the ready nodes, which the caller restores.
void ChainSearch::undo_put_in(int node) {
  for (int w : graph_.after[at(node)]) ++missing_[at(w)];
  for (int t : tensors_of_[at(node)]) --tensors_[at(t)].in;
  bits_[at(node) / 64] &= ~(1ULL << (at(node) % 64));
  key_ ^= keys_[at(node)];
  --count_;
  place_[at(node)] = Place::Open;
}

// With a node, all nodes after it are out.
void ChainSearch::put_out(int node) {
  const std::size_t first = trail_.size();
  place_[at(node)] = Place::Out;
  trail_.push_back(node);
  for (std::size_t i = first; i < trail_.size(); ++i) {
    const int v = trail_[i];
    ++steps_;
    const ChainNode& costs = problem_.nodes[at(v)];
    sums_.rest += finite(costs.accelerator);
    sums_.accelerator_open -= costs.accelerator;
    sums_.cpu_open -= costs.cpu;
    for (int t : tensors_of_[at(v)]) {
      Tensor& tensor = tensors_[at(t)];
      const bool was_cut = tensor.is_cut();
      ++tensor.out;
      if (!was_cut && tensor.is_cut()) sums_.accelerator += tensor.cost;
      if (!was_cut && (tensor.is_cut() || tensor.open() == 0))
        sums_.accelerator_open -= tensor.cost;
      if (tensor.out == 1 && tensor.before + tensor.in > 0)
        sums_.rest_cut += tensor.cost;
    }
    for (int w : graph_.after[at(v)])
      if (place_[at(w)] == Place::Open) {
        place_[at(w)] = Place::Out;
        trail_.push_back(w);
      }
  }
}

// Of all nodes from position `trail` on; the caller restores the sums.
void ChainSearch::undo_put_out(std::size_t trail) {
  while (trail_.size() > trail) {
    const int v = trail_.back();
    trail_.pop_back();
    place_[at(v)] = Place::Open;
    for (int t : tensors_of_[at(v)]) --tensors_[at(t)].out;
  }
}

// Decides the ready nodes from `position` on, in all ways that can succeed.
void ChainSearch::decide(std::size_t position) {
  const Sums saved = sums_;
  const std::size_t trail = trail_.size();
  bool possible = can_succeed();
  for (; possible && position < ready_.size(); ++position) {
    const int node = ready_[position];
    if (place_[at(node)] != Place::Open) continue;
    const Sums undecided = sums_;
    const std::size_t ready = ready_.size();
    put_in(node);
    decide(position + 1);
    undo_put_in(node);
    ready_.resize(ready);
    sums_ = undecided;
    if (steps_ > limits_.steps || is_late()) exhausted_ = true;
    if (is_done()) break;
    require_full(node);
    put_out(node);
    possible = can_succeed();
  }
  if (possible && !is_done() && count_ > start_count_) finish_part();
  undo_put_out(trail);
  sums_ = saved;
}

// Whether a ready node could leave any later part without increasing its load.
// Once true, it stays true as the part grows.
bool ChainSearch::may_leave_later(int node) const {
  double saved = problem_.nodes[at(node)].accelerator, cut = 0;
  for (int t : tensors_of_[at(node)]) {
    const Tensor& tensor = tensors_[at(t)];
    const int held = tensor.before + tensor.in;
    if (held == 0) cut += tensor.cost;
    if (held == tensor.nodes - 1) saved += tensor.cost;
  }
  return cut <= saved;
}

// Called before a ready node is put out. If it could leave any later part, the
// part must come so near to the target that the node has no room in it.
void ChainSearch::require_full(int node) {
  if (!may_leave_later(node)) return;
  const ChainNode& costs = problem_.nodes[at(node)];
  double growth = costs.accelerator;
  for (int t : tensors_of_[at(node)])
    if (tensors_[at(t)].in == 0) growth += tensors_[at(t)].cost;
  if (always_has_room_)
    sums_.accelerator_full = std::max(sums_.accelerator_full, target_ - growth);
  sums_.cpu_full = std::max(sums_.cpu_full, target_ - costs.cpu);
}

// Whether some node that could leave later parts has room in the part.
void ChainSearch::find_room(bool& accelerator, bool& cpu) const {
  accelerator = cpu = false;
  for (int node : ready_) {
    if (place_[at(node)] != Place::Out || !may_leave_later(node)) continue;
    const ChainNode& costs = problem_.nodes[at(node)];
    double load = sums_.accelerator + costs.accelerator;
    for (int t : tensors_of_[at(node)]) {
      const Tensor& tensor = tensors_[at(t)];
      if (tensor.in == 0) load += tensor.cost;
      if (tensor.in == tensor.nodes - 1) load -= tensor.cost;
    }
    const double size =
        sums_.size + costs.size + times_kept_ * (sums_.kept + costs.kept);
    accelerator = accelerator || (load < target_ && size <= problem_.limit);
    cpu = cpu || sums_.cpu + costs.cpu < target_;
  }
}

bool ChainSearch::can_finish(const Way& way) const {
  if (count_ == static_cast<int>(problem_.nodes.size())) return true;
  const int accelerators = problem_.num_accelerators - way.accelerators;
  const int cpus = problem_.num_cpus - way.cpus;
  return accelerators + cpus > 0 &&
         sums_.rest + (cpus > 0 ? 0 : sums_.rest_cut) <=
             work_below(accelerators, cpus);
}

// The part is decided: its sums are now its loads.
void ChainSearch::finish_part() {
  bool room = false, cpu_room = false;
  find_room(room, cpu_room);
  int downset = -1;
  const auto continue_with = [&](const Way& way) {
    if (!can_finish(way)) return;
    if (downset < 0) downset = current_downset();
    add_way(downset, way);
  };
  for (int w : chosen_) {
    const Way from = reached_.way(w);
    const int times = std::min(from.accelerators + 1, problem_.max_kept);
    if (!room && from.accelerators < problem_.num_accelerators &&
        sums_.accelerator < target_ &&
        sums_.size + times * sums_.kept <= problem_.limit)
      continue_with({from.accelerators + 1, from.cpus, w, false});
    if (!cpu_room && from.cpus < problem_.num_cpus && sums_.cpu < target_)
      continue_with({from.accelerators, from.cpus + 1, w, true});
  }
}

int ChainSearch::current_downset() {
  const int before = reached_.num_downsets();
  const int downset = reached_.find_or_add(bits_, key_, count_);
  if (downset < before) return downset;
  ++num_downsets_;
  if (downset >= limits_.downsets) exhausted_ = true;
  return downset;
}

void ChainSearch::add_way(int downset, const Way& way) {
  const int index = reached_.add_way(downset, way);
  if (index >= 0 && count_ == static_cast<int>(problem_.nodes.size()))
    last_way_ = index;
}

}  // namespace pipewright
