// The grammar is nlohmann's SAX parser; this file adds what it leaves out:
// positions, duplicate keys, a depth limit, and the value type itself.

#include "pipewright/base/json.h"

#include <cmath>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr int kDeepest = 64;

struct Place {
  int line = 1;
  int column = 0;  // of the last character taken
};

// Hands characters to the parser and knows how far it has come.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, const char** reached)
      : at_(at), reached_(reached) {}
  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    *reached_ = at_;
    return *this;
  }
  bool operator==(const CountingIterator& other) const {
    return at_ == other.at_;
  }
  bool operator!=(const CountingIterator& other) const {
    return at_ != other.at_;
  }

 private:
  const char* at_;
  const char** reached_;
};

// Builds the tree. The parser reports a token when it has read its last
// character (for a number, the one behind it).
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, std::string_view file, const char** at)
      : begin_(text.data()), scanned_(text.data()), file_(file), reached_(at) {}

  bool null() override { return put(Json()); }
  bool boolean(bool b) override { return put(Json(b)); }
  bool number_integer(number_integer_t n) override {
    return put(Json(static_cast<std::int64_t>(n)));
  }
  bool number_unsigned(number_unsigned_t n) override {
    if (n > static_cast<number_unsigned_t>(INT64_MAX))
      return put(Json(static_cast<double>(n)));
    return put(Json(static_cast<std::int64_t>(n)));
  }
  bool number_float(number_float_t x, const string_t&) override {
    if (!std::isfinite(x)) return refuse("a number that fits no double");
    return put(Json(x));
  }
  bool string(string_t& s) override { return put(Json(std::move(s))); }
  bool binary(binary_t&) override { return refuse("binary data"); }

  bool start_object(std::size_t) override { return open(Json(Json::Object{})); }
  bool key(string_t& name) override {
    if (!open_.back().keys.insert(name).second)
      return refuse("the key \"" + name + "\" stands twice");
    open_.back().key = std::move(name);
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json(Json::Array{})); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& e) override {
    std::string what = e.what();
    // "[json.exception.parse_error.101] parse error at line 1, column 2: ..."
    std::size_t colon = what.find(": ");
    if (colon != std::string::npos) what = what.substr(colon + 2);
    return refuse(what);
  }

  Result<Json> take() {
    if (!error_.message.empty()) return error_;
    PIPEWRIGHT_CHECK(done_, "the parser ended without a value");
    return std::move(root_);
  }

 private:
  struct Open {
    Json json;
    std::string key;  // of the member being read
    std::unordered_set<std::string> keys;
  };

  bool refuse(std::string message) {
    if (!error_.message.empty()) return false;
    Place place = advance_to(*reached_);
    error_ = malformed(std::move(message),
                       std::string(file_) + ":" + std::to_string(place.line) +
                           ":" + std::to_string(std::max(1, place.column)));
    return false;
  }

  Place advance_to(const char* to) {
    for (; scanned_ < to; ++scanned_) {
      if (*scanned_ == '\n') {
        ++place_.line;
        place_.column = 0;
      } else {
        ++place_.column;
      }
    }
    return place_;
  }

  // A number's token ends one before what was read; the others end there. The
  // line of the character before the last is right for all of them.
  void mark(Json& json) {
    const char* to = *reached_ > begin_ ? *reached_ - 1 : begin_;
    Place place = advance_to(to);
    json.line = place.line;
    json.column = place.column + 1;
  }

  bool put(Json json) {
    mark(json);
    if (open_.empty()) {
      root_ = std::move(json);
      done_ = true;
      return true;
    }
    Open& parent = open_.back();
    if (parent.json.if_object())
      parent.json.set(std::move(parent.key), std::move(json));
    else
      parent.json.push(std::move(json));
    return true;
  }

  bool open(Json json) {
    if (open_.size() >= kDeepest)
      return refuse("nested deeper than " + std::to_string(kDeepest));
    mark(json);
    open_.push_back({std::move(json), {}, {}});
    return true;
  }

  bool close() {
    Json json = std::move(open_.back().json);
    int line = json.line, column = json.column;
    open_.pop_back();
    if (!put(std::move(json))) return false;
    Json* placed = open_.empty() ? &root_ : last_of(open_.back().json);
    placed->line = line;
    placed->column = column;
    return true;
  }

  static Json* last_of(Json& parent) {
    auto& value = const_cast<Json::Value&>(parent.value());
    if (auto* object = std::get_if<Json::Object>(&value))
      return &object->back().second;
    return &std::get<Json::Array>(value).back();
  }

  const char* begin_;
  const char* scanned_;
  std::string_view file_;
  const char** reached_;
  Place place_;
  std::vector<Open> open_;
  Json root_;
  bool done_ = false;
  Error error_;
};

