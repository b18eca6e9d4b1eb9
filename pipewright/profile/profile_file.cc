// Reads and writes the profile file, "pipewright/profile" version 1. profile.h
// shows its shape.

#include <optional>
#include <unordered_map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/profile.h"

namespace pipewright {
namespace {

constexpr const char* kFormat = "pipewright/profile";

// Maps names to indices. A duplicate or unknown name is an error.
class Names {
 public:
  void add(const JsonCursor& at, const std::string& what) {
    const std::string name = at.text();
    if (at.is_text() && name.empty()) at.fail("a " + what + " needs a name");
    if (at.is_text() && !positions_.emplace(name, positions_.size()).second)
      at.fail("duplicate name \"" + name + "\"");
  }

  std::optional<std::size_t> find(const JsonCursor& at,
                                  const std::string& what) const {
    const std::string name = at.text();
    if (!at.is_text()) return std::nullopt;
    auto found = positions_.find(name);
    if (found != positions_.end()) return found->second;
    const std::string near = nearest(name);
    at.fail("no " + what + " \"" + name + "\" is defined before this",
            near.empty() ? "" : "did you mean \"" + near + "\"?");
    return std::nullopt;
  }

 private:
  // Finding the nearest name is slow, and nobody reads more hints.
  std::string nearest(const std::string& name) const {
    constexpr int kMaxHints = 10;
    if (++num_hints_ > kMaxHints) return {};
    std::vector<std::string> known;
    for (const auto& [known_name, position] : positions_)
      known.push_back(known_name);
    return nearest_name(name, known);
  }

