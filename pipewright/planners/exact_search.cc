#include "pipewright/planners/exact_search.h"

#include <algorithm>
#include <bit>

namespace pipewright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

// Keys that add up (xor) to that of a downset: splitmix64 of the index.
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
      words_((problem.nodes.size() + 63) / 64) {
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
}

void ChainSearch::start(double target) {
  target_ = target;
  last_way_ = -1;
  downsets_.clear();
  bits_.clear();
  ways_.clear();
  index_.clear();
  by_size_.assign(problem_.nodes.size() + 1, {});
  here_.assign(words_, 0);
  key_ = 0;
  count_ = 0;
  add_way(downset_of_bits(), {0, 0, 0, -1, false, -1});
}

std::vector<ChainPart> ChainSearch::below(double target) {
  start(target);
  const auto done = [&] { return exhausted_ || last_way_ >= 0; };
  for (std::size_t size = 0; size + 1 < by_size_.size(); ++size)
    for (std::size_t i = 0; i < by_size_[size].size() && !done(); ++i)
      expand(by_size_[size][i]);
  if (last_way_ < 0) return {};
  return chain_to(last_way_);
}

// The accelerator time that so many devices can take over below the target.
double ChainSearch::work_below(int accelerators, int cpus) const {
  const double by_cpu = cpus > 0 ? cpus * cpu_worth_ : 0;
  return target_ * (accelerators + by_cpu) * (1 + kLoadRounding);
}

// The ways from which the rest may still be done, and what they leave for it.
bool ChainSearch::choose_ways(int downset) {
  chosen_.clear();
  may_accelerator_ = may_cpu_ = false;
  last_ = true;
  rest_limit_ = 0;
  times_kept_ = 1;
  for (int w = downsets_[at(downset)].first_way; w >= 0;
       w = ways_[at(w)].next) {
    const Way& way = ways_[at(w)];
    const int accelerators = problem_.num_accelerators - way.accelerators;
    const int cpus = problem_.num_cpus - way.cpus;
    if (accelerators + cpus == 0) continue;
    chosen_.push_back(w);
    may_accelerator_ = may_accelerator_ || accelerators > 0;
    may_cpu_ = may_cpu_ || cpus > 0;
    if (cpus > 0) last_ = false;
    times_kept_ = std::max(times_kept_,
                           std::min(way.accelerators + 1, problem_.most_kept));
    if (accelerators > 0)
      rest_limit_ = std::max(rest_limit_, work_below(accelerators - 1, cpus));
    if (cpus > 0)
      rest_limit_ = std::max(rest_limit_, work_below(accelerators, cpus - 1));
  }
  return !chosen_.empty();
}

// Sets up the decisions behind a downset. Nodes that no part can reach (the
// longest way to them is too long) are out from the start.
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
  tensors_.clear();
  for (const ChainTensor& tensor : problem_.tensors)
    tensors_.push_back(
        {tensor.cost, static_cast<int>(tensor.nodes.size()), 0, 0, 0});
  for (std::size_t v = 0; v < n; ++v)
    if (bits[v / 64] >> (v % 64) & 1) {
      place_[v] = Place::Before;
      key_ ^= keys_[v];
      for (int t : tensors_of_[v]) ++tensors_[at(t)].before;
    }
  std::vector<double> accelerator(n, 0), cpu(n, 0);
  for (int v : order_) {
    if (place_[at(v)] == Place::Before) continue;
    for (int u : graph_.before[at(v)]) {
      if (place_[at(u)] == Place::Before) continue;
      ++missing_[at(v)];
      accelerator[at(v)] = std::max(accelerator[at(v)], accelerator[at(u)]);
      cpu[at(v)] = std::max(cpu[at(v)], cpu[at(u)]);
    }
    accelerator[at(v)] += problem_.nodes[at(v)].accelerator;
    cpu[at(v)] += problem_.nodes[at(v)].cpu;
    if (missing_[at(v)] == 0) ready_.push_back(v);
  }
  for (int v : order_)
    if (place_[at(v)] == Place::Open &&
        !(may_accelerator_ && accelerator[at(v)] < target_) &&
        !(may_cpu_ && cpu[at(v)] < target_))
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

