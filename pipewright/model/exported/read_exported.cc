// Reads the file of an exported model; see exported_model.h.

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/model/builder.h"
#include "pipewright/model/exported/exported_model.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMaxBytes = std::int64_t{1} << 46;
constexpr std::int64_t kMaxCount = 1 << 20;
constexpr double kMaxFlops = 1e18;

NumberType exported_type(JsonCursor at) {
  const std::string name = at.text();
  if (auto type = parse_number_type(name)) return *type;
  if (at.is_text()) at.fail("unknown number type \"" + name + "\"");
  return NumberType::Float32;
}

Shape exported_shape(const JsonCursor& at) {
  Shape shape;
  for (const JsonCursor& extent : at.elements())
    shape.push_back(extent.integer(1, kMaxElements));
  return shape;
}

bool flag_or_false(const JsonCursor& at) { return at.exists() && at.boolean(); }

// [fixed, per sample]
Size exported_size(const JsonCursor& at) {
  const auto numbers = at.elements();
  if (numbers.size() != 2) {
    at.fail("needs two numbers: fixed bytes, and bytes per sample");
    return {};
  }
  return {Bytes(numbers[0].integer(0, kMaxBytes)),
          Bytes(numbers[1].integer(0, kMaxBytes))};
}

std::vector<std::string> names_in(const JsonCursor& at) {
  std::vector<std::string> names;
  if (at.exists())
    for (const JsonCursor& name : at.elements()) names.push_back(name.text());
  return names;
}

// null, or [tensor, dimension, factor]
BatchPlace read_place(const JsonCursor& at) {
  if (!at.exists() || at.json()->is_null()) return {};
  const auto numbers = at.elements();
  if (numbers.size() != 3) {
    at.fail("needs three numbers: tensor, dimension and factor");
    return {};
  }
  return {static_cast<int>(numbers[0].integer(0, kMaxCount)),
          static_cast<int>(numbers[1].integer(0, 64)),
          numbers[2].integer(1, kMaxBytes)};
}

ExportedFunction read_function(JsonCursor at) {
  ExportedFunction function;
  function.num_arguments =
      static_cast<int>(at.at("arguments").integer(0, kMaxCount));
  function.num_tensors = static_cast<int>(
      at.at("tensors").integer(function.num_arguments, kMaxCount));
  for (const JsonCursor& line : at.at("code").elements()) {
    auto call = parse_operator_call(line.text());
    if (call)
      function.calls.push_back(*std::move(call));
    else
      line.fail(call.error().message);
  }
  for (const JsonCursor& result : at.at("results").elements())
    function.results.push_back(static_cast<int>(result.integer(0, kMaxCount)));
  at.refuse_other_keys();
  if (auto good = check_tensors(function); !good) at.fail(good.error().message);
  return function;
}

LayerFunctions read_functions(JsonCursor at) {
  LayerFunctions functions;
  for (const JsonCursor& input : at.at("keeps_inputs").elements())
    functions.keeps_inputs.push_back(
        static_cast<int>(input.integer(0, kMaxCount)));
  functions.keeps_output = at.at("keeps_output").boolean();
  functions.forward_batch = read_place(at.at("forward_batch"));
  functions.backward_batch = read_place(at.at("backward_batch"));
  functions.reads_buffers = at.at("reads_buffers").boolean();
  functions.mixes_samples = flag_or_false(at.find("mixes_samples"));
  const auto count = [&](const char* key) {
    return static_cast<int>(at.at(key).integer(0, kMaxCount));
  };
  functions.num_updates = count("updates");
  functions.num_private = count("private");
  functions.private_bytes = exported_size(at.at("private_bytes"));
  functions.num_carried = count("carried");
  functions.carried_bytes = exported_size(at.at("carried_bytes"));
  functions.traffic_bytes = exported_size(at.at("traffic_bytes"));
  JsonCursor flops = at.at("flops");
  if (const auto numbers = flops.elements(); numbers.size() == 3) {
    functions.forward_flops = Flops(numbers[0].real(0, kMaxFlops));
    functions.backward_input_flops = Flops(numbers[1].real(0, kMaxFlops));
    functions.backward_weight_flops = Flops(numbers[2].real(0, kMaxFlops));
  } else {
    flops.fail("needs three numbers: of F, I and W, per sample");
  }
  functions.constants = read_function(at.at("constants"));
  functions.forward = read_function(at.at("forward"));
  functions.backward_input = read_function(at.at("backward_input"));
  functions.backward_weight = read_function(at.at("backward_weight"));
  at.refuse_other_keys();
  return functions;
}

class ExportedReader {
 public:
  // All outlive the reader.
  ExportedReader(ModelBuilder& builder, ExportedModel& model,
                 const JsonErrors& errors)
      : builder_(builder), model_(model), errors_(errors) {}

  void read_input(JsonCursor at) {
    ModelInput input{at.at("name").text(), exported_shape(at.at("shape")),
                     exported_type(at.at("type"))};
    JsonCursor below = at.find("below");
    model_.index_bounds.push_back(
        below.exists() ? below.integer(1, std::int64_t{1} << 62) : 0);
    at.refuse_other_keys();
    if (auto added = builder_.add_input(std::move(input)); !added)
      at.fail(added.error().message, added.error().hint);
  }

