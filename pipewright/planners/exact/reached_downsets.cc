#include "pipewright/planners/exact/reached_downsets.h"

#include <algorithm>

namespace pipewright {

ReachedDownsets::ReachedDownsets(const ChainProblem& problem)
    : problem_(problem), words_((problem.nodes.size() + 63) / 64) {
  clear();
}

void ReachedDownsets::clear() {
  downsets_.clear();
  bits_.clear();
  ways_.clear();
  index_.clear();
  by_size_.assign(problem_.nodes.size() + 1, {});
}

int ReachedDownsets::find_or_add(const Bits& bits, std::uint64_t key,
                                 int size) {
  const auto [first, last] = index_.equal_range(key);
  for (auto i = first; i != last; ++i)
    if (std::equal(bits.begin(), bits.end(), this->bits(i->second)))
      return i->second;
  const int added = num_downsets();
  downsets_.push_back({size, -1});
  bits_.insert(bits_.end(), bits.begin(), bits.end());
  index_.emplace(key, added);
  by_size_[at(size)].push_back(added);
  return added;
}

int ReachedDownsets::add_way(int downset, Way way) {
  Downset& reached = downsets_[at(downset)];
  for (int w = reached.first_way; w >= 0; w = ways_[at(w)].next) {
    const Way& other = ways_[at(w)];
    if (other.accelerators <= way.accelerators && other.cpus <= way.cpus)
      return -1;
  }
  way.downset = downset;
  way.next = reached.first_way;
  reached.first_way = static_cast<int>(ways_.size());
  ways_.push_back(way);
  return reached.first_way;
}

std::vector<ChainPart> ReachedDownsets::chain_to(int way) const {
  std::vector<ChainPart> parts;
  for (int w = way; ways_[at(w)].parent >= 0; w = ways_[at(w)].parent) {
    const Way& to = ways_[at(w)];
    const std::uint64_t* all = bits(to.downset);
    const std::uint64_t* before = bits(ways_[at(to.parent)].downset);
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
