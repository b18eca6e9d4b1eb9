// Text as tokens: its bytes, or its characters numbered in ascending order; see
// sources.h.

#include <map>
#include <set>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {

// A byte that is not part of a whole character counts as a character.
std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> result;
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
    if (lead < 0xc0) length = 1;
    bool whole = i + length <= text.size();
    for (std::size_t j = 1; whole && j < length; ++j)
      whole = (static_cast<unsigned char>(text[i + j]) & 0xc0) == 0x80;
    result.emplace_back(text.substr(i, whole ? length : 1));
    i += result.back().size();
  }
  return result;
}

Result<Tokens> byte_tokens(const std::string& file) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  Tokens tokens{file, "byte", 256, {}};
  tokens.values =
      at::empty({static_cast<std::int64_t>(text.size())}, at::kByte);
  std::copy(text.begin(), text.end(), tokens.values.data_ptr<std::uint8_t>());
  return tokens;
}

Result<Tokens> character_tokens(const std::string& files) {
  std::set<std::string> seen;
  std::vector<std::string> first;
  for (const std::string_view file : split(files, ',')) {
    PIPEWRIGHT_TRY(const std::string text, read_file(std::string(file)));
    std::vector<std::string> list = characters(text);
    seen.insert(list.begin(), list.end());
    if (first.empty()) first = std::move(list);
  }
  std::map<std::string, std::int32_t> numbers;
  for (const std::string& character : seen)
    numbers.emplace(character, static_cast<std::int32_t>(numbers.size()));
  Tokens tokens{std::string(split(files, ',').at(0)),
                "character",
                static_cast<std::int64_t>(numbers.size()),
                {}};
  tokens.values =
      at::empty({static_cast<std::int64_t>(first.size())}, at::kInt);
  for (std::size_t i = 0; i < first.size(); ++i)
    tokens.values.data_ptr<std::int32_t>()[i] = numbers.at(first[i]);
  return tokens;
}

}  // namespace pipewright
