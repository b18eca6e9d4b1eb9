#include "pipewright/model/cuts.h"

#include <algorithm>
#include <set>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

// The positions of an order at which each storage is created and last used.
struct Lifetimes {
  std::vector<int> created;    // position after the owner; -1 for a view
  std::vector<int> last_used;  // position of the last user, or `created`
};

std::vector<int> positions(const Model& model, std::span<const LayerId> order) {
  std::vector<int> position(model.layers().size(), -1);
  PIPEWRIGHT_CHECK(order.size() == position.size(),
                   "an order lists every layer once");
  for (std::size_t p = 0; p < order.size(); ++p)
    position.at(order[p].index()) = static_cast<int>(p);
  for (std::size_t user = 0; user < position.size(); ++user) {
    PIPEWRIGHT_CHECK(position[user] >= 0, "an order lists every layer once");
    for (const Source& source : model.layers()[user].inputs)
      PIPEWRIGHT_CHECK(source.is_model_input() ||
                           position[source.layer.index()] < position[user],
                       "an order lists every layer after its inputs");
  }
  return position;
}

Lifetimes lifetimes(const Model& model, std::span<const LayerId> order) {
  const std::vector<int> position = positions(model, order);
  const std::vector<LayerId> storage = storages(model);
  Lifetimes result{std::vector<int>(storage.size(), -1),
                   std::vector<int>(storage.size(), -1)};
  for (std::size_t l = 0; l < storage.size(); ++l)
    if (storage[l].index() == l)
      result.created[l] = result.last_used[l] = position[l] + 1;
  for (std::size_t l = 0; l < storage.size(); ++l)
    for (const Source& source : model.layers()[l].inputs) {
      if (source.is_model_input()) continue;
      int& last = result.last_used[storage[source.layer.index()].index()];
      last = std::max(last, position[l] + 1);
    }
  return result;
}

Size& operator-=(Size& a, const Size& b) {
  a.fixed -= b.fixed;
  a.per_sample -= b.per_sample;
  return a;
}

Size input_size(const Model& model, int input) {
  const ModelInput& given = model.inputs()[input];
  return {Bytes(0), num_elements(given.shape) * size_of(given.type)};
}

}  // namespace

std::vector<LayerId> storages(const Model& model) {
  std::vector<LayerId> owner;
  for (int l = 0; l < model.num_layers(); ++l) {
    const LayerId id(l);
    owner.push_back(layer_cost(model, id).output_is_view
                        ? owner[model.layer(id).inputs[0].layer.index()]
                        : id);
  }
  return owner;
}

std::vector<LayerId> model_order(const Model& model) {
  std::vector<LayerId> order;
  for (int l = 0; l < model.num_layers(); ++l) order.emplace_back(l);
  return order;
}

std::vector<Crossing> cut_sizes(const Model& model,
                                std::span<const LayerId> order) {
  const Lifetimes lifetime = lifetimes(model, order);
  // Storage s crosses the positions created[s] <= p < last_used[s].
  std::vector<Crossing> begins(order.size() + 2), ends(order.size() + 2);
  for (std::size_t l = 0; l < lifetime.created.size(); ++l) {
    if (lifetime.created[l] < 0) continue;
    const Size size = layer_cost(model, LayerId(l)).output;
    auto& begin = begins[lifetime.created[l]];
    auto& end = ends[lifetime.last_used[l]];
    begin.forward += size;
    end.forward += size;
    if (!model.needs_gradient(LayerId(l))) continue;
    begin.backward += size;
    end.backward += size;
  }
  std::vector<Crossing> cuts;
  Crossing now;
  for (std::size_t p = 0; p <= order.size(); ++p) {
    now.forward += begins[p].forward;
    now.backward += begins[p].backward;
    now.forward -= ends[p].forward;
    now.backward -= ends[p].backward;
    cuts.push_back(now);
  }
  return cuts;
}

std::vector<Crossing> cut_sizes(const Model& model) {
  return cut_sizes(model, model_order(model));
}

std::vector<Size> added_kept_sizes(const Model& model,
                                   std::span<const LayerId> layers) {
  const std::vector<LayerId> storage = storages(model);
  std::set<Source> kept;
  std::vector<Size> added;
  for (LayerId id : layers) {
    const LayerCost cost = layer_cost(model, id);
    Size size = cost.keeps_private;
    const auto keep = [&](Source source) {
      if (!source.is_model_input())
        source.layer = storage[source.layer.index()];
      if (!kept.insert(source).second) return;
      size += source.is_model_input() ? input_size(model, source.input)
                                      : layer_cost(model, source.layer).output;
    };
    const Layer& layer = model.layer(id);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i)
      if (cost.keeps_input[i]) keep(layer.inputs[i]);
    if (cost.keeps_output) keep(Source{id, -1});
    added.push_back(size);
  }
  return added;
}

}  // namespace pipewright
