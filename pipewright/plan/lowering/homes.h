// Where each layer's forward and backward live, and which storage its output
// is.

#pragma once

#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

struct Homes {
  std::vector<StageId> forward, backward;   // per layer
  std::vector<LayerId> storage;             // per layer; itself unless a view
  std::vector<std::vector<LayerId>> users;  // per layer, ascending
};

// The plan has passed check_plan().
Homes homes_of(const Plan& plan, const Profile& profile);

// What the backward of a set of layers must have from their forwards: storages
// of activations, and layers whose private tensors are kept. With `recompute`
// only the activations that come into the set from outside. Ascending.
struct Kept {
  std::vector<LayerId> activations;
  std::vector<LayerId> privates;
};
Kept kept_by(const std::vector<LayerId>& layers, const Profile& profile,
             const Homes& homes, bool recompute);

// Whether a gradient reaches the layer's output, by LayerId: backward runs no
// other layers.
std::vector<bool> layers_with_gradient(const Profile& profile);

// Whether the layer's forward is in an earlier stage of the stage's segment, so
// that its output is recomputed and sent once more.
bool is_remade_for(const Plan& plan, const Homes& homes, StageId stage,
                   LayerId layer);

}  // namespace pipewright
