#include "pipewright/base/json_cursor.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

std::string type_name(const Json& json) {
  static const char* const kNames[] = {"null",     "a boolean", "an integer",
                                       "a number", "text",      "an array",
                                       "an object"};
  return kNames[json.value().index()];
}

// " is below 1" or " is above 8" if the range is open on the other side,
// otherwise " is not between 1 and 8".
std::string outside(bool is_below, const std::string& min,
                    const std::string& max, bool no_min, bool no_max) {
  if (is_below && no_max) return " is below " + min;
  if (!is_below && no_min) return " is above " + max;
  return " is not between " + min + " and " + max;
}

}  // namespace

void JsonErrors::add(const Json* at, const std::string& path,
                     std::string message, std::string hint) {
  add(at ? at->line : 0, path, std::move(message), std::move(hint));
}

void JsonErrors::add(int line, const std::string& path, std::string message,
                     std::string hint) {
  constexpr std::size_t kMaxErrors = 50;
  if (ignores_further_) return;
  std::string where = file_;
  if (line > 0) where += ":" + std::to_string(line);
  if (!path.empty()) where += ": " + path;
  for (const Error& error : errors_)
    if (error.where == where && error.message == message) return;
  if (errors_.size() >= kMaxErrors) {
    ++num_left_out_;
    return;
  }
  errors_.push_back(
      malformed(std::move(message), std::move(where), std::move(hint)));
}

Error JsonErrors::error() const {
  PIPEWRIGHT_CHECK(!empty(), "no error was recorded");
  Error first = errors_.front();
  first.others.assign(errors_.begin() + 1, errors_.end());
  if (num_left_out_ > 0)
    first.others.push_back(malformed(
        "and " + std::to_string(num_left_out_) + " more errors", file_));
  return first;
}

void JsonCursor::fail(std::string message, std::string hint) const {
  if (value_) errors_->add(value_, path_, std::move(message), std::move(hint));
}

bool JsonCursor::expect(bool matches, std::string_view wanted) const {
  if (value_ && !matches)
    fail("expected " + std::string(wanted) + ", found " + type_name(*value_));
  return value_ && matches;
}

JsonCursor JsonCursor::find(std::string_view key) {
  asked_.emplace_back(key);
  std::string path =
      path_.empty() ? std::string(key) : path_ + "." + std::string(key);
  const Json* member = nullptr;
  if (expect(value_ && value_->if_object(), "an object"))
    member = value_->find(key);
  return JsonCursor(member, errors_, std::move(path));
}

JsonCursor JsonCursor::at(std::string_view key) {
  bool was_object = value_ && value_->if_object();
  JsonCursor member = find(key);
  if (was_object && !member.exists()) {
    std::vector<std::string> present;
    for (const auto& [name, json] : *value_->if_object())
      if (std::find(asked_.begin(), asked_.end(), name) == asked_.end())
        present.push_back(name);
    std::string near = nearest_name(key, present);
    fail("missing key \"" + std::string(key) + "\"",
         near.empty() ? "" : "found \"" + near + "\"");
  }
  return member;
}

void JsonCursor::refuse_other_keys() {
  if (!value_ || !value_->if_object()) return;
  const std::set<std::string> known(asked_.begin(), asked_.end());
  const std::vector<std::string> names(known.begin(), known.end());
  for (const auto& [name, json] : *value_->if_object()) {
    if (known.count(name)) continue;
    errors_->add(json.key_line, path_,
                 "unknown key \"" + shortened(name, 60) + "\"",
                 suggestion(name, names));
  }
}

namespace {

// With which argument a command takes a file of another format; empty for one
// that is not ours.
std::string place_of_format(const std::string& format) {
  if (format == "pipewright/plan")
    return "it is a plan; pipewright simulate PLAN --cluster CLUSTER takes one";
  if (format == "pipewright/exported")
    return "it is an exported model, which commands take with --model";
  for (const std::string name : {"model", "cluster", "profile"})
    if (format == "pipewright/" + name)
      return "it is a " + name + ", which commands take with --" + name;
  return "";
}

}  // namespace

