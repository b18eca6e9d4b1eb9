#include "pipewright/planners/exact/exact_search.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

double finite_cost(double cost) { return cost < kNever ? cost : 0; }

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
  sum_ancestors();
}

// What all nodes up to each one take, as far as it is finite.
void ChainSearch::sum_ancestors() {
  const std::size_t n = problem_.nodes.size();
  std::vector<std::vector<std::uint64_t>> up_to(
      n, std::vector<std::uint64_t>(words_, 0));
  up_to_.resize(n);
  for (int v : order_) {
    auto& bits = up_to[at(v)];
    bits[at(v) / 64] |= 1ULL << (at(v) % 64);
    for (int u : graph_.before[at(v)])
      for (std::size_t w = 0; w < words_; ++w) bits[w] |= up_to[at(u)][w];
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

void ChainSearch::expand(int downset) {
  if (!choose_ways(downset)) return;
  open_up(downset);
  decide(0);
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
