// Reads the model file: resolves names and blocks. Layers are checked by their
// kinds and by the builder.

#include <unordered_map>
#include <unordered_set>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/builder.h"
#include "pipewright/model/model_file.h"

namespace pipewright {
namespace {

// What "in", {i} and short names mean at one place in the file. An empty source
// is unknown because of an earlier error.
struct Scope {
  std::string prefix;  // "block3."
  std::string index;   // "3"
  std::optional<Source> in;
  const Scope* outer = nullptr;
};

std::string with_index(const std::string& text, const Scope& scope) {
  if (scope.index.empty()) return text;
  std::string filled;
  std::size_t from = 0;
  for (std::size_t at = text.find("{i}"); at != std::string::npos;
       at = text.find("{i}", from)) {
    filled.append(text, from, at - from).append(scope.index);
    from = at + 3;
  }
  return filled.append(text, from);
}

std::optional<Attribute> attribute_of(const Json& json) {
  const Json::Value& value = json.value();
  if (const auto* b = std::get_if<bool>(&value)) return Attribute(*b);
  if (const auto* n = std::get_if<std::int64_t>(&value)) return Attribute(*n);
  if (const auto* x = std::get_if<double>(&value)) return Attribute(*x);
  if (const auto* s = json.if_string()) return Attribute(*s);
  if (!json.if_array()) return std::nullopt;
  Shape shape;
  for (const Json& element : *json.if_array()) {
    const auto* n = std::get_if<std::int64_t>(&element.value());
    if (!n) return std::nullopt;
    shape.push_back(*n);
  }
  return Attribute(shape);
}

NumberType number_type(JsonCursor at, NumberType fallback) {
  if (!at.exists()) return fallback;
  const std::string name = at.text();
  if (auto type = parse_number_type(name)) return *type;
  if (at.is_text())
    at.fail("unknown number type \"" + name + "\"",
            "known: float64, float32, float16, bfloat16, int64, int32, uint8");
  return fallback;
}

class ModelReader {
 public:
  ModelReader(ModelBuilder& builder, JsonErrors& errors)
      : builder_(builder), errors_(errors) {}

  void read_input(JsonCursor cursor);
  void read_layers(const JsonCursor& list, const Scope& scope);
  void start() {
    if (!builder_.inputs().empty()) last_ = Source{LayerId(), 0};
  }

 private:
  void read_block(JsonCursor cursor, const Scope& outer);
  void read_layer(JsonCursor cursor, const Scope& scope);
  std::optional<std::vector<Source>> read_from(const JsonCursor& from,
                                               const Scope& scope);
  std::optional<Source> resolve(const JsonCursor& at, const Scope& scope);
  std::optional<Source> find(const std::string& full_name) const;
  bool may_have_failed(const std::string& full_name) const;
  bool read_attributes(JsonCursor& cursor, const KindRule& rule,
                       Attributes& attributes);