void write_string(std::string& out, const std::string& s) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (char c : s) {
    unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (u < 0x20) {
      out += "\\u00";
      out += kHex[u >> 4];
      out += kHex[u & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

bool is_flat(const Json& json) {
  const auto* array = json.if_array();
  if (!array) return !json.if_object();
  for (const Json& element : *array)
    if (element.if_array() || element.if_object()) return false;
  return true;
}

// indent < 0: everything on one line.
void write(std::string& out, const Json& json, int indent);

template <class Items, class WriteItem>
void write_items(std::string& out, const Items& items, char open, char close,
                 int indent, bool flat, WriteItem write_item) {
  out += open;
  bool lines = indent >= 0 && !flat && !items.empty();
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += lines || indent < 0 ? "," : ", ";
    first = false;
    if (lines)
      out += "\n" + std::string(static_cast<std::size_t>(indent) + 2, ' ');
    write_item(item);
  }
  if (lines) out += "\n" + std::string(static_cast<std::size_t>(indent), ' ');
  out += close;
}

void write(std::string& out, const Json& json, int indent) {
  int inner = indent < 0 ? indent : indent + 2;
  const Json::Value& value = json.value();
  if (std::holds_alternative<std::nullptr_t>(value)) {
    out += "null";
  } else if (const bool* b = std::get_if<bool>(&value)) {
    out += *b ? "true" : "false";
  } else if (const std::int64_t* n = std::get_if<std::int64_t>(&value)) {
    out += std::to_string(*n);
  } else if (const double* x = std::get_if<double>(&value)) {
    PIPEWRIGHT_CHECK(std::isfinite(*x), "JSON has no infinity and no NaN");
    out += exact_text(*x);
  } else if (const std::string* s = json.if_string()) {
    write_string(out, *s);
  } else if (const Json::Array* a = json.if_array()) {
    write_items(out, *a, '[', ']', indent, is_flat(json),
                [&](const Json& e) { write(out, e, inner); });
  } else {
    write_items(out, *json.if_object(), '{', '}', indent, false,
                [&](const Json::Member& m) {
                  write_string(out, m.first);
                  out += indent < 0 ? ":" : ": ";
                  write(out, m.second, inner);
                });
  }
}

}  // namespace

const Json* Json::find(std::string_view key) const {
  const Object* members = if_object();
  if (!members) return nullptr;
  for (const Member& member : *members)
    if (member.first == key) return &member.second;
  return nullptr;
}

Json& Json::set(std::string key, Json value) {
  auto* members = std::get_if<Object>(&value_);
  PIPEWRIGHT_CHECK(members, "set() on a value that is no object");
  members->emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json element) {
  auto* elements = std::get_if<Array>(&value_);
  PIPEWRIGHT_CHECK(elements, "push() on a value that is no array");
  elements->push_back(std::move(element));
  return *this;
}

std::string Json::to_text() const {
  std::string out;
  write(out, *this, 0);
  out += '\n';
  return out;
}

std::string Json::to_line() const {
  std::string out;
  write(out, *this, -1);
  return out;
}

Result<Json> parse_json(std::string_view text, std::string_view file) {
  const char* reached = text.data();
  TreeBuilder builder(text, file, &reached);
  CountingIterator first(text.data(), &reached);
  CountingIterator last(text.data() + text.size(), &reached);
  nlohmann::json::sax_parse(first, last, &builder,
                            nlohmann::json::input_format_t::json,
                            /*strict=*/true, /*ignore_comments=*/true);
  return builder.take();
}

}  // namespace pipewright
