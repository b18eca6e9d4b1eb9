#include "pipewright/plan/lowering/homes.h"

#include <algorithm>
#include <set>

namespace pipewright {

Homes homes_of(const Plan& plan, const Profile& profile) {
  Homes homes;
  const std::size_t num_layers = profile.layers.size();
  homes.forward.resize(num_layers);
  homes.backward.resize(num_layers);
  homes.users.resize(num_layers);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    for (LayerId layer : plan.stages[s].forward)
      homes.forward[layer.index()] = StageId(s);
    for (LayerId layer : plan.stages[s].backward)
      homes.backward[layer.index()] = StageId(s);
  }
  homes.storage = profile.storages();
  for (std::size_t l = 0; l < num_layers; ++l) {
    for (LayerId input : profile.layers[l].inputs) {
      auto& users = homes.users[input.index()];
      if (users.empty() || users.back() != LayerId(l))
        users.push_back(LayerId(l));
    }
  }
  return homes;
}

Kept kept_by(const std::vector<LayerId>& layers, const Profile& profile,
             const Homes& homes, bool recompute) {
  std::set<LayerId> activations, privates;
  for (LayerId id : layers) {
    const ProfileLayer& layer = profile.layers[id.index()];
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const LayerId storage = homes.storage[layer.inputs[i].index()];
      const bool outside =
          !std::binary_search(layers.begin(), layers.end(), storage);
      if (recompute ? outside : layer.keeps_input[i])
        activations.insert(storage);
    }
    if (recompute) continue;
    if (layer.keeps_output) activations.insert(homes.storage[id.index()]);
    privates.insert(id);
  }
  return {{activations.begin(), activations.end()},
          {privates.begin(), privates.end()}};
}

std::vector<bool> layers_with_gradient(const Profile& profile) {
  // A source that names no parameters says nothing of who needs a gradient.
  std::vector<bool> has(profile.layers.size(), profile.parameters.empty());
  for (std::size_t l = 0; l < profile.layers.size(); ++l) {
    const ProfileLayer& layer = profile.layers[l];
    if (!layer.parameters.empty()) has[l] = true;
    for (LayerId input : layer.inputs)
      if (has[input.index()]) has[l] = true;
  }
  return has;
}

bool is_remade_for(const Plan& plan, const Homes& homes, StageId stage,
                   LayerId layer) {
  const StageId home = homes.forward[layer.index()];
  std::size_t first = stage.index();
  while (plan.stages[first].continues) --first;
  return StageId(first) <= home && home < stage;
}

}  // namespace pipewright
