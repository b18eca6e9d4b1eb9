#include "pipewright/model/split_layers.h"

#include <algorithm>
#include <map>

#include "pipewright/base/text.h"
#include "pipewright/model/builder.h"
#include "pipewright/model/repeats.h"

namespace pipewright {
namespace {

constexpr int kMaxSplits = 256;

std::string outputs_attribute(LayerKind kind) {
  return kind == LayerKind::Linear ? "out_features" : "out_channels";
}

// Builds the model again, with some layers in parts: outputs of the first part
// by layer.
class Splitting {
 public:
  using Splits = std::map<LayerId, std::int64_t>;
  Splitting(const Model& model, const Splits& splits)
      : model_(model),
        splits_(splits),
        builder_(model.name(), model.layers().front().output_type) {}

  Result<Model> model() && {
    for (const ModelInput& input : model_.inputs()) {
      PIPEWRIGHT_TRY(const Source source, builder_.add_input(input));
      inputs_.push_back(source);
    }
    for (int l = 0; l < model_.num_layers(); ++l) {
      const auto split = splits_.find(LayerId(l));
      PIPEWRIGHT_TRY(const Source source,
                     split == splits_.end()
                         ? add(LayerId(l))
                         : add_parts(LayerId(l), split->second));
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

  Result<Source> add_parts(LayerId id, std::int64_t outputs) {
    const Layer& whole = model_.layer(id);
    LayerRequest part = request_of(id);
    set_part(whole, 0, 0, outputs, part);
    PIPEWRIGHT_TRY(const Source first, builder_.add_layer(part));
    set_part(whole, 1, outputs, num_outputs(whole) - outputs, part);
    PIPEWRIGHT_TRY(const Source second, builder_.add_layer(part));
    // A linear's outputs are the last dimension, channels the first.
    const std::size_t axis =
        whole.kind == LayerKind::Linear ? whole.output.size() - 1 : 0;
    return builder_.add_layer(
        {.name = whole.name,
         .kind = LayerKind::Concat,
         .inputs = {first, second},
         .attributes = {{"axis", static_cast<std::int64_t>(axis)}}});
  }

  static void set_part(const Layer& whole, int number, std::int64_t first,
                       std::int64_t count, LayerRequest& part) {
    part.name = whole.name + ".part" + std::to_string(number);
    part.attributes[outputs_attribute(whole.kind)] = count;
    if (text(whole.attributes, "part_of").empty())
      part.attributes["part_of"] = whole.name;
    part.attributes["first_output"] =
        integer(whole.attributes, "first_output") + first;
  }

  const Model& model_;
  const Splits& splits_;
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

Error no_layer(const Model& model, const LayerSplit& split) {
  return bad_configuration(
      "there is no layer \"" + split.layer + "\" to split",
      model.exported() ? "layers of an exported model stay whole"
                       : suggestion(split.layer, names_to_split(model)));
}

Result<void> check_split(const Model& model, LayerId id,
                         const LayerSplit& split) {
  if (const std::string why = why_not_split(model, id); !why.empty())
    return bad_configuration(
        "layer \"" + split.layer + "\" cannot be split: " + why,
        model.exported()
            ? "linear and conv2d layers of a model file can be split"
            : "");
  const std::int64_t outputs = num_outputs(model.layer(id));
  if (split.outputs < 1 || split.outputs >= outputs)
    return bad_configuration(
        "layer \"" + split.layer + "\" cannot be split after output " +
            std::to_string(split.outputs) + ": it has " +
            std::to_string(outputs),
        outputs > 1 ? "use a number from 1 to " + std::to_string(outputs - 1)
                    : "");
  return {};
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
  if (layer.kind == LayerKind::Exported)
    return "it is exported: its functions compute all outputs at once";
  if (layer.kind != LayerKind::Linear && layer.kind != LayerKind::Conv2d)
    return "it is a " + to_text(layer.kind) + ", no linear and no conv2d";
  if (layer.kind == LayerKind::Conv2d &&
      integer(layer.attributes, "groups") != 1)
    return "it has groups";
  if (num_outputs(layer) < 2) return "it has one output";
  if (layer.name.find_first_of("+,") != std::string::npos)
    return "its name has a + or a comma, which end a name in split=";
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
  std::vector<LayerSplit> left = splits;
  // All that name a layer, at once; then those that name one of its parts.
  while (!left.empty()) {
    Splitting::Splits now;
    std::vector<LayerSplit> later;
    for (const LayerSplit& split : left) {
      const LayerId id = layer_named(result, split.layer);
      if (id.is_none() || now.contains(id)) {
        later.push_back(split);
        continue;
      }
      if (auto good = check_split(result, id, split); !good)
        return good.error();
      now[id] = split.outputs;
    }
    if (now.empty()) return no_layer(result, left.front());
    PIPEWRIGHT_TRY(result, Splitting(result, now).model());
    left = std::move(later);
  }
  return result;
}

}  // namespace pipewright
