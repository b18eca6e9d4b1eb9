#include "tests/cli/mutations.h"

#include <algorithm>
#include <cctype>

namespace pipewright::cli {
namespace {

std::size_t below(std::size_t limit, std::mt19937& random) {
  return limit == 0 ? 0 : random() % limit;
}

void replace_number(std::string& text, std::mt19937& random) {
  static const std::string kExtremes[] = {
      "0",  "-1",   "1e308", "-1e308", "99999999999999999999", "2147483648",
      "1e", "1e-9", "0.5",   "65536",  "9223372036854775807",  "nan"};
  const auto is_digit = [](unsigned char c) { return std::isdigit(c) != 0; };
  auto from = text.begin() +
              static_cast<std::ptrdiff_t>(below(text.size() + 1, random));
  from = std::find_if(from, text.end(), is_digit);
  const auto to = std::find_if_not(from, text.end(), is_digit);
  text.replace(from, to, kExtremes[below(std::size(kExtremes), random)]);
}

void mutate_once(std::string& text, std::mt19937& random) {
  static const std::string kTelling = "\"{}[],:0F-+.eE \n\t\\/xN";
  const std::size_t at = below(text.size(), random);
  const std::size_t n = 1 + below(32, random);
  switch (random() % 8) {
    case 0:
      if (!text.empty()) text[at] = static_cast<char>(random());
      break;
    case 1:
      if (!text.empty()) text[at] = kTelling[below(kTelling.size(), random)];
      break;
    case 2:
      text.insert(at, 1, kTelling[below(kTelling.size(), random)]);
      break;
    case 3:
      text.erase(at, 1);
      break;
    case 4:
      text.erase(at, n);
      break;
    case 5:
      text.insert(at, text.substr(at, n));
      break;
    case 6:
      text.insert(below(text.size(), random), text.substr(at, n));
      break;
    default:
      replace_number(text, random);
  }
}

Json copy_with(const Json& json, std::size_t& left, const Json& other) {
  if (left-- == 0) return other;
  if (const auto* array = json.if_array()) {
    Json copy = Json::array();
    for (const Json& element : *array)
      copy.push(copy_with(element, left, other));
    return copy;
  }
  if (const auto* object = json.if_object()) {
    Json copy = Json::object();
    for (const auto& [key, member] : *object)
      copy.set(key, copy_with(member, left, other));
    return copy;
  }
  return json;
}

}  // namespace

std::string mutated(std::string text, std::mt19937& random) {
  for (unsigned i = 1 + random() % 4; i > 0; --i) mutate_once(text, random);
  return text;
}

std::size_t num_values(const Json& json) {
  std::size_t n = 1;
  if (const auto* array = json.if_array())
    for (const Json& element : *array) n += num_values(element);
  if (const auto* object = json.if_object())
    for (const auto& [key, member] : *object) n += num_values(member);
  return n;
}

Json with_value(const Json& json, std::size_t index, const Json& other) {
  return copy_with(json, index, other);
}

}  // namespace pipewright::cli
