// Builds a Model: inputs and layers one after the other, each checked when it
// is added. The zoo and the model file both use it.
//
//   ModelBuilder builder("tiny");
//   Source image = *builder.add_input({"image", {784}});
//   Source target = *builder.add_input({"target", {}, NumberType::Int64});
//   Source logits = *builder.add_layer({.name = "fc",
//                                       .kind = LayerKind::Linear,
//                                       .inputs = {image},
//                                       .attributes = {{"out_features", 10}}});
//   ...
//   Result<Model> model = std::move(builder).build();

#pragma once

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/kinds.h"
#include "pipewright/model/model.h"

namespace pipewright {

inline constexpr int kMaxModelLayers = 100'000;
inline constexpr std::size_t kMaxNameLength = 200;

// A layer to be added. Attributes with default values may be omitted.
struct LayerRequest {
  std::string name = {};
  LayerKind kind = LayerKind::Linear;
  std::vector<Source> inputs = {};
  Attributes attributes = {};
  // Parameters shared with an earlier layer, by role:
  // {"weight", "embedding.weight"}.
  std::map<std::string, std::string> shares = {};
};

class ModelBuilder {
 public:
  // `type` is the type of parameters and of all floating-point outputs.
  explicit ModelBuilder(std::string name,
                        NumberType type = NumberType::Float32);

  // Both fail with MalformedInput, naming the layer or input and the shapes,
  // and then leave the builder unchanged.
  Result<Source> add_input(ModelInput input);
  Result<Source> add_layer(const LayerRequest& request);

  // Of an exported model, whose layers are complete: their forms are in the
  // file. Names of layers and parameters are checked, as are shapes and sizes.
  Result<ParameterId> add_parameter(Parameter parameter);
  Result<Source> add_complete_layer(Layer layer);
  void set_exported(std::shared_ptr<const ExportedModel> exported);

  NumberType type() const { return type_; }
  const std::vector<ModelInput>& inputs() const { return model_.inputs(); }
  const Shape& shape(const Source& source) const;
  // The layer or model input of that name.
  std::optional<Source> find(const std::string& name) const;

  // Fails with MalformedInput if there are no layers, or if an input or an
  // output other than the last one is not used.
  Result<Model> build() &&;

 private:
  Result<void> check_name(const std::string& name) const;
  Result<std::vector<TensorForm>> input_forms(const LayerRequest& request,
                                              const KindRule& rule) const;
  // By role, the parameters that the layer shares; none for its own.
  Result<std::vector<ParameterId>> shared_parameters(
      const LayerRequest& request, const LayerForm& form) const;
  Result<void> check_size(const Layer& layer, const LayerForm& form,
                          const std::vector<TensorForm>& inputs);
  Result<void> add_size(const std::string& subject, Bytes bytes);
  void append(Layer layer, const LayerForm& form);

  NumberType type_;
  Model model_;
  std::unordered_map<std::string, Source> sources_;
  std::unordered_map<std::string, ParameterId> parameters_;
  std::vector<bool> input_used_, layer_used_;
  double total_bytes_ = 0;
  std::size_t num_edges_ = 0;
};

}  // namespace pipewright