  std::unordered_map<std::string, std::size_t> positions_;
  mutable int num_hints_ = 0;
};

bool flag(JsonCursor& object, std::string_view key) {
  JsonCursor at = object.find(key);
  return at.exists() && at.boolean();
}

Bytes read_size(const JsonCursor& at) {
  return Bytes(at.integer(0, kMaxSize.value()));
}

ProfileOrigin read_origin(JsonCursor at) {
  ProfileOrigin origin;
  origin.source = at.at("source").text();
  if (JsonCursor text = at.find("description"); text.exists())
    origin.description = text.text();
  origin.split_is_estimated = flag(at, "split_is_estimated");
  origin.keeps_is_estimated = flag(at, "keeps_is_estimated");
  at.refuse_other_keys();
  return origin;
}

Names read_parameters(JsonCursor at, Profile& profile) {
  Names names;
  if (!at.exists()) return names;
  for (JsonCursor row : at.elements()) {
    JsonCursor name = row.at("name");
    names.add(name, "parameter");
    profile.parameters.push_back({name.text(), read_size(row.at("bytes"))});
    row.refuse_other_keys();
  }
  return names;
}

void read_keeps_input(JsonCursor at, ProfileLayer& layer) {
  layer.keeps_input.assign(layer.inputs.size(), false);
  if (!at.exists()) return;
  const auto flags = at.elements();
  if (flags.size() != layer.inputs.size())
    at.fail(std::to_string(flags.size()) + " entries for " +
            std::to_string(layer.inputs.size()) + " inputs");
  for (std::size_t i = 0; i < flags.size() && i < layer.inputs.size(); ++i)
    layer.keeps_input[i] = flags[i].boolean();
}

ProfileLayer read_layer(JsonCursor row, Names& layers,
                        const Names& parameters) {
  ProfileLayer layer;
  JsonCursor name = row.at("name");
  layer.name = name.text();
  layer.kind = row.at("kind").text();
  for (const JsonCursor& input : row.at("inputs").elements())
    if (auto found = layers.find(input, "layer"))
      layer.inputs.push_back(LayerId(*found));
  layers.add(name, "layer");
  read_keeps_input(row.find("keeps_input"), layer);
  layer.keeps_output = flag(row, "keeps_output");
  layer.keeps_model_input = flag(row, "keeps_model_input");
  layer.output_is_view = flag(row, "output_is_view");
  layer.passes_gradient = flag(row, "passes_gradient");
  layer.mixes_samples = flag(row, "mixes_samples");
  if (JsonCursor used = row.find("parameters"); used.exists())
    for (const JsonCursor& parameter : used.elements())
      if (auto found = parameters.find(parameter, "parameter"))
        layer.parameters.push_back(ParameterId(*found));
  row.refuse_other_keys();
  return layer;
}

int read_microbatch(JsonCursor& table) {
  return static_cast<int>(table.at("microbatch").integer(1, kMaxMicrobatch));
}

// Reads one number per layer into `field` of each row.
template <class Row, class Field, class Read>
void read_column(const JsonCursor& column, std::vector<Row>& rows,
                 Field Row::*field, Read read) {
  if (!column.exists()) return;
  const auto figures = column.elements();
  if (column.json()->if_array() && figures.size() != rows.size())
    column.fail(std::to_string(figures.size()) + " numbers for " +
                std::to_string(rows.size()) + " layers");
  for (std::size_t i = 0; i < figures.size() && i < rows.size(); ++i)
    rows[i].*field = read(figures[i]);
}

void read_sizes(JsonCursor table, Profile& profile) {
  const int microbatch = read_microbatch(table);
  std::vector<LayerSizes> rows(profile.layers.size());
  read_column(table.at("output_bytes"), rows, &LayerSizes::output, read_size);
  read_column(table.find("keeps_private_bytes"), rows,
              &LayerSizes::keeps_private, read_size);
  read_column(table.find("workspace_bytes"), rows, &LayerSizes::workspace,
              read_size);
  read_column(table.find("carried_bytes"), rows, &LayerSizes::carried,
              read_size);
  table.refuse_other_keys();
  if (!profile.sizes.emplace(microbatch, std::move(rows)).second)
    table.fail("duplicate microbatch size " + std::to_string(microbatch));
}

Seconds read_time(const JsonCursor& at) {
  return Seconds(at.real(0, kMaxTime.value()));
}

// Backward as two halves, or as one number that set_backward() splits.
void read_backward(JsonCursor& table, const Profile& profile,
                   std::vector<LayerTimes>& rows) {
  JsonCursor whole = table.find("backward_seconds");
  if (!whole.exists()) {
    read_column(table.at("backward_input_seconds"), rows,
                &LayerTimes::backward_input, read_time);
    read_column(table.at("backward_weight_seconds"), rows,
                &LayerTimes::backward_weight, read_time);
    return;
  }
  if (!profile.origin.split_is_estimated)
    whole.fail("backward is one number here, so its split must be estimated",
               "set origin.split_is_estimated to true, or give "
               "backward_input_seconds and backward_weight_seconds");
  read_column(whole, rows, &LayerTimes::backward_input, read_time);
  for (std::size_t i = 0; i < rows.size(); ++i)
    set_backward(rows[i], rows[i].backward_input, profile.layers[i]);
}

void read_times(JsonCursor table, Profile& profile) {
  JsonCursor device = table.at("device");
  const std::string kind = device.text();
  if (device.is_text() && kind.empty()) device.fail("the device kind is empty");
  const int microbatch = read_microbatch(table);
  std::vector<LayerTimes> rows(profile.layers.size());
  read_column(table.at("forward_seconds"), rows, &LayerTimes::forward,
              read_time);
  read_backward(table, profile, rows);
  read_column(table.find("update_seconds"), rows, &LayerTimes::update,
              read_time);
  table.refuse_other_keys();
  if (!profile.times[kind].emplace(microbatch, std::move(rows)).second)
    table.fail("duplicate microbatch size " + std::to_string(microbatch) +
               " on " + kind);
}

template <class Row, class Field>
Json column(const std::vector<Row>& rows, Field Row::*field) {
  Json::Array figures;
  for (const Row& row : rows) figures.push_back((row.*field).value());
  return figures;
}

template <class Row, class Field>
void set_unless_zero(Json& table, const char* key, const std::vector<Row>& rows,
                     Field Row::*field) {
  for (const Row& row : rows)
    if (row.*field != Field()) {
      table.set(key, column(rows, field));
      return;
    }
}

Json to_json(const ProfileOrigin& origin) {
  Json json = Json::object();
  json.set("source", origin.source).set("description", origin.description);
  json.set("split_is_estimated", origin.split_is_estimated);
  json.set("keeps_is_estimated", origin.keeps_is_estimated);
  return json;
}

Json to_json(const ProfileLayer& layer, const Profile& profile) {
  Json json = Json::object();
  json.set("name", layer.name).set("kind", layer.kind);
  Json inputs = Json::array(), keeps = Json::array(), used = Json::array();
  for (LayerId input : layer.inputs)
    inputs.push(profile.layers[input.index()].name);
  for (bool kept : layer.keeps_input) keeps.push(kept);
  for (ParameterId parameter : layer.parameters)
    used.push(profile.parameters[parameter.index()].name);
  json.set("inputs", std::move(inputs)).set("keeps_input", std::move(keeps));
  if (layer.keeps_output) json.set("keeps_output", true);
  if (layer.keeps_model_input) json.set("keeps_model_input", true);
  if (layer.output_is_view) json.set("output_is_view", true);
  if (layer.passes_gradient) json.set("passes_gradient", true);
  if (layer.mixes_samples) json.set("mixes_samples", true);
  if (!layer.parameters.empty()) json.set("parameters", std::move(used));
  return json;
}

Json to_json(int microbatch, const std::vector<LayerSizes>& rows) {
  Json table = Json::object();
  table.set("microbatch", microbatch);
  table.set("output_bytes", column(rows, &LayerSizes::output));
  set_unless_zero(table, "keeps_private_bytes", rows,
                  &LayerSizes::keeps_private);
  set_unless_zero(table, "workspace_bytes", rows, &LayerSizes::workspace);
  set_unless_zero(table, "carried_bytes", rows, &LayerSizes::carried);
  return table;
}

// Whether set_backward() would split the sum into these two halves.
bool is_split_by_rule(const Profile& profile,
                      const std::vector<LayerTimes>& rows) {
  if (!profile.origin.split_is_estimated) return false;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    LayerTimes again = rows[i];
    set_backward(again, rows[i].backward(), profile.layers[i]);
    if (again != rows[i]) return false;
  }
  return true;
}

Json to_json(const Profile& profile, const std::string& kind, int microbatch,
             const std::vector<LayerTimes>& rows) {
  Json table = Json::object();
  table.set("device", kind).set("microbatch", microbatch);
  table.set("forward_seconds", column(rows, &LayerTimes::forward));
  if (is_split_by_rule(profile, rows)) {
    Json::Array sums;
    for (const LayerTimes& row : rows) sums.push_back(row.backward().value());
    table.set("backward_seconds", std::move(sums));
  } else {
    table.set("backward_input_seconds",
              column(rows, &LayerTimes::backward_input));
    table.set("backward_weight_seconds",
              column(rows, &LayerTimes::backward_weight));
  }
  set_unless_zero(table, "update_seconds", rows, &LayerTimes::update);
  return table;
}

}  // namespace

