#include "pipewright/runtime/layers/custom_layer.h"

#include <map>

namespace pipewright {
namespace {

std::map<LayerKind, CustomLayer>& custom_layers() {
  static std::map<LayerKind, CustomLayer> all;
  return all;
}

}  // namespace

void add_custom_layer(LayerKind kind, CustomLayer layer) {
  custom_layers()[kind] = std::move(layer);
}

const CustomLayer* custom_layer(LayerKind kind) {
  const auto found = custom_layers().find(kind);
  return found == custom_layers().end() ? nullptr : &found->second;
}

}  // namespace pipewright
