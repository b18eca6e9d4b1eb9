#include "pipewright/model/layer.h"

#include <array>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

struct NumberTypeFacts {
  const char* name;
  std::int64_t bytes;
  bool floating;
};

constexpr std::array<NumberTypeFacts, 8> kNumberTypes = {{
    {"float64", 8, true},
    {"float32", 4, true},
    {"float16", 2, true},
    {"bfloat16", 2, true},
    {"int64", 8, false},
    {"int32", 4, false},
    {"uint8", 1, false},
    {"bool", 1, false},
}};

const NumberTypeFacts& facts(NumberType type) {
  return kNumberTypes[static_cast<int>(type)];
}

template <class T>
const T& attribute(const Attributes& attributes, const std::string& name) {
  auto found = attributes.find(name);
  PIPEWRIGHT_CHECK(found != attributes.end(), "no attribute " + name);
  const T* value = std::get_if<T>(&found->second);
  PIPEWRIGHT_CHECK(value, "attribute " + name + " has another type");
  return *value;
}

}  // namespace

Bytes size_of(NumberType type) { return Bytes(facts(type).bytes); }
bool is_floating(NumberType type) { return facts(type).floating; }
std::string to_text(NumberType type) { return facts(type).name; }

std::optional<NumberType> parse_number_type(std::string_view text) {
  for (std::size_t i = 0; i < kNumberTypes.size(); ++i)
    if (text == kNumberTypes[i].name) return static_cast<NumberType>(i);
  return std::nullopt;
}

std::int64_t num_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (std::int64_t extent : shape) product *= extent;
  return product;
}

std::string to_text(const Shape& shape) {
  std::string text;
  for (std::int64_t extent : shape)
    text += (text.empty() ? "" : "x") + std::to_string(extent);
  return text.empty() ? "1" : text;
}

bool flag(const Attributes& attributes, const std::string& name) {
  return attribute<bool>(attributes, name);
}
std::int64_t integer(const Attributes& attributes, const std::string& name) {
  return attribute<std::int64_t>(attributes, name);
}
double real(const Attributes& attributes, const std::string& name) {
  return attribute<double>(attributes, name);
}
const std::string& text(const Attributes& attributes, const std::string& name) {
  return attribute<std::string>(attributes, name);
}
const Shape& pair(const Attributes& attributes, const std::string& name) {
  return attribute<Shape>(attributes, name);
}

}  // namespace pipewright
