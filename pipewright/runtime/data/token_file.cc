// Token files as llm.c's scripts write them: 256 little-endian 32-bit numbers
// (a magic number, a version, the number of tokens, zeros), then the tokens.
// Format: karpathy/llm.c, dev/data/data_common.py. See sources.h.

#include <array>
#include <cstring>
#include <fstream>

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

constexpr std::size_t kHeaderNumbers = 256;
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 31;

struct TokenForm {
  std::int32_t magic, version;
  std::size_t bytes;  // of a token
};
constexpr std::array<TokenForm, 2> kForms = {
    {{20240520, 1, 2}, {20240801, 7, 4}}};

Result<TokenForm> form_of(const std::array<std::int32_t, kHeaderNumbers>& head,
                          const std::string& file) {
  for (const TokenForm& form : kForms)
    if (head[0] == form.magic && head[1] == form.version) return form;
  return malformed("starts with " + std::to_string(head[0]) + " and version " +
                       std::to_string(head[1]) + ", not with 20240520 and 1",
                   file, "it must be a token file of llm.c");
}

}  // namespace

Result<Tokens> read_tokens(const std::string& file) {
  std::ifstream in(file, std::ios::binary | std::ios::ate);
  std::error_code ignored;
  if (!in || !std::filesystem::is_regular_file(file, ignored))
    return Error{ErrorCode::MissingInput, "cannot be opened", file, "", {}};
  const auto size = static_cast<std::int64_t>(in.tellg());
  in.seekg(0);
  std::array<std::int32_t, kHeaderNumbers> head{};
  if (!in.read(reinterpret_cast<char*>(head.data()), sizeof(head)))
    return malformed("is shorter than its header of 1024 bytes", file);
  PIPEWRIGHT_TRY(const TokenForm form, form_of(head, file));
  const std::int64_t count = head[2];
  const auto wanted = static_cast<std::int64_t>(sizeof(head)) +
                      count * static_cast<std::int64_t>(form.bytes);
  if (count < 1 || count > kMaxTokens || size != wanted)
    return malformed("should have " + std::to_string(count) +
                         " tokens, but has " + std::to_string(size) + " bytes",
                     file, "the file may be cut off");
  std::vector<char> raw(count * form.bytes);
  in.read(raw.data(), static_cast<std::streamsize>(raw.size()));
  if (!in) return malformed("cannot be read to its end", file);
  Tokens tokens{file, "token", 0, at::empty({count}, at::kInt)};
  auto* values = tokens.values.data_ptr<std::int32_t>();
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t token = 0;
    std::memcpy(&token, raw.data() + i * form.bytes, form.bytes);
    if (token > INT32_MAX)
      return malformed(
          "token " + std::to_string(i) + " is " + std::to_string(token), file);
    values[i] = static_cast<std::int32_t>(token);
    tokens.entries = std::max<std::int64_t>(tokens.entries, values[i] + 1);
  }
  return tokens;
}

}  // namespace pipewright
