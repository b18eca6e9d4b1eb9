#include "cli/train/event_file.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

// Bits of a number, the lowest byte first.
template <typename Number>
std::string bytes_of(Number number) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof number; ++i)
    bytes += static_cast<char>((number >> (8 * i)) & 0xff);
  return bytes;
}

std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7)
    bytes += static_cast<char>((number & 0x7f) | 0x80);
  return bytes + static_cast<char>(number);
}

// A field of a message: its number and kind, then its value.
enum class WireKind {
  Varint = 0,
  Bits64 = 1,
  Text = 2,
  Bits32 = 5
};
std::string key_of(std::uint32_t field, WireKind kind) {
  return varint(field << 3 | static_cast<std::uint32_t>(kind));
}
std::string text_field(std::uint32_t field, const std::string& text) {
  return key_of(field, WireKind::Text) + varint(text.size()) + text;
}
std::string double_field(std::uint32_t field, double value) {
  return key_of(field, WireKind::Bits64) +
         bytes_of(std::bit_cast<std::uint64_t>(value));
}
std::string float_field(std::uint32_t field, float value) {
  return key_of(field, WireKind::Bits32) +
         bytes_of(std::bit_cast<std::uint32_t>(value));
}
std::string integer_field(std::uint32_t field, std::int64_t value) {
  return key_of(field, WireKind::Varint) +
         varint(static_cast<std::uint64_t>(value));
}

double wall_time() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

std::string event_at(std::int64_t step, const std::string& content) {
  return double_field(1, wall_time()) + integer_field(2, step) + content;
}

std::string summary_of(const Scalars& scalars) {
  std::string values;
  for (const auto& [tag, value] : scalars)
    values += text_field(
        1, text_field(1, tag) + float_field(2, static_cast<float>(value)));
  return values;
}

std::uint32_t masked(std::uint32_t checksum) {
  return std::rotr(checksum, 15) + 0xa282ead8u;
}

std::string file_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return "events.out.tfevents." +
         std::to_string(static_cast<std::int64_t>(wall_time())) + "." +
         host.data() + "." + std::to_string(::getpid());
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  std::uint32_t checksum = ~0u;
  for (const char byte : bytes) {
    checksum ^= static_cast<unsigned char>(byte);
    for (int bit = 0; bit < 8; ++bit)
      checksum = checksum >> 1 ^ (checksum & 1 ? 0x82f63b78u : 0u);
  }
  return ~checksum;
}

Result<EventFile> EventFile::create(const fs::path& folder,
                                    std::int64_t first_step) {
  EventFile file;
  std::error_code failed;
  fs::create_directories(folder, failed);
  file.path_ = folder / file_name();
  file.stream_.open(file.path_, std::ios::binary | std::ios::app);
  if (!file.stream_)
    return Error{ErrorCode::CannotCreate,
                 failed ? failed.message() : "cannot be opened",
                 file.path_.string(),
                 "choose another --tensorboard",
                 {}};
  const std::string version =
      double_field(1, wall_time()) + text_field(3, "brain.Event:2");
  constexpr std::int64_t kStart = 1;
  const std::string start =
      event_at(first_step, text_field(7, integer_field(1, kStart)));
  for (const std::string& event : {version, start})
    if (auto written = file.write(event); !written) return written.error();
  return file;
}

Result<void> EventFile::add(std::int64_t step, const Scalars& scalars) {
  return write(event_at(step, text_field(5, summary_of(scalars))));
}

Result<void> EventFile::write(const std::string& event) {
  const std::string length = bytes_of(std::uint64_t{event.size()});
  stream_ << length + bytes_of(masked(crc32c(length))) + event +
                 bytes_of(masked(crc32c(event)))
          << std::flush;
  if (stream_) return {};
  stream_.clear();
  return Error{ErrorCode::CannotWrite,
               "cannot be written",
               path_.string(),
               "is the disk full?",
               {}};
}

}  // namespace pipewright::cli
