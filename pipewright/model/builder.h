// How a Model is made: inputs and layers one after the other, each checked as
// it is added. The zoo and the model file both build through this; what it
// accepts is a Model.
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

// A layer before it is checked. Attributes may be left at their defaults.
struct LayerRequest {
  std::string name = {};
  LayerKind kind = LayerKind::Linear;
  std::vector<Source> inputs = {};
  Attributes attributes = {};
  // Parameters taken from an earlier layer, by role:
  // {"weight", "embedding.weight"}.
  std::map<std::string, std::string> shares = {};
};

class ModelBuilder {
 public:
  // `type` is that of parameters and of all floating outputs.
  explicit ModelBuilder(std::string name,
                        NumberType type = NumberType::Float32);

  // Both fail with MalformedInput, naming the layer or input and the shapes;
  // the builder is then as before.
  Result<Source> add_input(ModelInput input);
  Result<Source> add_layer(const LayerRequest& request);

  NumberType type() const { return type_; }
  const std::vector<ModelInput>& inputs() const { return model_.inputs(); }
  const Shape& shape(const Source& source) const;
  // The layer or model input of that name.
  std::optional<Source> find(const std::string& name) const;

  // Fails with MalformedInput when there is no layer, or an input or an output
  // other than the last is used by nobody.
  Result<Model> build() &&;

 private:
  Result<void> check_name(const std::string& name) const;
  Result<std::vector<TensorForm>> input_forms(const LayerRequest& request,
                                              const KindRule& rule) const;
  // The parameters that the layer takes over, by role; none for its own.
  Result<std::vector<ParameterId>> shared_parameters(
      const LayerRequest& request, const LayerForm& form) const;
  Result<void> check_size(const Layer& layer, const LayerForm& form,
                          const std::vector<TensorForm>& inputs);
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