  void read_parameter(JsonCursor at) {
    Parameter parameter = read_tensor(at);
    if (!is_floating(parameter.type))
      at.fail("a parameter must be floating-point, not " +
              to_text(parameter.type));
    if (auto also = names_in(at.find("also")); !also.empty())
      model_.tied_names[parameter.name] = std::move(also);
    at.refuse_other_keys();
    const std::string name = parameter.name;
    auto added = builder_.add_parameter(std::move(parameter));
    if (added)
      parameters_.emplace(name, *added);
    else
      at.fail(added.error().message, added.error().hint);
  }

  void read_buffer(JsonCursor at) {
    model_.buffers.push_back(read_tensor(at));
    JsonCursor persistent = at.find("persistent");
    if (persistent.exists() && !persistent.boolean())
      model_.not_saved.insert(model_.buffers.back().name);
    at.refuse_other_keys();
    if (!buffers_.emplace(model_.buffers.back().name, 0).second)
      at.fail("duplicate buffer \"" + model_.buffers.back().name + "\"");
  }

  void read_layer(JsonCursor at, bool is_last) {
    Layer layer;
    layer.kind = LayerKind::Exported;
    layer.name = at.at("name").text();
    ExportedLayer own;
    own.functions = static_cast<int>(at.at("function").integer(0, kMaxCount));
    bool is_good = own.functions < static_cast<int>(model_.functions.size());
    if (!is_good)
      at.fail("function " + std::to_string(own.functions) +
              " does not exist; the file has " +
              std::to_string(model_.functions.size()));
    for (const JsonCursor& name : at.at("from").elements())
      is_good = add_source(name, layer) && is_good;
    JsonCursor parameters = at.find("parameters");
    if (parameters.exists())
      for (const JsonCursor& name : parameters.elements())
        is_good = add_use(name, layer) && is_good;
    own.buffers = known_buffers(at.find("buffers"), is_good);
    own.constants = known_buffers(at.find("constants"), is_good);
    read_updates(at.find("updates"), own);
    JsonCursor output = at.at("output");
    layer.output = exported_shape(output.at("shape"));
    layer.output_type = exported_type(output.at("type"));
    own.is_fixed = flag_or_false(output.find("fixed"));
    output.refuse_other_keys();
    at.refuse_other_keys();
    if (!is_good || !errors_.empty()) return;
    if (auto fits = check_functions(layer, own); !fits)
      return at.fail(fits.error().message);
    if (is_last && !(own.is_fixed && layer.output.empty() &&
                     is_floating(layer.output_type)))
      return output.fail(
          "the last layer's output must be the loss: one number");
    layer.attributes["loss"] = is_last;
    const bool needs_gradient = wants_gradient(layer);
    auto added = builder_.add_complete_layer(std::move(layer));
    if (!added) return at.fail(added.error().message, added.error().hint);
    needs_gradient_.push_back(needs_gradient);
    model_.layers.push_back(std::move(own));
  }

  // A parameter that no layer uses would have no gradient.
  void check_uses(const JsonCursor& parameters) const {
    for (const auto& [name, id] : parameters_)
      if (!used_.count(name))
        parameters.fail("no layer uses the parameter \"" + name + "\"");
  }

 private:
  static Parameter read_tensor(JsonCursor& at) {
    return {at.at("name").text(), exported_shape(at.at("shape")),
            exported_type(at.at("type"))};
  }

  bool add_source(const JsonCursor& at, Layer& layer) {
    const auto source = builder_.find(at.text());
    if (source)
      layer.inputs.push_back(*source);
    else if (at.is_text())
      at.fail("unknown layer or input \"" + at.text() + "\"",
              "a layer can only use what is defined before it");
    return source.has_value();
  }

  bool add_use(const JsonCursor& at, Layer& layer) {
    const auto found = parameters_.find(at.text());
    if (found != parameters_.end())
      layer.parameters.push_back(found->second);
    else if (at.is_text())
      at.fail("unknown parameter \"" + at.text() + "\"");
    used_.insert(at.text());
    return found != parameters_.end();
  }

  std::vector<std::string> known_buffers(const JsonCursor& at, bool& is_good) {
    std::vector<std::string> names = names_in(at);
    for (const std::string& name : names)
      if (!buffers_.count(name)) {
        at.fail("unknown buffer \"" + name + "\"");
        is_good = false;
      }
    return names;
  }

  static void read_updates(const JsonCursor& at, ExportedLayer& layer) {
    for (const std::string& name : names_in(at)) {
      const auto found =
          std::find(layer.buffers.begin(), layer.buffers.end(), name);
      if (found == layer.buffers.end())
        at.fail("\"" + name + "\" is not a buffer of this layer");
      layer.updates.push_back(static_cast<int>(found - layer.buffers.begin()));
    }
  }

