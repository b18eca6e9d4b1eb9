#include "pipewright/runtime/channels/message_checksum.h"

#include <array>
#include <cstring>

namespace pipewright {
namespace {

constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kLanes = 4;  // independent, so that a core overlaps them

}  // namespace

Error error_of(const CorruptedMessage& message) {
  return {ErrorCode::WorkersDisagree,
          message.what(),
          "",
          "start again with --resume; if it happens again check the network "
          "and the memory of these hosts",
          {}};
}

void MessageChecksum::add(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  std::array<std::uint64_t, kLanes> lanes = {1, 2, 3, 4};
  std::size_t left = bytes;
  for (; left >= kLanes * kWord; left -= kLanes * kWord) {
    std::array<std::uint64_t, kLanes> words;
    std::memcpy(words.data(), at, sizeof(words));
    for (std::size_t l = 0; l < kLanes; ++l)
      lanes[l] = mixed(lanes[l], words[l]);
    at += sizeof(words);
  }
  std::array<std::uint64_t, kLanes> rest = {};
  if (left > 0) std::memcpy(rest.data(), at, left);
  for (std::size_t l = 0; l < kLanes; ++l) add(mixed(lanes[l], rest[l]));
  add(bytes);
}

std::uint64_t checksum_of(std::string_view text) {
  MessageChecksum checksum;
  checksum.add(text.data(), text.size());
  return checksum.value();
}

std::uint64_t checksum_of(const Values& values) {
  MessageChecksum checksum;
  for (const Tensors& tensors : values)
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined())
        checksum.add(tensor.const_data_ptr(), tensor.nbytes());
      else
        checksum.add(0);
  return checksum.value();
}

}  // namespace pipewright
