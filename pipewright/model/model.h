// A model: layers in topological order and the tensors between them.
//
// A Model is checked when it is built (builder.h): names are unique, inputs
// come before their users, shapes fit, tied parameters have equal shapes, every
// output is used. Code that has a Model need not check again.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/layer.h"

namespace pipewright {

struct ExportedModel;

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

  // The number of trainable elements; a tied parameter counts once.
  std::int64_t num_parameters() const;
  // Whether backward computes a gradient of the layer's output: the layer or
  // one before it has parameters.
  bool needs_gradient(LayerId id) const { return needs_gradient_[id.index()]; }
  bool needs_gradient(const Source& source) const {
    return !source.is_model_input() && needs_gradient(source.layer);
  }

  // What a model exported from PyTorch computes; null for any other.
  const ExportedModel* exported() const { return exported_.get(); }

  bool operator==(const Model& other) const;

 private:
  friend class ModelBuilder;
  friend Model with_weights(const Model& model, std::string weights);
  Model() = default;

  std::string name_;
  std::vector<ModelInput> inputs_;
  std::vector<Layer> layers_;
  std::vector<Parameter> parameters_;
  std::vector<bool> needs_gradient_;  // one per layer
  std::shared_ptr<const ExportedModel> exported_;
};

// The shape and number type of a layer's output or a model input.
const Shape& shape_of(const Model& model, const Source& source);
NumberType type_of(const Model& model, const Source& source);

// The cost by the layer's kind (kinds/), without gradients that are not needed.
LayerCost layer_cost(const Model& model, LayerId layer);

// Loads a zoo name with settings ("gpt:layers=12,hidden=768"), a model file or
// an exported model.
// Fails with BadConfiguration (unknown name or setting), MissingInput or
// MalformedInput.
Result<Model> load_model(const std::string& name_or_file);

}  // namespace pipewright