  bool is_wanted(const Source& source) const {
    return !source.is_model_input() && needs_gradient_[source.layer.index()];
  }
  std::size_t num_wanted(const Layer& layer) const {
    std::size_t count = 0;
    for (const Source& source : layer.inputs) count += is_wanted(source);
    return count;
  }
  bool wants_gradient(const Layer& layer) const {
    return !layer.parameters.empty() || num_wanted(layer) > 0;
  }

  // Whether the functions take and return what this layer gives and needs.
  Result<void> check_functions(const Layer& layer,
                               const ExportedLayer& own) const {
    const LayerFunctions& f =
        model_.functions[static_cast<std::size_t>(own.functions)];
    for (const int input : f.keeps_inputs)
      if (input >= static_cast<int>(layer.inputs.size()))
        return malformed("keeps input " + std::to_string(input) +
                         ", which it does not have");
    if (f.forward_batch.tensor >= static_cast<int>(layer.inputs.size()) ||
        f.backward_batch.tensor > static_cast<int>(f.num_kept()))
      return malformed(
          "its function takes the batch size from a tensor that "
          "it does not have");
    const std::size_t fixed = own.constants.size() + f.constants.results.size();
    const std::size_t weights = layer.parameters.size();
    const auto updates = static_cast<std::size_t>(f.num_updates);
    const auto carried = static_cast<std::size_t>(f.num_carried);
    struct Expected {
      const char* name;
      const ExportedFunction* function;
      std::size_t arguments, results;
    };
    const Expected all[] = {
        {"constants", &f.constants, own.constants.size(),
         f.constants.results.size()},
        {"forward", &f.forward,
         layer.inputs.size() + weights + own.buffers.size() + fixed,
         1 + updates + static_cast<std::size_t>(f.num_private)},
        {"backward_input", &f.backward_input,
         f.num_kept() + weights + 1 + fixed, num_wanted(layer) + carried},
        {"backward_weight", &f.backward_weight,
         f.num_kept() + 1 + fixed + carried, weights}};
    for (const Expected& one : all)
      if (static_cast<std::size_t>(one.function->num_arguments) !=
              one.arguments ||
          one.function->results.size() != one.results)
        return malformed(
            std::string(one.name) + " of its function takes " +
            std::to_string(one.function->num_arguments) + " and returns " +
            std::to_string(one.function->results.size()) +
            " tensors, this layer needs " + std::to_string(one.arguments) +
            " and " + std::to_string(one.results));
    if (own.updates.size() != updates)
      return malformed("its function changes " + std::to_string(updates) +
                       " buffers, the layer names " +
                       std::to_string(own.updates.size()));
    return {};
  }

  ModelBuilder& builder_;
  ExportedModel& model_;
  const JsonErrors& errors_;
  std::map<std::string, ParameterId> parameters_;
  std::set<std::string> used_;
  std::unordered_map<std::string, int> buffers_;
  std::vector<bool> needs_gradient_;  // by layer
};

std::string beside(const std::string& file, const std::string& name) {
  return (std::filesystem::path(file).parent_path() / name).string();
}

}  // namespace

bool is_exported_model(std::string_view text) {
  const auto json = parse_json(text, "");
  const Json* format = json ? json->find("format") : nullptr;
  const std::string* name = format ? format->if_string() : nullptr;
  return name && *name == "pipewright/exported";
}

Result<Model> parse_exported(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  root.require_format("pipewright/exported", 1);
  auto exported = std::make_shared<ExportedModel>();
  exported->text = text;
  exported->file = file;
  ModelBuilder builder(root.at("name").text());
  exported->torch_version = root.at("torch").text();
  exported->weights = beside(file, root.at("weights").text());
  ExportedReader reader(builder, *exported, errors);
  JsonCursor inputs = root.at("inputs"), parameters = root.at("parameters");
  JsonCursor buffers = root.at("buffers"), functions = root.at("functions");
  JsonCursor layers = root.at("layers");
  root.refuse_other_keys();
  for (const JsonCursor& input : inputs.elements()) reader.read_input(input);
  for (const JsonCursor& one : parameters.elements())
    reader.read_parameter(one);
  for (const JsonCursor& one : buffers.elements()) reader.read_buffer(one);
  for (const JsonCursor& one : functions.elements())
    exported->functions.push_back(read_functions(one));
  const auto rows = layers.elements();
  for (std::size_t l = 0; l < rows.size(); ++l) {
    reader.read_layer(rows[l], l + 1 == rows.size());
    if (!errors.empty()) return errors.error();  // later layers need this one
  }
  reader.check_uses(parameters);
  if (!errors.empty()) return errors.error();
  builder.set_exported(std::move(exported));
  auto model = std::move(builder).build();
  if (!model) {
    layers.fail(model.error().message, model.error().hint);
    return errors.error();
  }
  return model;
}

Model with_weights(const Model& model, std::string weights) {
  auto exported = std::make_shared<ExportedModel>(*model.exported());
  exported->weights = std::move(weights);
  Model changed = model;
  changed.exported_ = std::move(exported);
  return changed;
}

}  // namespace pipewright
