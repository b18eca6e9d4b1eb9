#include "pipewright/model/builder.h"

#include <algorithm>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/cost.h"

namespace pipewright {
namespace {

// The limit for the bytes of all parameters and of one sample's tensors: sums
// over layers and microbatches then cannot overflow.
constexpr double kMaxBytes = 1e15;
constexpr std::size_t kMaxDimensions = 8;
constexpr std::size_t kMaxEdges = 1'000'000;
constexpr std::size_t kMaxModelInputs = 1000;

std::string layer_title(const LayerRequest& request) {
  return "layer \"" + request.name + "\" (" + to_text(request.kind) + ")";
}

// "layer "fc1" (linear) needs ...": the kind's message with its subject.
Error of_layer(const LayerRequest& request, Error error) {
  error.message = layer_title(request) + " " + error.message;
  return error;
}

Result<void> check_shape(const Shape& shape) {
  if (shape.size() > kMaxDimensions)
    return malformed("has a shape with " + std::to_string(shape.size()) +
                     " dimensions; the limit is " +
                     std::to_string(kMaxDimensions));
  if (!checked_elements(shape))
    return malformed("has a tensor of shape " + to_text(shape) +
                     "; dimensions must be at least 1, their product at most " +
                     std::to_string(kMaxElements));
  return {};
}

}  // namespace

ModelBuilder::ModelBuilder(std::string name, NumberType type) : type_(type) {
  model_.name_ = std::move(name);
}

std::optional<Source> ModelBuilder::find(const std::string& name) const {
  auto found = sources_.find(name);
  if (found == sources_.end()) return std::nullopt;
  return found->second;
}

const Shape& ModelBuilder::shape(const Source& source) const {
  return shape_of(model_, source);
}

Result<void> ModelBuilder::check_name(const std::string& name) const {
  if (name.empty() || name.size() > kMaxNameLength)
    return malformed("a name must have 1 to " + std::to_string(kMaxNameLength) +
                     " characters, not " + std::to_string(name.size()));
  for (char c : name)
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '{' ||
        c == '}')
      return malformed(
          "the name \"" + name +
          "\" contains a space, quote, brace or control character");
  // In a model file "in" is the input of the block.
  if (name.substr(name.rfind('.') + 1) == "in")
    return malformed("the name \"" + name + "\" is reserved");
  if (sources_.count(name))
    return malformed("duplicate name \"" + name + "\"", "",
                     "layers and inputs must have different names");
  return {};
}

Result<Source> ModelBuilder::add_input(ModelInput input) {
  if (auto name = check_name(input.name); !name) return name.error();
  if (auto shape = check_shape(input.shape); !shape) {
    Error error = shape.error();
    error.message = "input \"" + input.name + "\" " + error.message;
    return error;
  }
  if (model_.inputs_.size() >= kMaxModelInputs)
    return malformed("more than " + std::to_string(kMaxModelInputs) +
                     " model inputs");
  const Source source{LayerId(), static_cast<int>(model_.inputs_.size())};
  sources_.emplace(input.name, source);
  model_.inputs_.push_back(std::move(input));
  input_used_.push_back(false);
  return source;
}

Result<std::vector<TensorForm>> ModelBuilder::input_forms(
    const LayerRequest& request, const KindRule& rule) const {
  const int given = static_cast<int>(request.inputs.size());
  if (given < rule.min_inputs || given > rule.max_inputs)
    return malformed("takes " + std::to_string(rule.min_inputs) +
                     (rule.max_inputs > rule.min_inputs
                          ? " to " + std::to_string(rule.max_inputs)
                          : "") +
                     " inputs, but has " + std::to_string(given));
  std::vector<TensorForm> forms;
  for (const Source& source : request.inputs) {
    forms.push_back({shape_of(model_, source), type_of(model_, source)});
    const std::size_t at = std::min(forms.size(), rule.inputs.size()) - 1;
    const NumberType wanted =
        rule.inputs[at] == InputType::Index ? NumberType::Int64 : type_;
    if (forms.back().type != wanted)
      return malformed("needs " + to_text(wanted) + " numbers in input " +
                       std::to_string(forms.size() - 1) + ", which has " +
                       to_text(forms.back().type) + " of shape " +
                       to_text(forms.back().shape));
  }
  return forms;
}

