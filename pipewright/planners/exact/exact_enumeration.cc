// The enumeration inside exact_search.h: which nodes join the next part.

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/planners/exact/exact_search.h"

namespace pipewright {
namespace {

double finite(double cost) { return cost < kNever ? cost : 0; }

}  // namespace

// Sets up the decisions behind a downset. Nodes that no part can reach (what
// must come with them takes too long) are out from the start.
void ChainSearch::open_up(int downset) {
  const std::size_t n = problem_.nodes.size();
  const std::uint64_t* bits = bits_of(downset);
  here_.assign(bits, bits + words_);
  place_.assign(n, Place::Open);
  missing_.assign(n, 0);
  ready_.clear();
  trail_.clear();
  sums_ = {};
  key_ = 0;
  count_ = start_count_ = downsets_[at(downset)].size;
  Sums before;
  const double reachable = target_ * (1 + 1e-9);  // sums may round
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
  measure_open();
}

// What could still join the part.
void ChainSearch::measure_open() {
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
    if (tensor.open() > 0 && !tensor.cut())
      sums_.accelerator_open += tensor.cost;
  has_room_ = size <= problem_.limit;
}

bool ChainSearch::hopeless() const {
  // A hair below, for the rounding of sums that are taken apart again.
  constexpr double kSlack = 1 + 1e-9;
  const bool accelerator =
      may_accelerator_ && sums_.accelerator < target_ &&
      sums_.size + sums_.kept <= problem_.limit &&
      !((sums_.accelerator + sums_.accelerator_open) * kSlack <
        sums_.accelerator_full);
  const bool cpu = may_cpu_ && sums_.cpu < target_ &&
                   !((sums_.cpu + sums_.cpu_open) * kSlack < sums_.cpu_full);
  if (!accelerator && !cpu) return true;
  return sums_.rest + (last_ ? sums_.rest_cut : 0) > rest_limit_;
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
    const bool was_cut = tensor.cut();
    ++tensor.in;
    if (!was_cut && tensor.cut()) sums_.accelerator += tensor.cost;
    if (!was_cut && (tensor.cut() || tensor.open() == 0))
      sums_.accelerator_open -= tensor.cost;
    if (tensor.in == 1 && tensor.out > 0 && tensor.before == 0)
      sums_.rest_cut += tensor.cost;
  }
  for (int w : graph_.behind[at(node)])
    if (--missing_[at(w)] == 0 && place_[at(w)] == Place::Open)
      ready_.push_back(w);
  here_[at(node) / 64] |= 1ULL << (at(node) % 64);
  key_ ^= keys_[at(node)];
  ++count_;
}

void ChainSearch::take_in_back(int node) {
  for (int w : graph_.behind[at(node)]) ++missing_[at(w)];
  for (int t : tensors_of_[at(node)]) --tensors_[at(t)].in;
  here_[at(node) / 64] &= ~(1ULL << (at(node) % 64));
  key_ ^= keys_[at(node)];
  --count_;
  place_[at(node)] = Place::Open;
}

// Out with a node goes all that is behind it.
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
      const bool was_cut = tensor.cut();
      ++tensor.out;
      if (!was_cut && tensor.cut()) sums_.accelerator += tensor.cost;
      if (!was_cut && (tensor.cut() || tensor.open() == 0))
        sums_.accelerator_open -= tensor.cost;
      if (tensor.out == 1 && tensor.before + tensor.in > 0)
        sums_.rest_cut += tensor.cost;
    }
    for (int w : graph_.behind[at(v)])
      if (place_[at(w)] == Place::Open) {
        place_[at(w)] = Place::Out;
        trail_.push_back(w);
      }
  }
}

void ChainSearch::take_out_back(std::size_t trail) {
  while (trail_.size() > trail) {
    const int v = trail_.back();
    trail_.pop_back();
    place_[at(v)] = Place::Open;
    for (int t : tensors_of_[at(v)]) --tensors_[at(t)].out;
  }
}

// Decides the ready nodes from `position` on, in all ways that have hope.
void ChainSearch::decide(std::size_t position) {
  const Sums saved = sums_;
  const std::size_t trail = trail_.size();
  bool hope = !hopeless();
  for (; hope && position < ready_.size(); ++position) {
    const int node = ready_[position];
    if (place_[at(node)] != Place::Open) continue;
    const Sums undecided = sums_;
    const std::size_t ready = ready_.size();
    put_in(node);
    decide(position + 1);
    take_in_back(node);
    ready_.resize(ready);
    sums_ = undecided;
    if (steps_ > limits_.steps || is_late()) exhausted_ = true;
    if (exhausted_ || last_way_ >= 0) break;
    demand_full(node);
    put_out(node);
    hope = !hopeless();
  }
  if (hope && !exhausted_ && last_way_ < 0 && count_ > start_count_) reach();
  take_out_back(trail);
  sums_ = saved;
}

// Whether a ready node may leave any later part without its load growing. Once
// true, it stays so as the part grows.
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

// A ready node is about to go out that would be welcome: then the part must
// come so near to the target that it has no room for it.
void ChainSearch::demand_full(int node) {
  if (!may_leave_later(node)) return;
  const ChainNode& costs = problem_.nodes[at(node)];
  double growth = costs.accelerator;
  for (int t : tensors_of_[at(node)])
    if (tensors_[at(t)].in == 0) growth += tensors_[at(t)].cost;
  if (has_room_)
    sums_.accelerator_full = std::max(sums_.accelerator_full, target_ - growth);
  sums_.cpu_full = std::max(sums_.cpu_full, target_ - costs.cpu);
}

// Whether some welcome node has room in the part as it is.
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

}  // namespace pipewright
