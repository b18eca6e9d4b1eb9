#include "pipewright/runtime/safetensors/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "pipewright/base/json_cursor.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMaxNumbers = std::int64_t{1} << 40;

struct TypeName {
  at::ScalarType type;
  const char* name;
};
constexpr std::array<TypeName, 10> kTypes = {{{at::kDouble, "F64"},
                                              {at::kFloat, "F32"},
                                              {at::kHalf, "F16"},
                                              {at::kBFloat16, "BF16"},
                                              {at::kLong, "I64"},
                                              {at::kInt, "I32"},
                                              {at::kShort, "I16"},
                                              {at::kChar, "I8"},
                                              {at::kByte, "U8"},
                                              {at::kBool, "BOOL"}}};

std::optional<at::ScalarType> type_of_name(const std::string& name) {
  for (const TypeName& known : kTypes)
    if (known.name == name) return known.type;
  return std::nullopt;
}

// One entry of the header; its offsets are within `num_bytes`.
StoredTensor read_entry(JsonCursor entry, std::size_t num_bytes) {
  StoredTensor stored;
  stored.type_name = entry.at("dtype").text();
  stored.type = type_of_name(stored.type_name);
  std::int64_t count = 1;
  for (const JsonCursor& size : entry.at("shape").elements()) {
    stored.sizes.push_back(size.integer(0, kMaxNumbers));
    count = std::min(count * std::max<std::int64_t>(stored.sizes.back(), 0),
                     kMaxNumbers);
    if (stored.sizes.size() > 8) break;
  }
  const auto offsets = entry.at("data_offsets").elements();
  entry.refuse_other_keys();
  if (offsets.size() != 2) {
    entry.fail("needs two offsets");
    return stored;
  }
  const auto last = static_cast<std::int64_t>(num_bytes);
  const std::int64_t begin = offsets[0].integer(0, last);
  const std::int64_t end = offsets[1].integer(begin, last);
  stored.begin = static_cast<std::size_t>(begin);
  stored.end = static_cast<std::size_t>(end);
  const auto width = static_cast<std::int64_t>(
      stored.type ? c10::elementSize(*stored.type) : 0);
  if (stored.type && end - begin != count * width)
    entry.fail("has " + std::to_string(end - begin) + " bytes for " +
               std::to_string(count) + " numbers of " + std::to_string(width));
  return stored;
}

Json header_entry(const at::Tensor& tensor, std::size_t begin) {
  Json shape = Json::array(), offsets = Json::array();
  for (const std::int64_t size : tensor.sizes()) shape.push(size);
  offsets.push(begin).push(begin + tensor.nbytes());
  Json entry = Json::object();
  entry.set("dtype", stored_type(tensor.scalar_type()));
  entry.set("shape", std::move(shape));
  entry.set("data_offsets", std::move(offsets));
  return entry;
}

}  // namespace

std::string stored_type(at::ScalarType type) {
  for (const TypeName& known : kTypes)
    if (known.type == type) return known.name;
  PIPEWRIGHT_CHECK(false, "a tensor type that safetensors does not have");
  return "";
}

std::string to_safetensors(const NamedTensors& tensors) {
  Json header = Json::object();
  std::size_t num_bytes = 0;
  for (const auto& [name, tensor] : tensors) {
    header.set(name, header_entry(tensor, num_bytes));
    num_bytes += tensor.nbytes();
  }
  std::string text = header.to_line();
  while (!text.empty() && text.back() == '\n') text.pop_back();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // numbers stay aligned
  std::string bytes(kLengthBytes, '\0');
  bytes.reserve(kLengthBytes + text.size() + num_bytes);
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    bytes[i] = static_cast<char>(text.size() >> 8 * i & 255);
  bytes += text;
  for (const auto& [name, tensor] : tensors) {
    const at::Tensor plain = tensor.contiguous();
    bytes.append(static_cast<const char*>(plain.data_ptr()), plain.nbytes());
  }
  return bytes;
}

std::uint64_t header_length(std::string_view bytes) {
  std::uint64_t length = 0;
  for (std::size_t i = kLengthBytes; i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length;
}

Result<StoredTensors> parse_safetensors_header(std::string_view header,
                                               std::size_t num_bytes,
                                               const std::string& file) {
  PIPEWRIGHT_TRY(const Json json, parse_json(header, file));
  JsonErrors errors(file);
  StoredTensors tensors;
  std::size_t covered = 0;
  std::vector<std::pair<std::size_t, std::size_t>> places;
  for (auto& [name, entry] : JsonCursor(json, errors).members()) {
    if (name == "__metadata__") continue;
    StoredTensor stored = read_entry(entry, num_bytes);
    covered += stored.end - stored.begin;
    places.emplace_back(stored.begin, stored.end);
    tensors[name] = std::move(stored);
  }
  if (!errors.empty()) return errors.error();
  if (covered != num_bytes)
    return malformed("has " + std::to_string(num_bytes) +
                         " bytes of numbers, its header describes " +
                         std::to_string(covered),
                     file);
  std::sort(places.begin(), places.end());
  for (std::size_t i = 1; i < places.size(); ++i)
    if (places[i].first != places[i - 1].second)
      return malformed("two of its tensors overlap at byte " +
                           std::to_string(places[i].first) + " of its numbers",
                       file);
  return tensors;
}

Result<NamedTensors> parse_safetensors(std::string_view bytes,
                                       const std::string& file) {
  if (bytes.size() < kLengthBytes)
    return malformed("has " + std::to_string(bytes.size()) +
                         " bytes, too few for a safetensors file",
                     file);
  const std::uint64_t length = header_length(bytes);
  if (length > bytes.size() - kLengthBytes)
    return malformed("is cut off: its header should have " +
                         std::to_string(length) + " bytes",
                     file);
  const std::string_view numbers = bytes.substr(kLengthBytes + length);
  PIPEWRIGHT_TRY(const StoredTensors stored,
                 parse_safetensors_header(bytes.substr(kLengthBytes, length),
                                          numbers.size(), file));
  NamedTensors tensors;
  for (const auto& [name, one] : stored) {
    if (!one.type)
      return malformed("has \"" + name + "\" of type \"" + one.type_name +
                           "\", which is not supported",
                       file);
    tensors[name] = at::empty(one.sizes, *one.type);
    if (one.end > one.begin)
      std::memcpy(tensors[name].data_ptr(), numbers.data() + one.begin,
                  one.end - one.begin);
  }
  return tensors;
}

}  // namespace pipewright
