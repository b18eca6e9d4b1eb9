#include "pipewright/runtime/checkpoint/safetensors.h"

#include <array>
#include <cstring>
#include <optional>

#include "pipewright/base/json_cursor.h"

namespace pipewright {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::int64_t kMaxNumbers = std::int64_t{1} << 40;

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr std::array<TypeName, 7> kTypes = {{{at::kDouble, "F64"},
                                             {at::kFloat, "F32"},
                                             {at::kHalf, "F16"},
                                             {at::kBFloat16, "BF16"},
                                             {at::kLong, "I64"},
                                             {at::kInt, "I32"},
                                             {at::kByte, "U8"}}};

const char* name_of(at::ScalarType type) {
  for (const TypeName& known : kTypes)
    if (known.type == type) return known.name;
  PIPEWRIGHT_CHECK(false, "a tensor type that safetensors does not have");
  return "";
}

std::optional<at::ScalarType> type_of_name(const std::string& name) {
  for (const TypeName& known : kTypes)
    if (known.name == name) return known.type;
  return std::nullopt;
}

// One entry of the header, its numbers copied out of `numbers`; adds their
// bytes to `covered`.
at::Tensor read_tensor(JsonCursor entry, std::string_view numbers,
                       std::size_t& covered) {
  const auto type = type_of_name(entry.at("dtype").text());
  if (!type) entry.at("dtype").fail("is not a supported type");
  std::vector<std::int64_t> sizes;
  std::int64_t count = 1;
  for (const JsonCursor& size : entry.at("shape").elements()) {
    sizes.push_back(size.integer(0, kMaxNumbers));
    count =
        std::min(count * std::max<std::int64_t>(sizes.back(), 0), kMaxNumbers);
    if (sizes.size() > 8) break;
  }
  const auto offsets = entry.at("data_offsets").elements();
  entry.refuse_other_keys();
  if (!type || offsets.size() != 2) {
    entry.fail("needs a type and two offsets");
    return {};
  }
  const auto end_of_file = static_cast<std::int64_t>(numbers.size());
  const std::int64_t begin = offsets[0].integer(0, end_of_file);
  const std::int64_t end = offsets[1].integer(begin, end_of_file);
  const auto width = static_cast<std::int64_t>(c10::elementSize(*type));
  if (end - begin != count * width) {
    entry.fail("has " + std::to_string(end - begin) + " bytes for " +
               std::to_string(count) + " numbers of " + std::to_string(width));
    return {};
  }
  covered += end - begin;
  at::Tensor tensor = at::empty(sizes, *type);
  if (end > begin)
    std::memcpy(tensor.data_ptr(), numbers.data() + begin, end - begin);
  return tensor;
}

}  // namespace

std::string to_safetensors(const NamedTensors& tensors) {
  Json header = Json::object();
  std::string numbers;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.contiguous();
    const std::size_t begin = numbers.size();
    numbers.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
    Json shape = Json::array(), offsets = Json::array();
    for (const std::int64_t size : plain.sizes()) shape.push(size);
    offsets.push(begin).push(numbers.size());
    Json entry = Json::object();
    entry.set("dtype", name_of(plain.scalar_type()));
    entry.set("shape", std::move(shape));
    entry.set("data_offsets", std::move(offsets));
    header.set(name, std::move(entry));
  }
  std::string text = header.to_line();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // numbers stay aligned
  std::string length(kLengthBytes, '\0');
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length[i] = static_cast<char>(text.size() >> 8 * i & 255);
  return length + text + numbers;
}

Result<NamedTensors> parse_safetensors(std::string_view bytes,
                                       const std::string& file) {
  if (bytes.size() < kLengthBytes)
    return malformed("has " + std::to_string(bytes.size()) +
                         " bytes, too few for a safetensors file",
                     file);
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  if (length > bytes.size() - kLengthBytes)
    return malformed("is cut off: its header should have " +
                         std::to_string(length) + " bytes",
                     file);
  PIPEWRIGHT_TRY(const Json header,
                 parse_json(bytes.substr(kLengthBytes, length), file));
  const std::string_view numbers = bytes.substr(kLengthBytes + length);
  JsonErrors errors(file);
  NamedTensors tensors;
  std::size_t covered = 0;
  for (auto& [name, entry] : JsonCursor(header, errors).members())
    if (name != "__metadata__")
      tensors[name] = read_tensor(entry, numbers, covered);
  if (!errors.empty()) return errors.error();
  if (covered != numbers.size())
    return malformed("has " + std::to_string(numbers.size()) +
                         " bytes of numbers, its header describes " +
                         std::to_string(covered),
                     file);
  return tensors;
}

}  // namespace pipewright