Result<Profile> parse_profile(std::string_view text, const std::string& file) {
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  root.require_format(kFormat, 1);
  Profile profile;
  profile.model = root.at("model").text();
  profile.origin = read_origin(root.at("origin"));
  const Names parameters = read_parameters(root.find("parameters"), profile);
  Names layers;
  for (const JsonCursor& row : root.at("layers").elements())
    profile.layers.push_back(read_layer(row, layers, parameters));
  for (const JsonCursor& table : root.at("sizes").elements())
    read_sizes(table, profile);
  for (const JsonCursor& table : root.at("times").elements())
    read_times(table, profile);
  root.refuse_other_keys();
  if (!errors.empty()) return errors.error();
  if (auto fine = profile.check(file); !fine) return fine.error();
  return profile;
}

std::string to_text(const Profile& profile) {
  Json json = Json::object();
  json.set("format", kFormat).set("version", 1).set("model", profile.model);
  json.set("origin", to_json(profile.origin));
  Json parameters = Json::array(), layers = Json::array();
  for (const ProfileParameter& parameter : profile.parameters) {
    Json row = Json::object();
    row.set("name", parameter.name).set("bytes", parameter.bytes.value());
    parameters.push(std::move(row));
  }
  for (const ProfileLayer& layer : profile.layers)
    layers.push(to_json(layer, profile));
  Json sizes = Json::array(), times = Json::array();
  for (const auto& [microbatch, rows] : profile.sizes)
    sizes.push(to_json(microbatch, rows));
  for (const auto& [kind, tables] : profile.times)
    for (const auto& [microbatch, rows] : tables)
      times.push(to_json(profile, kind, microbatch, rows));
  json.set("parameters", std::move(parameters))
      .set("layers", std::move(layers));
  json.set("sizes", std::move(sizes)).set("times", std::move(times));
  return json.to_text();
}

}  // namespace pipewright
