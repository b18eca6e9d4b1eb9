// A JSON value that knows its line and column in the file.
//
// Reading rejects what JSON leaves open: duplicate keys, nesting deeper than
// 64, more than a million values, numbers outside the range of a double, text
// that is not UTF-8, anything after the value. // and /* */ comments are
// allowed. Writing keeps the order of keys and round-trips every number.
// json_cursor.h reads values with checks.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright {

class Json {
 public:
  using Array = std::vector<Json>;
  using Member = std::pair<std::string, Json>;
  using Object = std::vector<Member>;  // in file order
  using Value = std::variant<std::nullptr_t, bool, std::int64_t, double,
                             std::string, Array, Object>;

  Json() : value_(nullptr) {}
  Json(bool b) : value_(b) {}
  Json(int n) : value_(static_cast<std::int64_t>(n)) {}
  Json(std::int64_t n) : value_(n) {}
  Json(std::size_t n) : value_(static_cast<std::int64_t>(n)) {}
  Json(double x) : value_(x) {}
  Json(const char* s) : value_(std::string(s)) {}
  Json(std::string_view s) : value_(std::string(s)) {}
  Json(std::string s) : value_(std::move(s)) {}
  Json(Array a) : value_(std::move(a)) {}
  Json(Object o) : value_(std::move(o)) {}

  static Json object() { return Json(Object{}); }
  static Json array() { return Json(Array{}); }

  const Value& value() const { return value_; }
  bool is_null() const { return value_.index() == 0; }
  const std::string* if_string() const {
    return std::get_if<std::string>(&value_);
  }
  const Array* if_array() const { return std::get_if<Array>(&value_); }
  const Object* if_object() const { return std::get_if<Object>(&value_); }
  const Json* find(std::string_view key) const;  // null if there is none

  // For writing: add a member or an element.
  Json& set(std::string key, Json value);
  Json& push(Json element);

  // Indented by two spaces; arrays of plain values stay on one line.
  std::string to_text() const;
  // On one line, as in a metrics file.
  std::string to_line() const;

  // Position in the file; 0 if it was not read from one.
  int line = 0;
  int column = 0;    // of its first character, counted in characters
  int key_line = 0;  // of its key, if it is a member; otherwise 0

 private:
  Value value_;
};

// `file` names the source in errors. Fails with MalformedInput,
// file:line:column.
Result<Json> parse_json(std::string_view text, std::string_view file);

}  // namespace pipewright
