#include "pipewright/planners/bapipe/bapipe_split.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

double share(int parts) { return static_cast<double>(parts) / kSplitParts; }

// Fills one stage after the other up to a limit.
class Filling {
 public:
  Filling(const StageCosts& costs, const std::vector<bool>& may_split,
          const std::vector<LayerSizes>& sizes)
      : costs_(costs), sizes_(sizes) {
    const BlockCosts& blocks = costs.blocks();
    for (int b = 0; b < blocks.num_blocks(); ++b)
      may_split_.push_back(blocks.position(b + 1) - blocks.position(b) == 1 &&
                           may_split[at(blocks.position(b))]);
  }

  // Forward and backward time of the layers between two ends on stage s.
  std::pair<double, double> times(int s, SplitEnd from, SplitEnd to) const {
    const int first = from.block, end = to.block + (to.parts > 0 ? 1 : 0);
    // A split layer counts as a whole for the memory tier of its stage.
    const auto part = [&](auto cost, int block, int parts) {
      return parts > 0
                 ? (cost(first, block + 1) - cost(first, block)) * share(parts)
                 : 0.0;
    };
    const bool on_chip = costs_.on_chip(s, first, end);
    const int kind = costs_.kind(s);
    const auto forward = [&](int f, int e) {
      return costs_.blocks().forward(kind, on_chip, f, e).value();
    };
    const auto backward = [&](int f, int e) {
      return costs_.blocks().backward(kind, on_chip, f, e).value();
    };
    return {forward(first, to.block) + part(forward, to.block, to.parts) -
                part(forward, from.block, from.parts),
            backward(first, to.block) + part(backward, to.block, to.parts) -
                part(backward, from.block, from.parts)};
  }
  double time(int s, SplitEnd from, SplitEnd to) const {
    const auto [f, b] = times(s, from, to);
    return f + b;
  }
  // SR of a cut: inside a layer its input and the first part of its output.
  Seconds transfer(int s, SplitEnd end) const {
    Bytes bytes = costs_.blocks().crossing(end.block);
    if (end.parts > 0)
      bytes += sizes_[at(costs_.blocks().position(end.block))].output *
               std::int64_t{end.parts} / std::int64_t{kSplitParts};
    return costs_.transfer_of(s, bytes);
  }

  // The ends of stages that take at most `limit`; none if work is left over.
  std::optional<std::vector<SplitEnd>> filled(double limit) const {
    const int n = costs_.num_stages(), b = costs_.blocks().num_blocks();
    std::vector<SplitEnd> ends;
    SplitEnd from;
    for (int s = 0; s < n; ++s) {
      const int last = b - (n - 1 - s);  // leaves a block for each later stage
      SplitEnd to = from;
      while (to.block < last && time(s, from, {to.block + 1, 0}) <= limit)
        to = {to.block + 1, 0};
      if (to.block < last && s + 1 < n) to = with_part(s, from, to, limit);
      if (to <= from) return std::nullopt;
      ends.push_back(to);
      from = to;
    }
    if (ends.back() != SplitEnd{b, 0}) return std::nullopt;
    return ends;
  }

 private:
  SplitEnd with_part(int s, SplitEnd from, SplitEnd to, double limit) const {
    if (!may_split_[at(to.block)]) return to;
    const int least = to.block == from.block ? from.parts : 0;
    SplitEnd split{to.block, kSplitParts - 1};
    while (split.parts > least && time(s, from, split) > limit) --split.parts;
    if (split.parts <= least) return to;
    return link_carries(s, from, split) ? split : to;
  }
  bool link_carries(int s, SplitEnd from, SplitEnd to) const {
    const auto [f, b] = times(s, from, to);
    const double sr = transfer(s, to).value();
    if (costs_.schedule() == BaPipeSchedule::OneAs) return sr <= std::min(f, b);
    return 2 * sr <= f + b;
  }

  const StageCosts& costs_;
  const std::vector<LayerSizes>& sizes_;
  std::vector<bool> may_split_;
};

Seconds slowest(const Filling& filling, const std::vector<SplitEnd>& ends) {
  double largest = 0;
  SplitEnd from;
  int s = 0;
  for (SplitEnd to : ends) {
    largest = std::max(largest, filling.time(s++, from, to));
    from = to;
  }
  return Seconds(largest);
}

}  // namespace

std::optional<SplitPartition> split_partition(
    const StageCosts& costs, const Profile& profile,
    const std::vector<bool>& may_split, Seconds whole) {
  const auto sizes =
      sizes_at(profile, costs.blocks().microbatch(), Outside::Extrapolate);
  if (!sizes) return std::nullopt;
  const Filling filling(costs, may_split, *sizes);
  double low = 0, high = whole.value();
  auto best = filling.filled(high);
  for (int i = 0; i < 50 && best; ++i) {
    const double middle = (low + high) / 2;
    if (auto ends = filling.filled(middle)) {
      best = std::move(ends);
      high = middle;
    } else {
      low = middle;
    }
  }
  if (!best || slowest(filling, *best) >= whole) return std::nullopt;
  SplitPartition partition;
  partition.ends = *std::move(best);
  partition.bottleneck = slowest(filling, partition.ends);
  SplitEnd from;
  for (int s = 0; s < costs.num_stages(); ++s) {
    const SplitEnd to = partition.ends[at(s)];
    partition.promised += Seconds(filling.time(s, from, to));
    partition.num_split += to.parts > 0 ? 1 : 0;
    from = to;
  }
  partition.promised +=
      partition.bottleneck * double(costs.num_microbatches() - 1);
  return partition;
}

std::optional<SplitStages> split_stages(const StageCosts& costs,
                                        const Model& model,
                                        const SplitPartition& partition) {
  SplitStages stages;
  std::string rest;          // of the layer that was split last
  std::int64_t outputs = 0;  // before that rest
  SplitEnd before;
  for (const SplitEnd& end : partition.ends) {
    const int added = 2 * static_cast<int>(stages.splits.size());
    const int position = costs.blocks().position(end.block);
    if (end.parts == 0) {
      stages.ends.push_back(position + added);
      before = end;
      continue;
    }
    const Layer& layer = model.layer(LayerId(position));
    const bool again = before.block == end.block && before.parts > 0;
    if (!again) rest = layer.name, outputs = 0;
    const std::int64_t until =
        std::lround(share(end.parts) * static_cast<double>(num_outputs(layer)));
    if (until <= outputs || until >= num_outputs(layer)) return std::nullopt;
    stages.splits.push_back({rest, until - outputs});
    // Parts come one after the other, the joins after the last of them.
    stages.ends.push_back(again ? stages.ends.back() + 1
                                : position + added + 1);
    rest += ".part1";
    outputs = until;
    before = end;
  }
  return stages;
}

}  // namespace pipewright
