// Texts between runs; see rank_texts.h.

#include "pipewright/runtime/channels/rank_texts.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "pipewright/runtime/channels/backoff.h"
#include "pipewright/runtime/channels/message_checksum.h"

namespace pipewright {
namespace {

constexpr int kTextTag = 0;
constexpr std::size_t kSmallText = std::size_t{1} << 14;

struct TextHeader {
  std::uint64_t size = 0, checksum = 0;
  std::uint64_t own = 0;  // of the two before

  std::uint64_t own_checksum() const {
    MessageChecksum sum;
    sum.add(size);
    sum.add(checksum);
    return sum.value();
  }
};

void check_text(bool is_same, int from) {
  if (!is_same)
    throw CorruptedMessage("what rank " + std::to_string(from) +
                           " has told this one between two runs has arrived "
                           "with other bits than it was sent with");
}

std::size_t piece(const std::string& bytes, std::size_t at) {
  return std::min(RankNetwork::kMaxSize, bytes.size() - at);
}

}  // namespace

RankTexts::RankTexts(RankNetwork& network)
    : space_(network.space_of_all()), requests_(network.requests()) {}

void RankTexts::send(const std::string& bytes, int to) {
  TextHeader header{bytes.size(), checksum_of(bytes), 0};
  header.own = header.own_checksum();
  std::string text(reinterpret_cast<const char*>(&header), sizeof(header));
  if (bytes.size() <= kSmallText) text += bytes;
  space_->send_text(*requests_, to, kTextTag, text.data(), text.size());
  if (bytes.size() > kSmallText)
    for (std::size_t at = 0; at < bytes.size(); at += RankNetwork::kMaxSize)
      space_->send(*requests_, to, kTextTag, bytes.data() + at,
                   piece(bytes, at), Delivery::Copied);
  requests_->wait();
}

std::string RankTexts::received(int from) {
  std::string bytes;
  for (Backoff backoff; !space_->next_text(from, kTextTag, bytes);)
    backoff.pause();
  TextHeader header;
  check_text(bytes.size() >= sizeof(header), from);
  std::memcpy(&header, bytes.data(), sizeof(header));
  check_text(header.own == header.own_checksum(), from);
  bytes.erase(0, sizeof(header));
  if (header.size > kSmallText) bytes.resize(header.size);
  if (header.size > kSmallText)
    for (std::size_t at = 0; at < bytes.size(); at += RankNetwork::kMaxSize)
      space_->receive(*requests_, from, kTextTag, bytes.data() + at,
                      piece(bytes, at));
  requests_->wait();
  check_text(bytes.size() == header.size, from);
  check_text(header.checksum == checksum_of(bytes), from);
  return bytes;
}

void RankTexts::abandon() {
  pipewright::abandon(std::move(space_));
  pipewright::abandon(std::move(requests_));
}

}  // namespace pipewright
