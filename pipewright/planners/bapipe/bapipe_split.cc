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
  Filling(const StageCosts& costs, const Profile& profile,
          const std::vector<LayerSizes>& sizes)
      : costs_(costs), profile_(profile), sizes_(sizes) {
    const BlockCosts& blocks = costs.blocks();
    for (int b = 0; b < blocks.num_blocks(); ++b)
      may_split_.push_back(
          blocks.position(b + 1) - blocks.position(b) == 1 &&
          why_not_split(profile, LayerId(blocks.position(b))).empty());
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
  const Profile& profile_;
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

Bytes part_of(Bytes bytes, int parts) {
  return bytes * std::int64_t{parts} / std::int64_t{kSplitParts};
}

// The number of a layer after `layer` was split into two.
LayerId renumbered(LayerId id, LayerId layer) {
  return id <= layer ? id : LayerId(id.index() + 1);
}

template <class Row, class Scale>
void split_row(std::vector<Row>& rows, LayerId layer, Scale scale) {
  const Row whole = rows[layer.index()];
  rows[layer.index()] = scale(whole, true);
  rows.insert(rows.begin() + layer.value + 1, scale(whole, false));
}

void split_parameters(Profile& profile, ProfileLayer& first,
                      ProfileLayer& second, int parts) {
  second.parameters.clear();
  for (ParameterId id : first.parameters) {
    ProfileParameter& whole = profile.parameters[id.index()];
    const Bytes part = part_of(whole.bytes, parts);
    second.parameters.push_back(ParameterId(profile.parameters.size()));
    const ProfileParameter rest{whole.name + "/rest", whole.bytes - part};
    whole.bytes = part;
    profile.parameters.push_back(rest);
  }
}

}  // namespace

std::string why_not_split(const Profile& profile, LayerId layer) {
  const ProfileLayer& own = profile.layers[layer.index()];
  if (own.output_is_view) return "its output is a view";
  for (const ProfileLayer& other : profile.layers) {
    if (&other == &own) continue;
    if (other.output_is_view && !other.inputs.empty() &&
        other.inputs[0] == layer)
      return "\"" + other.name + "\" is a view of it";
    for (ParameterId id : other.parameters)
      if (std::count(own.parameters.begin(), own.parameters.end(), id) > 0)
        return "it shares a parameter with \"" + other.name + "\"";
  }
  return "";
}

std::optional<SplitPartition> split_partition(const StageCosts& costs,
                                              const Profile& profile,
                                              Seconds whole) {
  const auto sizes =
      sizes_at(profile, costs.blocks().microbatch(), Outside::Extrapolate);
  if (!sizes) return std::nullopt;
  const Filling filling(costs, profile, *sizes);
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

Result<Profile> split_layer(const Profile& profile, LayerId layer, int parts) {
  if (parts < 1 || parts >= kSplitParts)
    return bad_configuration("a layer cannot be split " +
                             std::to_string(parts) + " : " +
                             std::to_string(kSplitParts - parts));
  if (const std::string why = why_not_split(profile, layer); !why.empty())
    return bad_configuration("layer \"" + profile.layers[layer.index()].name +
                             "\" cannot be split: " + why);
  Profile split = profile;
  for (ProfileLayer& user : split.layers)
    for (std::size_t i = user.inputs.size(); i-- > 0;) {
      const bool reads = user.inputs[i] == layer;
      user.inputs[i] = renumbered(user.inputs[i], layer);
      if (!reads) continue;
      const auto next = static_cast<std::ptrdiff_t>(i) + 1;
      user.inputs.insert(user.inputs.begin() + next,
                         LayerId(layer.index() + 1));
      user.keeps_input.insert(user.keeps_input.begin() + next,
                              bool(user.keeps_input[i]));
    }
  ProfileLayer first = split.layers[layer.index()], second = first;
  second.name += "/rest";
  split_parameters(split, first, second, parts);
  split.layers[layer.index()] = first;
  split.layers.insert(split.layers.begin() + layer.value + 1, second);
  for (auto& [size, rows] : split.sizes)
    split_row(rows, layer, [&](const LayerSizes& whole, bool is_first) {
      const LayerSizes part{part_of(whole.output, parts),
                            part_of(whole.keeps_private, parts),
                            part_of(whole.workspace, parts)};
      if (is_first) return part;
      return LayerSizes{whole.output - part.output,
                        whole.keeps_private - part.keeps_private,
                        whole.workspace - part.workspace};
    });
  for (auto& [kind, tables] : split.times)
    for (auto& [size, rows] : tables)
      split_row(rows, layer, [&](const LayerTimes& whole, bool is_first) {
        const double part = share(is_first ? parts : kSplitParts - parts);
        return LayerTimes{whole.forward * part, whole.backward_input * part,
                          whole.backward_weight * part, whole.update * part};
      });
  split.origin.description += "; \"" + profile.layers[layer.index()].name +
                              "\" split " + std::to_string(parts) + " : " +
                              std::to_string(kSplitParts - parts);
  return split;
}

Result<RefinedProfile> refined_profile(const Profile& profile,
                                       const StageCosts& costs,
                                       const SplitPartition& partition) {
  RefinedProfile refined{profile, {}};
  int added = 0;
  for (std::size_t s = 0; s < partition.ends.size(); ++s) {
    const SplitEnd end = partition.ends[s];
    // A layer over three stages is split twice: the second time its rest.
    const SplitEnd before = s == 0 ? SplitEnd{} : partition.ends[s - 1];
    int position = costs.blocks().position(end.block) + added;
    if (end.parts > 0) {
      int parts = end.parts;
      if (before.block == end.block && before.parts > 0)
        parts = static_cast<int>(std::lround(share(end.parts - before.parts) /
                                             share(kSplitParts - before.parts) *
                                             kSplitParts));
      PIPEWRIGHT_TRY(refined.profile,
                     split_layer(refined.profile, LayerId(position),
                                 std::clamp(parts, 1, kSplitParts - 1)));
      ++added;
      ++position;
    }
    refined.ends.push_back(position);
  }
  return refined;
}

}  // namespace pipewright
