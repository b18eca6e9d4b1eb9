#include "pipewright/model/split_layers.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/model/builder.h"
#include "pipewright/model/repeats.h"

namespace pipewright {
namespace {

constexpr int kMaxSplits = 256;

std::string outputs_attribute(LayerKind kind) {
  return kind == LayerKind::Linear ? "out_features" : "out_channels";
}

// Builds the model again, with one layer in parts.
class Splitting {
 public:
  Splitting(const Model& model, LayerId split, std::int64_t outputs)
      : model_(model),
        split_(split),
        outputs_(outputs),
        builder_(model.name(), model.layers().front().output_type) {}

  Result<Model> model() && {
    for (const ModelInput& input : model_.inputs()) {
      PIPEWRIGHT_TRY(const Source source, builder_.add_input(input));
      inputs_.push_back(source);
    }
    for (int l = 0; l < model_.num_layers(); ++l) {
      PIPEWRIGHT_TRY(const Source source,
                     LayerId(l) == split_ ? add_parts() : add(LayerId(l)));
      layers_.push_back(source);
    }
    return std::move(builder_).build();
  }

 private:
  LayerRequest request_of(LayerId id) const {
    const Layer& layer = model_.layer(id);
    LayerRequest request{
        .name = layer.name, .kind = layer.kind, .attributes = layer.attributes};
    for (const Source& source : layer.inputs)
      request.inputs.push_back(source.is_model_input()
                                   ? inputs_[std::size_t(source.input)]
                                   : layers_[source.layer.index()]);
    return request;
  }

  Result<Source> add(LayerId id) {
    const Layer& layer = model_.layer(id);
    LayerRequest request = request_of(id);
    for (std::size_t p = 0; p < layer.parameters.size(); ++p)
      if (!owns_parameter(model_, layer, p))
        request.shares[parameter_role(model_, layer, p)] =
            model_.parameter(layer.parameters[p]).name;
    return builder_.add_layer(request);
  }

  Result<Source> add_parts() {
    const Layer& whole = model_.layer(split_);
    const std::int64_t last = num_outputs(whole) - outputs_;
    PIPEWRIGHT_TRY(const Source first, add_part(0, 0, outputs_));
    PIPEWRIGHT_TRY(const Source second, add_part(1, outputs_, last));
    // A linear's outputs are the last dimension, channels the first.
    const std::size_t axis =
        whole.kind == LayerKind::Linear ? whole.output.size() - 1 : 0;
    return builder_.add_layer(
        {.name = whole.name,
         .kind = LayerKind::Concat,
         .inputs = {first, second},
         .attributes = {{"axis", static_cast<std::int64_t>(axis)}}});
  }

  Result<Source> add_part(int number, std::int64_t first, std::int64_t count) {
    const Layer& whole = model_.layer(split_);
    LayerRequest request = request_of(split_);
    request.name += ".part" + std::to_string(number);
    request.attributes[outputs_attribute(whole.kind)] = count;
    if (text(whole.attributes, "part_of").empty())
      request.attributes["part_of"] = whole.name;
    request.attributes["first_output"] =
        integer(whole.attributes, "first_output") + first;
    return builder_.add_layer(request);
  }

  const Model& model_;
  const LayerId split_;
  const std::int64_t outputs_;
  ModelBuilder builder_;
  std::vector<Source> inputs_, layers_;
};

LayerId layer_named(const Model& model, const std::string& name) {
  for (int l = 0; l < model.num_layers(); ++l)
    if (model.layer(LayerId(l)).name == name) return LayerId(l);
  return {};
}

std::vector<std::string> names_to_split(const Model& model) {
  std::vector<std::string> names;
  for (int l = 0; l < model.num_layers(); ++l)
    if (why_not_split(model, LayerId(l)).empty())
      names.push_back(model.layer(LayerId(l)).name);
  return names;
}

Result<Model> with_split(const Model& model, const LayerSplit& split) {
  const LayerId id = layer_named(model, split.layer);
  if (id.is_none())
    return bad_configuration(
        "there is no layer \"" + split.layer + "\" to split",
        suggestion(split.layer, names_to_split(model)));
  if (const std::string why = why_not_split(model, id); !why.empty())
    return bad_configuration("layer \"" + split.layer +
                             "\" cannot be split: " + why);
  const std::int64_t outputs = num_outputs(model.layer(id));
  if (split.outputs < 1 || split.outputs >= outputs)
    return bad_configuration(
        "layer \"" + split.layer + "\" cannot be split after output " +
            std::to_string(split.outputs) + ": it has " +
            std::to_string(outputs),
        outputs > 1 ? "use a number from 1 to " + std::to_string(outputs - 1)
                    : "");
  return Splitting(model, id, split.outputs).model();
}

}  // namespace

Result<std::vector<LayerSplit>> parse_splits(std::string_view text) {
  std::vector<LayerSplit> splits;
  if (text.empty()) return splits;
  for (std::string_view part : split(text, '+')) {
    const std::size_t at = part.rfind('@');
    const auto outputs = at == std::string_view::npos
                             ? std::nullopt
                             : parse_integer(part.substr(at + 1));
    if (!outputs || at == 0)
      return malformed(
          "expected LAYER@OUTPUTS, found \"" + std::string(part) + "\"", "",
          "for example split=output@4, or split=fc1@24+fc2@8");
    if (splits.size() == kMaxSplits)
      return malformed("splits more than " + std::to_string(kMaxSplits) +
                       " layers");
    splits.push_back({std::string(part.substr(0, at)), *outputs});
  }
  return splits;
}

std::string to_text(const std::vector<LayerSplit>& splits) {
  std::string text;
  for (const LayerSplit& split : splits)
    text += (text.empty() ? "" : "+") + split.layer + "@" +
            std::to_string(split.outputs);
  return text;
}

std::int64_t num_outputs(const Layer& layer) {
  return integer(layer.attributes, outputs_attribute(layer.kind));
}

std::string why_not_split(const Model& model, LayerId id) {
  const Layer& layer = model.layer(id);
  if (layer.kind != LayerKind::Linear && layer.kind != LayerKind::Conv2d)
    return "it is a " + to_text(layer.kind) + ", no linear and no conv2d";
  if (layer.kind == LayerKind::Conv2d &&
      integer(layer.attributes, "groups") != 1)
    return "it has groups";
  if (num_outputs(layer) < 2) return "it has one output";
  for (const Layer& other : model.layers())
    for (ParameterId parameter : layer.parameters)
      if (&other != &layer && std::count(other.parameters.begin(),
                                         other.parameters.end(), parameter) > 0)
        return "it shares a parameter with \"" + other.name + "\"";
  return "";
}

Result<Model> with_splits(const Model& model,
                          const std::vector<LayerSplit>& splits) {
  Model result = model;
  for (const LayerSplit& split : splits) {
    PIPEWRIGHT_TRY(result, with_split(result, split));
  }
  return result;
}

}  // namespace pipewright