Result<std::vector<ParameterId>> ModelBuilder::shared_parameters(
    const LayerRequest& request, const LayerForm& form) const {
  std::vector<std::string> roles;
  for (const ParameterForm& parameter : form.parameters)
    roles.push_back(parameter.role);
  for (const auto& [role, name] : request.shares)
    if (std::find(roles.begin(), roles.end(), role) == roles.end())
      return malformed("has no parameter \"" + role + "\" to share", "",
                       roles.empty() ? "it has none" : suggestion(role, roles));
  std::vector<ParameterId> ids;
  for (const ParameterForm& parameter : form.parameters) {
    ids.emplace_back();
    auto share = request.shares.find(parameter.role);
    if (share == request.shares.end()) continue;
    auto found = parameters_.find(share->second);
    if (found == parameters_.end())
      return malformed(
          "shares the parameter \"" + share->second +
              "\", which no earlier layer has",
          "", "parameters are named LAYER.ROLE, for example fc1.weight");
    const Shape& shape = model_.parameter(found->second).shape;
    if (shape != parameter.shape)
      return malformed("needs a " + parameter.role + " of shape " +
                       to_text(parameter.shape) + ", but \"" + share->second +
                       "\" has shape " + to_text(shape));
    ids.back() = found->second;
  }
  return ids;
}

Result<void> ModelBuilder::check_size(const Layer& layer, const LayerForm& form,
                                      const std::vector<TensorForm>& inputs) {
  if (model_.num_layers() >= kMaxModelLayers)
    return malformed("exceeds the limit of " + std::to_string(kMaxModelLayers) +
                     " layers");
  if (num_edges_ + inputs.size() > kMaxEdges)
    return malformed("exceeds the limit of " + std::to_string(kMaxEdges) +
                     " connections between layers");
  if (auto shape = check_shape(form.output); !shape) return shape;
  std::vector<Shape> shapes;
  for (const ParameterForm& parameter : form.parameters) {
    if (auto shape = check_shape(parameter.shape); !shape) return shape;
    shapes.push_back(parameter.shape);
  }
  const LayerCost cost = full_cost(
      layer.kind, {layer.attributes, inputs, {layer.output, type_}, shapes});
  return add_size(
      "with its output of shape " + to_text(form.output),
      cost.parameters + cost.output.at(1) + cost.keeps_private.at(1));
}

Result<void> ModelBuilder::add_size(const std::string& subject, Bytes bytes) {
  if (total_bytes_ + static_cast<double>(bytes.value()) > kMaxBytes)
    return malformed(subject + " makes the model larger than " +
                     to_text(Bytes(static_cast<std::int64_t>(kMaxBytes))));
  total_bytes_ += static_cast<double>(bytes.value());
  return {};
}

void ModelBuilder::append(Layer layer, const LayerForm& form) {
  const LayerId id(model_.layers_.size());
  for (std::size_t p = 0; p < form.parameters.size(); ++p) {
    if (!layer.parameters[p].is_none()) continue;
    layer.parameters[p] = ParameterId(model_.parameters_.size());
    std::string name = layer.name + "." + form.parameters[p].role;
    parameters_.emplace(name, layer.parameters[p]);
    model_.parameters_.push_back(
        {std::move(name), form.parameters[p].shape, type_});
  }
  bool gradient = !layer.parameters.empty();
  for (const Source& source : layer.inputs) {
    gradient = gradient || model_.needs_gradient(source);
    if (source.is_model_input())
      input_used_[source.input] = true;
    else
      layer_used_[source.layer.index()] = true;
  }
  num_edges_ += layer.inputs.size();
  sources_.emplace(layer.name, Source{id, -1});
  model_.layers_.push_back(std::move(layer));
  model_.needs_gradient_.push_back(gradient);
  layer_used_.push_back(false);
}

