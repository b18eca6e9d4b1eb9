// The rule of one kind of layer: its attributes, parameters, output shape and
// cost, and which tensors its backward needs. kinds.h lists the rules.
//
// Shapes leave out the batch dimension: a sequence is {positions, features} and
// an image {channels, height, width}.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/layer.h"
#include "pipewright/model/setting.h"

namespace pipewright {

struct TensorForm {
  Shape shape;
  NumberType type = NumberType::Float32;
};

struct ParameterForm {
  std::string role;  // "weight": the last part of the parameter's name
  Shape shape;
};

// The output and parameters of a layer. All floating-point tensors of a model
// have the model's number type, so no type is given here.
struct LayerForm {
  Shape output;
  std::vector<ParameterForm> parameters;
};

// What the cost of a layer depends on.
struct LayerFacts {
  const Attributes& attributes;
  const std::vector<TensorForm>& inputs;
  TensorForm output;
  std::vector<Shape> parameters = {};
  bool input_needs_gradient = true;

  std::int64_t input_elements() const { return num_elements(inputs[0].shape); }
  std::int64_t output_elements() const { return num_elements(output.shape); }
  std::int64_t number_bytes() const { return size_of(output.type).value(); }
};

// The type of numbers that an input must hold.
enum class InputType : std::uint8_t {
  Floating,  // the model's number type
  Index,     // int64
};

struct KindRule {
  LayerKind kind = LayerKind::Linear;
  std::string name = {};
  std::vector<InputType> inputs = {};  // the last one repeats
  int max_inputs = 1;
  int min_inputs = 1;
  std::vector<SettingRule> attributes = {};

  // Fails with MalformedInput, naming the shapes, if they do not fit.
  std::function<Result<LayerForm>(const Attributes&,
                                  const std::vector<TensorForm>&)>
      form = {};

  // Completes a cost in which output, parameters and memory traffic (inputs,
  // output and parameters once each) are filled in and nothing is kept.
  std::function<void(const LayerFacts&, LayerCost&)> cost = {};
};

// The largest number of elements in a tensor: products of shapes stay far from
// overflow.
inline constexpr std::int64_t kMaxElements = std::int64_t{1} << 40;
// The number of elements, or nothing if it exceeds kMaxElements or a dimension
// is below 1.
std::optional<std::int64_t> checked_elements(const Shape& shape);

}  // namespace pipewright
