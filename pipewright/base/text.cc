#include "pipewright/base/text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <utility>

namespace pipewright {
namespace {

// Two neighbours that changed places are one mistake.
int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> before, above, row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    before = std::exchange(above, row);
    row[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1,
                         above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
  }
  return row[b.size()];
}

struct Prefix {
  double factor;
  const char* name;
};

std::string scaled(double number, std::span<const Prefix> prefixes,
                   const char* unit) {
  const double magnitude = std::abs(number);
  if (!std::isfinite(number)) return to_text(number) + " " + unit;
  const Prefix* chosen = &prefixes.back();
  for (const Prefix& prefix : prefixes)
    if (magnitude >= prefix.factor * 0.9995) {
      chosen = &prefix;
      break;
    }
  return to_text(number / chosen->factor) + " " + chosen->name + unit;
}

constexpr std::array<Prefix, 6> kLarge = {
    {{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}};
constexpr std::array<Prefix, 4> kSmall = {
    {{1, ""}, {1e-3, "m"}, {1e-6, "u"}, {1e-9, "n"}}};

}  // namespace

std::string nearest_name(std::string_view name,
                         std::span<const std::string> candidates) {
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : candidates) {
    const auto longer = std::max(name.size(), candidate.size());
    if (longer > 200) continue;
    int distance = edit_distance(lower_case(name), lower_case(candidate));
    int allowed = std::max(1, static_cast<int>(longer) / 3);
    if (distance > allowed) continue;
    if (best.empty() || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

namespace {

// Quoted, for a name that is the beginning of several.
std::vector<std::string> longer_names(std::string_view name,
                                      std::span<const std::string> candidates) {
  constexpr std::size_t kMaxNames = 4;
  std::vector<std::string> names;
  for (const std::string& candidate : candidates)
    if (name.size() > 1 && lower_case(candidate).starts_with(lower_case(name)))
      names.push_back("\"" + candidate + "\"");
  if (names.size() > kMaxNames) names.clear();
  return names;
}

}  // namespace

std::string suggestion(std::string_view name,
                       std::span<const std::string> candidates,
                       std::string_view more) {
  if (const auto longer = longer_names(name, candidates); !longer.empty())
    return "did you mean " + join(longer, " or ") + "?";
  std::string near = nearest_name(name, candidates);
  if (!near.empty()) return "did you mean \"" + near + "\"?";
  if (candidates.empty()) return {};
  std::string known = "known: " + join(candidates, ", ");
  if (!more.empty()) known.append("; ").append(more);
  return known;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  std::size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

std::string join(std::span<const std::string> parts,
                 std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) text += separator;
    text += parts[i];
  }
  return text;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return lower;
}

std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u;
  };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xC0) != 0x80) return 0;
  // Overlong encodings, surrogates, code points above U+10FFFF.
  if (first == 0xE0 && byte(1) < 0xA0) return 0;
  if (first == 0xED && byte(1) > 0x9F) return 0;
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

std::string printable(std::string_view text) {
  std::string safe;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const unsigned char c = static_cast<unsigned char>(text[0]);
    const bool control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7F ||
                         (c == 0xC2 && length == 2 &&
                          static_cast<unsigned char>(text[1]) < 0xA0);
    if (length == 0 || control)
      safe += '?';
    else
      safe += text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(1, length));
  }
  return safe;
}

std::optional<std::int64_t> parse_integer(std::string_view text) {
  std::int64_t number = 0;
  auto [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return number;
}

std::optional<double> parse_real(std::string_view text) {
  double number = 0;
  auto [end, failure] =
      std::from_chars(text.data(), text.data() + text.size(), number);
  if (failure != std::errc() || end != text.data() + text.size() ||
      !std::isfinite(number))
    return std::nullopt;
  return number;
}

std::string to_text(Bytes bytes) {
  return scaled(static_cast<double>(bytes.value()), kLarge, "B");
}
std::string to_text(BytesPerSecond rate) {
  return scaled(rate.value(), kLarge, "B/s");
}
std::string to_text(Seconds seconds) {
  if (seconds.value() == 0) return "0 s";
  return scaled(seconds.value(), kSmall, "s");
}
std::string to_text(Flops flops) {
  return scaled(flops.value(), kLarge, "FLOP");
}
std::string to_text(FlopsPerSecond rate) {
  return scaled(rate.value(), kLarge, "FLOP/s");
}

std::string with_thousands(std::int64_t number) {
  std::string digits = std::to_string(number);
  const std::size_t first = number < 0 ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string counted(std::int64_t count, const std::string& noun) {
  const char* plural = noun.ends_with("ch") ? "es" : "s";  // microbatches
  return with_thousands(count) + " " + noun + (count == 1 ? "" : plural);
}

std::string to_text(double number, int significant) {
  std::array<char, 64> buffer{};
  const double magnitude = std::abs(number);
  int digits = significant;
  // 1234 stays 1234 rather than becoming 1.23e+03.
  if (magnitude >= 1 && magnitude < 1e6)
    digits = std::max(digits, static_cast<int>(std::log10(magnitude)) + 1);
  std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, number);
  return buffer.data();
}

std::string exact_text(double number) {
  std::array<char, 64> buffer{};
  auto [end, failure] =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), number);
  std::string text(buffer.data(), end);
  // A double stays recognisable as one: 3 becomes 3.0.
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

}  // namespace pipewright