void JsonCursor::require_format(std::string_view format, int version) {
  JsonCursor name = find("format");
  if (!name.exists()) {
    if (value_ && value_->if_object())
      fail("missing key \"format\"",
           "here it is \"" + std::string(format) + "\"");
    errors_->ignore_further();
    return;
  }
  if (name.is_text() && name.text() != format) {
    name.fail("expected \"" + std::string(format) + "\", found \"" +
                  shortened(name.text(), 60) + "\"",
              place_of_format(name.text()));
    errors_->ignore_further();
    return;
  }
  name.text();
  JsonCursor number = at("version");
  std::int64_t found = number.integer();
  if (number.is_number() && found != version)
    number.fail("unsupported version " + std::to_string(found) +
                    "; this program reads version " + std::to_string(version),
                "write the file again with this version of pipewright");
}

std::vector<JsonCursor> JsonCursor::elements() const {
  std::vector<JsonCursor> cursors;
  if (!expect(value_ && value_->if_array(), "an array")) return cursors;
  std::size_t i = 0;
  for (const Json& element : *value_->if_array())
    cursors.push_back(
        JsonCursor(&element, errors_, path_ + "[" + std::to_string(i++) + "]"));
  return cursors;
}

std::vector<std::pair<std::string, JsonCursor>> JsonCursor::members() const {
  std::vector<std::pair<std::string, JsonCursor>> cursors;
  if (!expect(value_ && value_->if_object(), "an object")) return cursors;
  for (const auto& [name, json] : *value_->if_object())
    cursors.emplace_back(
        name,
        JsonCursor(&json, errors_, path_.empty() ? name : path_ + "." + name));
  return cursors;
}

std::int64_t JsonCursor::integer(std::int64_t min, std::int64_t max) const {
  const auto* n =
      value_ ? std::get_if<std::int64_t>(&value_->value()) : nullptr;
  // 3.0 is an integer too: some programs write only doubles.
  std::int64_t number = 0;
  const auto* x = value_ ? std::get_if<double>(&value_->value()) : nullptr;
  bool whole = x && std::abs(*x) < 9e15 && std::floor(*x) == *x;
  if (n)
    number = *n;
  else if (whole)
    number = static_cast<std::int64_t>(*x);
  const std::int64_t harmless = std::clamp<std::int64_t>(0, min, max);
  if (!expect(n || whole, x ? "a whole number below 2^53" : "an integer"))
    return harmless;
  if (number < min || number > max) {
    fail(std::to_string(number) +
         outside(number < min, std::to_string(min), std::to_string(max),
                 min == std::numeric_limits<std::int64_t>::min(),
                 max == std::numeric_limits<std::int64_t>::max()));
    return harmless;
  }
  return number;
}

double JsonCursor::real(double min, double max) const {
  double number = 0;
  bool is_number = false;
  if (value_) {
    if (const auto* n = std::get_if<std::int64_t>(&value_->value())) {
      number = static_cast<double>(*n);
      is_number = true;
    } else if (const auto* x = std::get_if<double>(&value_->value())) {
      number = *x;
      is_number = true;
    }
  }
  const double harmless = std::clamp(0.0, min, max);
  if (!expect(is_number, "a number")) return harmless;
  if (!(number >= min && number <= max)) {
    fail(exact_text(number) +
         outside(number < min, exact_text(min), exact_text(max),
                 min == std::numeric_limits<double>::lowest(),
                 max == std::numeric_limits<double>::max()));
    return harmless;
  }
  return number;
}

bool JsonCursor::boolean() const {
  const bool* b = value_ ? std::get_if<bool>(&value_->value()) : nullptr;
  return expect(b, "true or false") && *b;
}

std::string JsonCursor::text() const {
  if (!expect(is_text(), "text")) return {};
  return *value_->if_string();
}

bool JsonCursor::is_number() const {
  return value_ && (std::holds_alternative<std::int64_t>(value_->value()) ||
                    std::holds_alternative<double>(value_->value()));
}

bool JsonCursor::is_text() const { return value_ && value_->if_string(); }

}  // namespace pipewright
