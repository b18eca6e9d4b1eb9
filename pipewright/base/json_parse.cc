// Parsing is done by nlohmann's SAX parser; this file adds what it lacks:
// positions, the check for duplicate keys, limits on depth and size.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

constexpr int kMaxDepth = 64;
// A value takes about 100 bytes of memory while it is read: this limit keeps a
// hostile file within a few hundred megabytes.
constexpr int kMaxValues = 1'000'000;

struct Place {
  int line = 1;
  int column = 1;
};

// Passes characters to the parser and knows how far it has read.
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

// Where the tokens of a text begin. The parser reports a token after it has
// read the token's last character (for a number, the next one), so the start is
// found by going on from the end of the previous token.
class Places {
 public:
  Places(std::string_view text, const char* const* reached)
      : at_(text.data()),
        begin_(text.data()),
        end_(text.data() + text.size()),
        reached_(reached) {}

  // Of the token just reported. Must be called once for every token.
  Place token() {
    skip_separators();
    Place start = place_;
    advance_to(token_end());
    return start;
  }

  // Of the last character read: where the syntax error is.
  Place last_read() {
    advance_to(*reached_ > at_ ? *reached_ - 1 : *reached_);
    return place_;
  }

 private:
  // Columns count characters, not bytes.
  void advance_to(const char* to) {
    for (; at_ < to; ++at_) {
      if (*at_ == '\n')
        place_ = {place_.line + 1, 1};
      else if (at_ + 1 >= end_ || (at_[1] & 0xC0) != 0x80)
        ++place_.column;
    }
  }

  // Skips what may lie between two tokens of text that the parser accepted.
  void skip_separators() {
    while (at_ < *reached_) {
      if (*at_ == '/') {
        advance_to(comment_end());
      } else if (at_ == begin_ && *at_ == '\xEF') {
        at_ += 3;  // a byte order mark takes no column
      } else if (std::strchr(" \t\r\n,:", *at_) && *at_) {
        advance_to(at_ + 1);
      } else {
        return;
      }
    }
  }

  // The parser ends a line comment at a carriage return as well.
  const char* comment_end() const {
    const std::string_view rest(at_, end_ - at_);
    const bool is_block = rest.substr(0, 2) == "/*";
    const std::size_t found =
        is_block ? rest.find("*/", 2) : rest.find_first_of("\r\n");
    if (found == std::string_view::npos) return end_;
    return at_ + found + (is_block ? 2 : 1);
  }

  const char* token_end() const {
    if (at_ >= *reached_) return at_;
    const bool is_number = *at_ == '-' || (*at_ >= '0' && *at_ <= '9');
    const char last = (*reached_)[-1];
    if (is_number && !(last >= '0' && last <= '9')) return *reached_ - 1;
    return *reached_;
  }

  const char* at_;
  const char* begin_;
  const char* end_;
  const char* const* reached_;
  Place place_;
};

// Builds the tree.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, std::string_view file,
              const char* const* reached)
      : file_(file), places_(text, reached) {}

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
    if (!std::isfinite(x))
      return refuse("a number outside the range of a double", places_.token());
    return put(Json(x));
  }
  bool string(string_t& s) override { return put(Json(std::move(s))); }
  bool binary(binary_t&) override {
    return refuse("binary data is not supported", places_.token());
  }

  bool start_object(std::size_t) override { return open(Json(Json::Object{})); }
  bool key(string_t& name) override {
    const Place place = places_.token();
    Open& parent = open_.back();
    const auto [first, is_new] = parent.keys.emplace(name, place.line);
    if (!is_new)
      return refuse("duplicate key \"" + shortened(name, 60) +
                        "\", first on line " + std::to_string(first->second),
                    place);
    parent.key = std::move(name);
    parent.key_line = place.line;
    return true;
  }
  bool end_object() override { return close(); }
  bool start_array(std::size_t) override { return open(Json(Json::Array{})); }
  bool end_array() override { return close(); }

  bool parse_error(std::size_t, const std::string&,
                   const nlohmann::detail::exception& e) override {
    return refuse(plain_reason(e.what()), places_.last_read(),
                  num_values_ == 0 ? "this is not JSON" : "");
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
    int key_line = 0;
    std::unordered_map<std::string, int> keys;  // and the line of each
  };

  // "[json.exception.parse_error.101] parse error at line 1, column 2: syntax
  // error while parsing ..." without the position, which is given already.
  static std::string plain_reason(std::string_view what) {
    for (std::string_view mark : {"] ", "parse error at ", ": "})
      if (std::size_t at = what.find(mark); at != std::string_view::npos)
        what.remove_prefix(at + mark.size());
      else if (mark[0] == 'p')
        break;
    return shortened(std::string(what), 200);
  }

  bool refuse(std::string message, Place place, std::string hint = {}) {
    if (!error_.message.empty()) return false;
    error_ = malformed(std::move(message),
                       std::string(file_) + ":" + std::to_string(place.line) +
                           ":" + std::to_string(place.column),
                       std::move(hint));
    return false;
  }

  bool put(Json json) {
    const Place place = places_.token();
    json.line = place.line;
    json.column = place.column;
    if (++num_values_ > kMaxValues)
      return refuse(
          "the file has more than " + with_thousands(kMaxValues) + " values",
          place);
    add(std::move(json));
    return true;
  }

  bool open(Json json) {
    const Place place = places_.token();
    if (open_.size() >= kMaxDepth)
      return refuse(
          "nested deeper than " + std::to_string(kMaxDepth) + " levels", place);
    if (++num_values_ > kMaxValues)
      return refuse(
          "the file has more than " + with_thousands(kMaxValues) + " values",
          place);
    json.line = place.line;
    json.column = place.column;
    open_.push_back({std::move(json), {}, 0, {}});
    return true;
  }

  bool close() {
    places_.token();
    Json json = std::move(open_.back().json);
    open_.pop_back();
    add(std::move(json));
    return true;
  }

  void add(Json json) {
    if (open_.empty()) {
      root_ = std::move(json);
      done_ = true;
      return;
    }
    Open& parent = open_.back();
    if (parent.json.if_object()) {
      json.key_line = parent.key_line;
      parent.json.set(std::move(parent.key), std::move(json));
    } else {
      parent.json.push(std::move(json));
    }
  }

  std::string_view file_;
  Places places_;
  std::vector<Open> open_;
  int num_values_ = 0;
  Json root_;
  bool done_ = false;
  Error error_;
};

}  // namespace

Result<Json> parse_json(std::string_view text, std::string_view file) {
  if (trim(text).empty())
    return malformed("the file is empty", std::string(file) + ":1:1");
  // The parser takes a NUL for the end of the text.
  if (const std::size_t at = text.find('\0'); at != std::string_view::npos) {
    const auto line = std::count(text.begin(), text.begin() + at, '\n') + 1;
    return malformed("the file contains a NUL byte",
                     std::string(file) + ":" + std::to_string(line),
                     "is this a text file?");
  }
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
