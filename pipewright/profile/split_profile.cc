#include "pipewright/profile/split_profile.h"

#include <map>
#include <set>

#include "pipewright/model/kinds.h"
#include "pipewright/model/split_layers.h"
#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

// Which layer of the whole model a layer has its costs from.
struct Origin {
  LayerId whole;     // none: a join
  double share = 1;  // of that layer's time
};

class SplitOrigins {
 public:
  SplitOrigins(const Model& whole, const Model& parts) {
    for (int l = 0; l < whole.num_layers(); ++l)
      known_[whole.layer(LayerId(l)).name] = LayerId(l);
    for (const Layer& layer : parts.layers())
      origins.push_back(origin_of(layer, whole));
  }

  // Not all layers of the whole model are found: it is another model.
  bool are_complete(const Model& whole) const {
    std::set<LayerId> found;
    for (const Origin& origin : origins)
      if (!origin.whole.is_none()) found.insert(origin.whole);
    return std::ssize(found) == whole.num_layers();
  }

  std::vector<Origin> origins;  // per layer of the model with parts

 private:
  // "fc.part1.part0" is a part of "fc.part1" or of "fc", whichever is there.
  Origin origin_of(const Layer& layer, const Model& whole) const {
    for (std::string name = layer.name;;) {
      if (const auto found = known_.find(name);
          found != known_.end() &&
          whole.layer(found->second).kind == layer.kind)
        return {found->second, share_of(layer, whole.layer(found->second))};
      const std::size_t end = name.rfind(".part");
      if (!is_part(layer) || end == std::string::npos) return {};
      name.resize(end);
    }
  }
  static bool is_part(const Layer& layer) {
    const auto whole = layer.attributes.find("part_of");
    return whole != layer.attributes.end() &&
           !std::get<std::string>(whole->second).empty();
  }
  static double share_of(const Layer& part, const Layer& whole) {
    if (part.name == whole.name) return 1;
    return static_cast<double>(num_outputs(part)) /
           static_cast<double>(num_outputs(whole));
  }

  std::map<std::string, LayerId> known_;
};

LayerTimes share_of(const LayerTimes& times, double share) {
  return {times.forward * share, times.backward_input * share,
          times.backward_weight * share, times.update * share};
}

std::vector<int> profiled_sizes(const Profile& profile) {
  std::set<int> sizes;
  for (const auto& [size, rows] : profile.sizes) sizes.insert(size);
  for (const auto& [kind, tables] : profile.times)
    for (const auto& [size, rows] : tables) sizes.insert(size);
  return {sizes.begin(), sizes.end()};
}

// Whether all that it has for these kinds is what analytic.h estimates.
bool is_repeated(const Profile& profile, const Profile& estimate) {
  for (const auto& [kind, tables] : estimate.times)
    if (const auto own = profile.times.find(kind);
        own == profile.times.end() || own->second != tables)
      return false;
  return profile.sizes == estimate.sizes;
}

// Measured rows take the place of estimated ones wherever there are some.
void take_rows(const Profile& from, const SplitOrigins& of, Profile& to) {
  const auto for_each = [&](auto take) {
    for (std::size_t l = 0; l < of.origins.size(); ++l)
      if (!of.origins[l].whole.is_none())
        take(l, of.origins[l].whole.index(), of.origins[l].share);
  };
  for (auto& [size, rows] : to.sizes)
    if (const auto own = from.sizes.find(size); own != from.sizes.end())
      for_each(
          [&, &rows = rows](std::size_t l, std::size_t whole, double share) {
            if (share == 1) rows[l] = own->second[whole];
          });
  for (auto kind = to.times.begin(); kind != to.times.end();) {
    const auto own = from.times.find(kind->first);
    if (own == from.times.end()) {
      kind = to.times.erase(kind);
      continue;
    }
    std::erase_if(kind->second, [&](const auto& table) {
      return !own->second.contains(table.first);
    });
    for (auto& [size, rows] : kind->second)
      for_each([&rows = rows, &measured = own->second.at(size)](
                   std::size_t l, std::size_t whole, double share) {
        rows[l] = share_of(measured[whole], share);
      });
    ++kind;
  }
  std::erase_if(to.sizes, [&](const auto& table) {
    return !from.sizes.contains(table.first);
  });
}

}  // namespace

bool is_profile_of(const Profile& profile, const Model& model) {
  if (profile.num_layers() != model.num_layers()) return false;
  for (int l = 0; l < model.num_layers(); ++l)
    if (profile.layers[LayerId(l).index()].name != model.layer(LayerId(l)).name)
      return false;
  return true;
}

Result<Profile> with_splits(Profile profile, const std::string& model,
                            std::span<const DeviceKind> kinds) {
  if (model.find("split=") == std::string::npos) return profile;
  const auto whole = load_model(profile.model), parts = load_model(model);
  if (!whole || !parts || is_profile_of(profile, *parts) ||
      !is_profile_of(profile, *whole))
    return profile;
  const SplitOrigins origins(*whole, *parts);
  if (!origins.are_complete(*whole)) return profile;
  const std::vector<int> sizes = profiled_sizes(profile);
  PIPEWRIGHT_TRY(Profile split, analytic_profile(*parts, kinds, sizes));
  split.model = model;
  const auto again = analytic_profile(*whole, kinds, sizes);
  if (again && is_repeated(profile, *again)) return split;
  split.origin = profile.origin;
  split.origin.description += "; parts of split layers in proportion";
  take_rows(profile, origins, split);
  return split;
}

}  // namespace pipewright
