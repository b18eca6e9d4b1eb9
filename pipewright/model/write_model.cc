// Writes the model file: one line per layer, runs of equal blocks once.

#include "pipewright/base/json.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/model/kinds.h"
#include "pipewright/model/model_file.h"
#include "pipewright/model/repeats.h"

namespace pipewright {
namespace {

Json json_of(const Attribute& value) {
  if (const bool* b = std::get_if<bool>(&value)) return Json(*b);
  if (const auto* n = std::get_if<std::int64_t>(&value)) return Json(*n);
  if (const auto* x = std::get_if<double>(&value)) return Json(*x);
  if (const auto* s = std::get_if<std::string>(&value)) return Json(*s);
  const Shape& pair = std::get<Shape>(value);
  if (pair[0] == pair[1]) return Json(pair[0]);
  return Json(Json::Array{Json(pair[0]), Json(pair[1])});
}

class ModelWriter {
 public:
  explicit ModelWriter(const Model& model) : model_(model) {}

  // `run` is the run that contains the layer, or null.
  Json layer(int index, const BlockRun* run) const {
    const Layer& layer = model_.layer(LayerId(index));
    const KindRule& rule = kind_rule(layer.kind);
    Json json = Json::object();
    json.set("name", run ? local_name(layer) : layer.name);
    json.set("kind", rule.name);
    if (!takes_previous(layer, index))
      json.set("from", from(layer, index, run));
    const Attributes written =
        written_settings(rule.attributes, layer.attributes);
    for (const SettingRule& setting : rule.attributes)
      if (auto found = written.find(setting.name); found != written.end())
        json.set(setting.name, json_of(found->second));
    if (Json shares = shared(layer); !shares.if_object()->empty())
      json.set("share", std::move(shares));
    return json;
  }

 private:
  bool takes_previous(const Layer& layer, int index) const {
    const Source previous =
        index == 0 ? Source{LayerId(), 0} : Source{LayerId(index - 1), -1};
    return layer.inputs.size() == 1 && layer.inputs[0] == previous;
  }

  std::string source_name(const Source& source) const {
    if (source.is_model_input()) return model_.inputs()[source.input].name;
    return model_.layer(source.layer).name;
  }

  Json from(const Layer& layer, int index, const BlockRun* run) const {
    Json names = Json::array();
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const Source& source = layer.inputs[i];
      const bool local = run && !source.is_model_input() &&
                         source.layer.value >= run->first &&
                         source.layer.value < run->first + run->length;
      if (local)
        names.push(local_name(model_.layer(source.layer)));
      else if (run && run->takes_in[index - run->first][i])
        names.push("in");
      else
        names.push(source_name(source));
    }
    return names.if_array()->size() == 1 ? names.if_array()->front() : names;
  }

  Json shared(const Layer& layer) const {
    Json json = Json::object();
    for (std::size_t p = 0; p < layer.parameters.size(); ++p)
      if (!owns_parameter(model_, layer, p))
        json.set(parameter_role(model_, layer, p),
                 model_.parameter(layer.parameters[p]).name);
    return json;
  }

  const Model& model_;
};

Json input_json(const ModelInput& input, NumberType type) {
  Json shape = Json::array();
  for (std::int64_t extent : input.shape) shape.push(Json(extent));
  Json json = Json::object();
  json.set("name", input.name);
  json.set("shape", std::move(shape));
  if (input.type != type) json.set("type", to_text(input.type));
  return json;
}

// Lines at an indent, separated by commas.
class Lines {
 public:
  explicit Lines(std::string indent) : indent_(std::move(indent)) {}
  void add(const std::string& line) {
    text_ += (text_.empty() ? "\n" : ",\n") + indent_ + line;
  }
  const std::string& text() const { return text_; }

 private:
  std::string indent_;
  std::string text_;
};

std::string block_text(const ModelWriter& writer, const BlockRun& run) {
  Lines lines("      ");
  for (int l = 0; l < run.length; ++l)
    lines.add(writer.layer(run.first + l, &run).to_line());
  std::string text = "{\"repeat\":" + std::to_string(run.count);
  if (run.start != 0) text += ",\"start\":" + std::to_string(run.start);
  text += ",\"name\":" + Json(run.stem + "{i}").to_line();
  return text + ",\"layers\":[" + lines.text() + "]}";
}

}  // namespace

std::string to_text(const Model& model) {
  if (model.exported()) return model.exported()->text;
  const NumberType type = model.layers().front().output_type;
  std::string text =
      "{\n  \"format\": \"pipewright/model\",\n  \"version\": 1,\n";
  text += "  \"name\": " + Json(model.name()).to_line() + ",\n";
  if (type != NumberType::Float32)
    text += "  \"type\": " + Json(to_text(type)).to_line() + ",\n";
  Lines inputs("    ");
  for (const ModelInput& input : model.inputs())
    inputs.add(input_json(input, type).to_line());
  const ModelWriter writer(model);
  const std::vector<BlockRun> runs = repeated_blocks(model);
  Lines layers("    ");
  auto run = runs.begin();
  for (int l = 0; l < model.num_layers();) {
    if (run != runs.end() && run->first == l) {
      layers.add(block_text(writer, *run));
      l = (run++)->end();
    } else {
      layers.add(writer.layer(l++, nullptr).to_line());
    }
  }
  text += "  \"inputs\": [" + inputs.text() + "],\n";
  return text + "  \"layers\": [" + layers.text() + "]\n}\n";
}

}  // namespace pipewright
