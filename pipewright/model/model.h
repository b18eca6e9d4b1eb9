// A model: layers in topological order and the tensors between them.
//
// A Model is checked when it is made: names are unique, inputs come before
// their users, shapes fit, tied parameters agree, nothing is computed in vain.
// Code that holds one need not ask again. How one is made is in builder.h.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/layer.h"

namespace pipewright {

struct ModelInput {
  std::string name;  // "image", "tokens", "target"
  Shape shape;
  NumberType type = NumberType::Float32;

  bool operator==(const ModelInput&) const = default;
};

class Model {
 public:
  const std::string& name() const { return name_; }
  const std::vector<ModelInput>& inputs() const { return inputs_; }
  const std::vector<Layer>& layers() const { return layers_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }
  const Layer& layer(LayerId id) const { return layers_[id.index()]; }
  const Parameter& parameter(ParameterId id) const {
    return parameters_[id.index()];
  }
  int num_layers() const { return static_cast<int>(layers_.size()); }

  // Trainable numbers; a tied parameter counts once.
  std::int64_t num_parameters() const;
  // Whether backward makes a gradient for the layer's output: some parameter
  // lies at or before it.
  bool needs_gradient(LayerId id) const { return needs_gradient_[id.index()]; }
  bool needs_gradient(const Source& source) const {
    return !source.is_model_input() && needs_gradient(source.layer);
  }

  bool operator==(const Model&) const = default;

 private:
  friend class ModelBuilder;
  Model() = default;

  std::string name_;
  std::vector<ModelInput> inputs_;
  std::vector<Layer> layers_;
  std::vector<Parameter> parameters_;
  std::vector<bool> needs_gradient_;  // one per layer
};

// Shape and number type of a layer's output or a model input.
const Shape& shape_of(const Model& model, const Source& source);
NumberType type_of(const Model& model, const Source& source);

// What the layer's kind (kinds/) says of it, less what needs no gradient.
LayerCost layer_cost(const Model& model, LayerId layer);

// A zoo name with settings ("gpt:layers=12,hidden=768") or the path of a model
// file. Fails with BadConfiguration (unknown name or setting, nearest offered),
// MissingInput or MalformedInput.
Result<Model> load_model(const std::string& name_or_file);

}  // namespace pipewright