Result<Source> ModelBuilder::add_layer(const LayerRequest& request) {
  const KindRule& rule = kind_rule(request.kind);
  if (auto name = check_name(request.name); !name) return name.error();
  auto attributes = completed_settings(rule.attributes, request.attributes);
  if (!attributes) {
    Error error = attributes.error();
    error.message = layer_title(request) + ": " + error.message;
    return error;
  }
  auto inputs = input_forms(request, rule);
  if (!inputs) return of_layer(request, inputs.error());
  auto form = rule.form(*attributes, *inputs);
  if (!form) return of_layer(request, form.error());
  auto shared = shared_parameters(request, *form);
  if (!shared) return of_layer(request, shared.error());
  Layer layer{request.name,   request.kind,       *std::move(attributes),
              request.inputs, *std::move(shared), form->output,
              type_};
  if (auto size = check_size(layer, *form, *inputs); !size)
    return of_layer(request, size.error());
  append(std::move(layer), *form);
  return Source{LayerId(model_.layers_.size() - 1), -1};
}

Result<ParameterId> ModelBuilder::add_parameter(Parameter parameter) {
  if (parameter.name.empty() || parameter.name.size() > kMaxNameLength ||
      parameters_.count(parameter.name))
    return malformed("the parameter \"" + shortened(parameter.name, 60) +
                     "\" has no name, too long a name or a duplicate one");
  const std::string title = "parameter \"" + parameter.name + "\"";
  if (auto shape = check_shape(parameter.shape); !shape)
    return malformed(title + " " + shape.error().message);
  const Bytes bytes = num_elements(parameter.shape) * size_of(parameter.type);
  if (auto size = add_size(title, bytes); !size) return size.error();
  const ParameterId id(model_.parameters_.size());
  parameters_.emplace(parameter.name, id);
  model_.parameters_.push_back(std::move(parameter));
  return id;
}

Result<Source> ModelBuilder::add_complete_layer(Layer layer) {
  const std::string title = "layer \"" + shortened(layer.name, 60) + "\"";
  if (auto name = check_name(layer.name); !name) return name.error();
  if (model_.num_layers() >= kMaxModelLayers ||
      num_edges_ + layer.inputs.size() > kMaxEdges)
    return malformed(title + " exceeds the limit of layers or connections");
  if (layer.inputs.empty()) return malformed(title + " has no inputs");
  if (auto shape = check_shape(layer.output); !shape)
    return malformed(title + " " + shape.error().message);
  const Bytes bytes = num_elements(layer.output) * size_of(layer.output_type);
  if (auto size = add_size(title, bytes); !size) return size.error();
  append(std::move(layer), {});
  return Source{LayerId(model_.layers_.size() - 1), -1};
}

void ModelBuilder::set_exported(std::shared_ptr<const ExportedModel> exported) {
  model_.exported_ = std::move(exported);
}

Result<Model> ModelBuilder::build() && {
  if (model_.layers_.empty())
    return malformed("model \"" + model_.name_ + "\" has no layers");
  for (std::size_t i = 0; i < input_used_.size(); ++i)
    if (!input_used_[i])
      return malformed("input \"" + model_.inputs_[i].name +
                       "\" is not used by any layer");
  for (std::size_t l = 0; l + 1 < layer_used_.size(); ++l)
    if (!layer_used_[l])
      return malformed("the output of layer \"" + model_.layers_[l].name +
                           "\" is not used by any layer",
                       "", "only the output of the last layer may be unused");
  return std::move(model_);
}

}  // namespace pipewright
