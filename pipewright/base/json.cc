// The value type and its text form. Reading is in json_parse.cc.

#include "pipewright/base/json.h"

#include <algorithm>
#include <cmath>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

void write_string(std::string& out, const std::string& s) {
  static constexpr char kHex[] = "0123456789abcdef";
  out += '"';
  for (std::size_t i = 0; i < s.size(); ++i) {
    const char c = s[i];
    const unsigned char u = static_cast<unsigned char>(c);
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
    } else if (u < 0x80) {
      out += c;
    } else {
      // Names from imported files may be in any encoding; our files are UTF-8.
      const std::size_t length = utf8_length(std::string_view(s).substr(i));
      out += length == 0 ? "\uFFFD" : std::string_view(s).substr(i, length);
      i += std::max<std::size_t>(1, length) - 1;
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
    if (lines) out += "\n" + std::string(indent + 2, ' ');
    write_item(item);
  }
  if (lines) out += "\n" + std::string(indent, ' ');
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
    PIPEWRIGHT_CHECK(std::isfinite(*x), "JSON cannot hold infinity or NaN");
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
  PIPEWRIGHT_CHECK(members, "set() on a value that is not an object");
  members->emplace_back(std::move(key), std::move(value));
  return *this;
}

Json& Json::push(Json element) {
  auto* elements = std::get_if<Array>(&value_);
  PIPEWRIGHT_CHECK(elements, "push() on a value that is not an array");
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

}  // namespace pipewright
