// The built-in digits as text: a line is the label and 64 pixels, 0 to 9 and a
// to g for 10 to 16.

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

constexpr std::size_t kPixels = 64;

int pixel(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'g' ? c - 'a' + 10 : -1;
}

bool read_line(std::string_view line, std::vector<std::uint8_t>& pixels,
               std::vector<std::int64_t>& labels) {
  if (line.size() != kPixels + 2 || line[1] != ' ') return false;
  if (line[0] < '0' || line[0] > '9') return false;
  labels.push_back(line[0] - '0');
  for (const char c : line.substr(2)) {
    if (pixel(c) < 0) return false;
    pixels.push_back(static_cast<std::uint8_t>(pixel(c)));
  }
  return true;
}

}  // namespace

Result<LabelledImages> read_digits(std::string_view text,
                                   const std::string& file) {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int64_t> labels;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (line.empty() || line[0] == '#') continue;
    if (!read_line(line, pixels, labels))
      return malformed("is not a label and 64 pixels",
                       file + ":" + std::to_string(number));
  }
  if (labels.empty()) return malformed("has no images", file);
  const auto count = static_cast<std::int64_t>(labels.size());
  LabelledImages images{"digits", {8, 8}, {}, 1.0 / 16, {}};
  images.pixels =
      at::from_blob(pixels.data(), {count, 8, 8}, at::kByte).clone();
  images.labels = at::from_blob(labels.data(), {count}, at::kLong).clone();
  return images;
}

}  // namespace pipewright
