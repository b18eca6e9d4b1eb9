// A layer: the smallest unit that can be put on its own stage. Described well
// enough to be planned, simulated and trained, but without tensors.
//
// Shapes leave out the batch dimension: a microbatch of 32 images of shape
// {3, 224, 224} is 32 samples.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"

namespace pipewright {

enum class NumberType : std::uint8_t {
  Float64,
  Float32,
  Float16,
  BFloat16,
  Int64,
  Int32,
  UInt8,
  Bool,
};
Bytes size_of(NumberType type);
bool is_floating(NumberType type);
std::string to_text(NumberType type);  // "float32"
std::optional<NumberType> parse_number_type(std::string_view text);

using Shape = std::vector<std::int64_t>;
std::int64_t num_elements(const Shape& shape);
std::string to_text(const Shape& shape);  // "64x112x112"; "1" for a scalar

enum class LayerKind : std::uint8_t {
  Linear,
  Conv2d,
  BatchNorm,
  LayerNorm,
  Relu,
  Gelu,
  Tanh,
  Sigmoid,
  Softmax,
  Dropout,
  MaxPool,
  AvgPool,
  AdaptiveAvgPool,
  Flatten,
  Add,
  Concat,
  Embedding,
  Positional,
  Attention,
  Lstm,
  CrossEntropy,
  LinearCrossEntropy,
  Mse,
  Select,
  Exported,  // of a PyTorch model; see exported/exported_model.h
};

// A layer's settings by name ("out_features", "kernel"); which names a kind
// takes, with types and defaults, is in its KindRule. A Shape is a pair
// {height, width}, as of a kernel. A layer of a Model has all attributes of its
// kind: defaults are filled in.
using Attribute = std::variant<bool, std::int64_t, double, std::string, Shape>;
using Attributes = std::map<std::string, Attribute>;

// The value of an attribute. It must exist and have this type (checked).
bool flag(const Attributes& attributes, const std::string& name);
std::int64_t integer(const Attributes& attributes, const std::string& name);
double real(const Attributes& attributes, const std::string& name);
const std::string& text(const Attributes& attributes, const std::string& name);
const Shape& pair(const Attributes& attributes, const std::string& name);

// Where an input of a layer comes from: another layer's output, or one of the
// model's inputs (which every worker can load itself, so that they never cross
// a cut).
struct Source {
  LayerId layer;   // none if it is a model input
  int input = -1;  // index of the model input, or -1

  bool is_model_input() const { return layer.is_none(); }
  auto operator<=>(const Source&) const = default;
};

struct Layer {
  std::string name;  // unique in the model: "block3.conv1"
  LayerKind kind = LayerKind::Linear;
  Attributes attributes;
  std::vector<Source> inputs;
  std::vector<ParameterId> parameters;  // in the kind's order; may be shared
  Shape output;
  NumberType output_type = NumberType::Float32;

  bool operator==(const Layer&) const = default;
};

// A trainable tensor. Two layers that list the same parameter are tied.
struct Parameter {
  std::string name;  // "block3.conv1.weight"
  Shape shape;
  NumberType type = NumberType::Float32;

  bool operator==(const Parameter&) const = default;
};

// Bytes that depend on the microbatch: fixed + per_sample * samples.
struct Size {
  Bytes fixed;
  Bytes per_sample;

  Bytes at(std::int64_t samples) const { return fixed + per_sample * samples; }
  Size& operator+=(Size other) {
    fixed += other.fixed;
    per_sample += other.per_sample;
    return *this;
  }
  auto operator<=>(const Size&) const = default;
};

// What a layer costs (a multiply and an add are 2 FLOP), and what it keeps for
// backward: storages of its inputs, the storage of its output, and private
// bytes (masks, indices, statistics). A storage is kept once, however many
// layers keep it.
struct LayerCost {
  Flops forward;          // per sample
  Flops backward_input;   // per sample; 0 if no input needs a gradient
  Flops backward_weight;  // per sample; 0 without parameters
  Size memory_traffic;  // bytes read from and written to memory by one forward
  Size output;
  Bytes parameters;  // shared ones count in each layer that uses them
  std::vector<bool> keeps_input;  // one per input
  bool keeps_output = false;
  Size keeps_private;
  // From the input gradients to the weight gradients of the same microbatch;
  // not among the workspace.
  Size carried;
  // The output is a view of the first input, which is another layer's output.
  bool output_is_view = false;
  // The gradient of the inputs is the gradient of the output: no new tensor.
  bool passes_gradient = false;
  // Samples of a microbatch depend on each other (batch_norm): its backward is
  // for the same samples as its forward.
  bool mixes_samples = false;
};

}  // namespace pipewright