void ChainSearch::expand(int downset) {
  if (!choose_ways(downset)) return;
  open_up(downset);
  decide(0);
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
    if (costs.accelerator < kNever) sums_.rest += costs.accelerator;
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
    if (steps_ > limits_.steps) exhausted_ = true;
    if (exhausted_ || last_way_ >= 0) break;
    demand_full(node);
    put_out(node);
    hope = !hopeless();
  }
  if (hope && !exhausted_ && last_way_ < 0 && count_ > start_count_) reach();
  take_out_back(trail);
  sums_ = saved;
}

bool ChainSearch::can_finish(int accelerators, int cpus) const {
  accelerators = problem_.num_accelerators - accelerators;
  cpus = problem_.num_cpus - cpus;
  const bool everything = count_ == static_cast<int>(problem_.nodes.size());
  if (everything) return true;
  return accelerators + cpus > 0 &&
         sums_.rest + (cpus > 0 ? 0 : sums_.rest_cut) <=
             work_below(accelerators, cpus);
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

// The part is decided: its sums are now its loads.
void ChainSearch::reach() {
  bool room = false, cpu_room = false;
  find_room(room, cpu_room);
  int downset = -1;
  const auto continue_with = [&](const Way& way) {
    if (!can_finish(way.accelerators, way.cpus)) return;
    if (downset < 0) downset = downset_of_bits();
    add_way(downset, way);
  };
  for (int w : chosen_) {
    const Way from = ways_[at(w)];
    const int times = std::min(from.accelerators + 1, problem_.most_kept);
    if (!room && from.accelerators < problem_.num_accelerators &&
        sums_.accelerator < target_ &&
        sums_.size + times * sums_.kept <= problem_.limit)
      continue_with({from.accelerators + 1, from.cpus, 0, w, false, -1});
    if (!cpu_room && from.cpus < problem_.num_cpus && sums_.cpu < target_)
      continue_with({from.accelerators, from.cpus + 1, 0, w, true, -1});
  }
}

int ChainSearch::downset_of_bits() {
  const auto [first, last] = index_.equal_range(key_);
  for (auto i = first; i != last; ++i)
    if (std::equal(here_.begin(), here_.end(), bits_of(i->second)))
      return i->second;
  const int made = static_cast<int>(downsets_.size());
  downsets_.push_back({count_, -1});
  bits_.insert(bits_.end(), here_.begin(), here_.end());
  index_.emplace(key_, made);
  by_size_[at(count_)].push_back(made);
  ++all_downsets_;
  if (made >= limits_.downsets) exhausted_ = true;
  return made;
}

void ChainSearch::add_way(int downset, const Way& way) {
  for (int w = downsets_[at(downset)].first_way; w >= 0;
       w = ways_[at(w)].next) {
    const Way& other = ways_[at(w)];
    if (other.accelerators <= way.accelerators && other.cpus <= way.cpus)
      return;
  }
  Way added = way;
  added.downset = downset;
  added.next = downsets_[at(downset)].first_way;
  const int index = static_cast<int>(ways_.size());
  downsets_[at(downset)].first_way = index;
  ways_.push_back(added);
  if (count_ == static_cast<int>(problem_.nodes.size())) last_way_ = index;
}

std::vector<ChainPart> ChainSearch::chain_to(int way) const {
  std::vector<ChainPart> parts;
  for (int w = way; ways_[at(w)].parent >= 0; w = ways_[at(w)].parent) {
    const Way& to = ways_[at(w)];
    const std::uint64_t* all = bits_of(to.downset);
    const std::uint64_t* before = bits_of(ways_[at(to.parent)].downset);
    ChainPart part;
    part.on_cpu = to.on_cpu;
    for (std::size_t v = 0; v < problem_.nodes.size(); ++v)
      if ((all[v / 64] & ~before[v / 64]) >> (v % 64) & 1)
        part.nodes.push_back(static_cast<int>(v));
    part.load = load_of(problem_, part);
    parts.push_back(std::move(part));
  }
  std::reverse(parts.begin(), parts.end());
  return parts;
}

}  // namespace pipewright