  ModelBuilder& builder_;
  JsonErrors& errors_;
  std::optional<Source> last_;  // none if the previous layer failed
  std::unordered_map<std::string, Source> block_outputs_;
  std::unordered_set<std::string> failed_;  // names that failed
  std::vector<std::string>
      unfinished_blocks_;  // name stems of blocks with an error
};

void ModelReader::read_input(JsonCursor cursor) {
  ModelInput input;
  JsonCursor name = cursor.at("name");
  input.name = name.text();
  JsonCursor shape = cursor.at("shape");
  for (const JsonCursor& extent : shape.elements())
    input.shape.push_back(extent.integer(1, kMaxElements));
  input.type = number_type(cursor.find("type"), builder_.type());
  cursor.refuse_other_keys();
  if (!name.is_text() || !shape.exists()) return;
  auto added = builder_.add_input(input);
  if (added) return;
  failed_.insert(input.name);
  cursor.fail(added.error().message, added.error().hint);
}

void ModelReader::read_layers(const JsonCursor& list, const Scope& scope) {
  for (JsonCursor& element : list.elements()) {
    if (!element.json()->if_object()) {
      element.fail("expected a layer: an object with \"name\" and \"kind\"");
      last_.reset();
    } else if (element.json()->find("repeat")) {
      read_block(element, scope);
    } else {
      read_layer(element, scope);
    }
  }
}

void ModelReader::read_block(JsonCursor cursor, const Scope& outer) {
  const std::int64_t count = cursor.at("repeat").integer(1, kMaxModelLayers);
  JsonCursor start_at = cursor.find("start");
  const std::int64_t start =
      start_at.exists() ? start_at.integer(0, 1 << 30) : 0;
  JsonCursor name_at = cursor.at("name");
  const std::string name = name_at.text();
  JsonCursor layers = cursor.at("layers");
  cursor.refuse_other_keys();
  if (name_at.is_text() && count > 1 && name.find("{i}") == std::string::npos)
    name_at.fail(
        "the name \"" + name + "\" of a repeated block must contain {i}",
        "for example \"block{i}\"");
  if (layers.exists() && layers.json()->if_array() &&
      layers.json()->if_array()->empty())
    layers.fail("a block needs at least one layer");
  for (std::int64_t i = start; i < start + count; ++i) {
    Scope scope{"", std::to_string(i), last_, &outer};
    const std::string block = outer.prefix + with_index(name, scope);
    scope.prefix = block + ".";
    if (scope.prefix.size() > kMaxNameLength) {
      name_at.fail("the name \"" + shortened(block, 60) + "\" is too long");
      last_.reset();
    } else {
      read_layers(layers, scope);
    }
    if (last_ && !block_outputs_.emplace(block, *last_).second)
      name_at.fail("duplicate block \"" + block + "\"");
    if (errors_.empty()) continue;
    // Reports the errors of the first repetition only; the names of the others
    // stay unknown.
    unfinished_blocks_.push_back(outer.prefix +
                                 name.substr(0, name.find("{i}")));
    last_.reset();
    return;
  }
}

std::optional<Source> ModelReader::find(const std::string& full_name) const {
  if (auto source = builder_.find(full_name)) return source;
  auto block = block_outputs_.find(full_name);
  if (block == block_outputs_.end()) return std::nullopt;
  return block->second;
}

bool ModelReader::may_have_failed(const std::string& full_name) const {
  constexpr std::size_t kMaxStems = 50;  // with more, any name may have failed
  if (unfinished_blocks_.size() > kMaxStems || failed_.count(full_name))
    return true;
  for (const std::string& stem : unfinished_blocks_)
    if (full_name.compare(0, stem.size(), stem) == 0) return true;
  return false;
}

std::optional<Source> ModelReader::resolve(const JsonCursor& at,
                                           const Scope& scope) {
  const std::string name = with_index(at.text(), scope);
  if (!at.is_text()) return std::nullopt;
  if (name == "in") return scope.in;
  for (const Scope* s = &scope; s; s = s->outer) {
    if (auto source = find(s->prefix + name)) return source;
    if (may_have_failed(s->prefix + name)) return std::nullopt;
  }
  at.fail("unknown layer, block or input \"" + name + "\"",
          "a layer can only use what is defined before it");
  return std::nullopt;
}

std::optional<std::vector<Source>> ModelReader::read_from(
    const JsonCursor& from, const Scope& scope) {
  std::vector<Source> sources;
  bool complete = true;
  const auto take = [&](std::optional<Source> source) {
    if (source)
      sources.push_back(*source);
    else
      complete = false;
  };
  if (!from.exists())
    take(last_);
  else if (from.is_text())
    take(resolve(from, scope));
  else
    for (const JsonCursor& name : from.elements()) take(resolve(name, scope));
  if (!complete || (from.exists() && sources.empty())) return std::nullopt;
  return sources;
}

// Reports all wrong attributes of a layer, not only the first.
bool ModelReader::read_attributes(JsonCursor& cursor, const KindRule& rule,
                                  Attributes& attributes) {
  bool good = true;
  for (const SettingRule& setting : rule.attributes) {
    JsonCursor at = setting.is_required() ? cursor.at(setting.name)
                                          : cursor.find(setting.name);
    if (!at.exists()) {
      good = good && !setting.is_required();
      continue;
    }
    auto value = attribute_of(*at.json());
    auto checked = value
                       ? checked_setting(setting, *value)
                       : Result<Attribute>(malformed("unexpected value for \"" +
                                                     setting.name + "\""));
    if (checked)
      attributes[setting.name] = *checked;
    else
      at.fail(checked.error().message, checked.error().hint);
    good = good && checked.ok();
  }
  return good;
}

void ModelReader::read_layer(JsonCursor cursor, const Scope& scope) {
  LayerRequest request;
  JsonCursor name = cursor.at("name");
  request.name = scope.prefix + with_index(name.text(), scope);
  JsonCursor kind_at = cursor.at("kind");
  const std::string kind_name = kind_at.text();
  const auto kind = parse_layer_kind(kind_name);
  if (kind_at.is_text() && !kind)
    kind_at.fail("unknown kind \"" + kind_name + "\"",
                 suggestion(kind_name, kind_names()));
  auto sources = read_from(cursor.find("from"), scope);
  JsonCursor share = cursor.find("share");
  if (share.exists())
    for (const auto& [role, parameter] : share.members())
      request.shares[role] = with_index(parameter.text(), scope);
  bool good = kind && sources && name.is_text();
  if (kind) {
    good =
        read_attributes(cursor, kind_rule(*kind), request.attributes) && good;
    cursor.refuse_other_keys();
  }
  last_.reset();
  if (good && request.name.size() <= kMaxNameLength) {
    request.kind = *kind;
    request.inputs = *std::move(sources);
    auto added = builder_.add_layer(request);
    if (added)
      last_ = *added;
    else
      cursor.fail(added.error().message, added.error().hint);
  } else if (good) {
    cursor.fail("the name \"" + shortened(request.name, 60) + "\" is too long");
  }
  if (!last_) failed_.insert(request.name);
}

}  // namespace

Result<Model> parse_model(std::string_view text, const std::string& file) {
  if (static_cast<std::int64_t>(text.size()) > kMaxModelFile.value())
    return malformed(
        "the file has " +
            to_text(Bytes(static_cast<std::int64_t>(text.size()))) +
            "; the limit for a model file is " + to_text(kMaxModelFile),
        file, "write repeated blocks once, with \"repeat\"");
  PIPEWRIGHT_TRY(Json json, parse_json(text, file));
  JsonErrors errors(file);
  JsonCursor root(json, errors);
  root.require_format("pipewright/model", 1);
  JsonCursor name = root.at("name");
  const NumberType type = number_type(root.find("type"), NumberType::Float32);
  if (!is_floating(type))
    root.find("type").fail("the type of a model must be floating-point, not " +
                           to_text(type));
  ModelBuilder builder(name.text(), type);
  ModelReader reader(builder, errors);
  JsonCursor inputs = root.at("inputs");
  JsonCursor layers = root.at("layers");
  root.refuse_other_keys();
  if (inputs.exists())
    for (const JsonCursor& input : inputs.elements()) reader.read_input(input);
  reader.start();
  if (layers.exists()) reader.read_layers(layers, {});
  if (!errors.empty()) return errors.error();
  auto model = std::move(builder).build();
  if (!model) {
    layers.fail(model.error().message, model.error().hint);
    return errors.error();
  }
  return model;
}

}  // namespace pipewright
