// Reads a Json value with checks, one line per key:
//
//   return read_json(text, "plan.json", [](JsonCursor& root) {
//     Plan plan;
//     plan.minibatch = root.at("minibatch").integer(1, 1 << 30);
//     for (JsonCursor stage : root.at("stages").elements()) ...
//     root.refuse_other_keys();
//     return plan;
//   });
//
// A missing or wrong value is recorded as an error once, with file, line and
// key path; the cursor then returns a harmless default, so that one pass over a
// file reports everything that is wrong with it.

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipewright/base/error.h"
#include "pipewright/base/json.h"

namespace pipewright {

// The errors of one file, each recorded once.
class JsonErrors {
 public:
  explicit JsonErrors(std::string file) : file_(std::move(file)) {}

  void add(const Json* at, const std::string& path, std::string message,
           std::string hint = {});
  void add(int line, const std::string& path, std::string message,
           std::string hint = {});
  // Drops all errors that are added later: they would only follow from an
  // earlier one.
  void ignore_further() { ignores_further_ = true; }
  bool empty() const { return errors_.empty(); }
  Error error() const;  // the first one, holding the others; not if empty

 private:
  std::string file_;
  std::vector<Error> errors_;
  int num_left_out_ = 0;  // not stored: too many to read
  bool ignores_further_ = false;
};

class JsonCursor {
 public:
  JsonCursor(const Json& value, JsonErrors& errors)
      : value_(&value), errors_(&errors) {}

  bool exists() const { return value_ != nullptr; }
  const Json* json() const { return value_; }  // null if missing
  const std::string& path() const { return path_; }

  // A member that must exist, and one that may.
  JsonCursor at(std::string_view key);
  JsonCursor find(std::string_view key);
  // Records an error for every key that at() and find() have not been asked
  // for, with the nearest one that they have.
  void refuse_other_keys();
  // Checks "format" and "version" of one of our files. After a wrong or missing
  // format no further errors are recorded.
  void require_format(std::string_view format, int version);

  std::vector<JsonCursor> elements() const;  // of an array
  // Of an object whose keys are data, as (key, value).
  std::vector<std::pair<std::string, JsonCursor>> members() const;

  std::int64_t integer(
      std::int64_t min = std::numeric_limits<std::int64_t>::min(),
      std::int64_t max = std::numeric_limits<std::int64_t>::max()) const;
  double real(double min = std::numeric_limits<double>::lowest(),
              double max = std::numeric_limits<double>::max()) const;
  bool boolean() const;
  std::string text() const;
  bool is_text() const;
  bool is_number() const;

  // Records an error at this value.
  void fail(std::string message, std::string hint = {}) const;

 private:
  JsonCursor(const Json* value, JsonErrors* errors, std::string path)
      : value_(value), errors_(errors), path_(std::move(path)) {}
  bool expect(bool matches, std::string_view wanted) const;

  const Json* value_ = nullptr;
  JsonErrors* errors_ = nullptr;
  std::string path_;
  std::vector<std::string> asked_;
};

// Parses the text and returns what `read` makes of its root, or all errors that
// were recorded while reading.
template <typename Read>
auto read_json(std::string_view text, const std::string& file, Read read)
    -> Result<decltype(read(std::declval<JsonCursor&>()))> {
  const Result<Json> json = parse_json(text, file);
  if (!json) return json.error();
  JsonErrors errors(file);
  JsonCursor root(*json, errors);
  auto value = read(root);
  if (!errors.empty()) return errors.error();
  return value;
}

}  // namespace pipewright
