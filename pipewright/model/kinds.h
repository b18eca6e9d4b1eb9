// What each kind of layer is: its attributes, parameters, output shape and
// cost. A kind is one KindRule, written in one place under kinds/ or added by
// who uses this library; everything else (builder, model file, cost,
// `pipewright models`) reads the rule.
//
// The rules also are the vocabulary of execution. For each kind they say which
// tensors its backward needs, as ATen's kernels want them; shapes leave out the
// batch dimension, so a sequence is {positions, features} and an image
// {channels, height, width}.

#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
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

// What a kind makes of its inputs. All floating numbers of a model have one
// type, so a form says nothing of it.
struct LayerForm {
  Shape output;
  std::vector<ParameterForm> parameters;
};

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

// What kind of numbers an input must hold.
enum class InputType : std::uint8_t {
  Floating,  // of the model's own number type
  Index,     // int64
};

struct KindRule {
  LayerKind kind = LayerKind::Linear;
  std::string name = {};
  std::vector<InputType> inputs = {};  // the last stands for all further ones
  int max_inputs = 1;
  int min_inputs = 1;
  std::vector<SettingRule> attributes = {};

  // Fails with MalformedInput where the shapes do not fit, naming them.
  std::function<Result<LayerForm>(const Attributes&,
                                  const std::vector<TensorForm>&)>
      form = {};

  // Completes a cost in which output, parameters and traffic (inputs, output
  // and parameters once each) are filled in and nothing is kept.
  std::function<void(const LayerFacts&, LayerCost&)> cost = {};
};

const KindRule& kind_rule(LayerKind kind);
const std::vector<KindRule>& kind_rules();  // in the order of LayerKind

// A kind that is not built in; its number is given here. Before any model is
// made. Fails with BadConfiguration where the name is taken or empty.
Result<LayerKind> add_kind(KindRule rule);
std::optional<LayerKind> parse_layer_kind(std::string_view name);
std::vector<std::string> kind_names();

// A tensor of more elements than this is refused: products of shapes stay far
// from overflow.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
// The number of elements, or nothing if it is over kMostElements or a dimension
// is below 1.
std::optional<std::int64_t> checked_elements(const Shape& shape);

}  // namespace pipewright
