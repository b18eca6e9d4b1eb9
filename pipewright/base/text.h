// Text helpers: nearest names, splitting, numbers to text and back.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

// The candidate with the smallest edit distance, or "" if none is close.
std::string nearest_name(std::string_view name,
                         std::span<const std::string> candidates);
// "did you mean NAME?", or "did you mean A or B?" where both start with the
// name, or "known: a, b, c; MORE" if none is close; "" without candidates.
std::string suggestion(std::string_view name,
                       std::span<const std::string> candidates,
                       std::string_view more = {});

std::vector<std::string_view> split(std::string_view text, char separator);
std::string_view trim(std::string_view text);
std::string join(std::span<const std::string> parts,
                 std::string_view separator);
std::string lower_case(std::string_view text);

// Bytes of the UTF-8 character that `text` begins with; 0 if it is not one.
std::size_t utf8_length(std::string_view text);
// Safe to print: control characters (except newline and tab) and bytes that are
// not UTF-8 become '?'.
std::string printable(std::string_view text);

// Nothing unless the whole text is a number. No locale, no leading '+' or
// space.
std::optional<std::int64_t> parse_integer(std::string_view text);
std::optional<double> parse_real(std::string_view text);

// For people: "553 MB", "1.25 GB/s", "12.3 ms", "4.09 GFLOP", "138,357,544".
std::string to_text(Bytes bytes);
std::string to_text(BytesPerSecond rate);
std::string to_text(Seconds seconds);
std::string to_text(Flops flops);
std::string to_text(FlopsPerSecond rate);
std::string with_thousands(std::int64_t number);
// "1 layer", "1,200 layers".
std::string counted(std::int64_t count, const std::string& noun);
// Three significant digits by default: "0.0312", "41.7", "1.2e+09".
std::string to_text(double number, int significant = 3);
// The shortest text that reads back as the same double.
std::string exact_text(double number);

}  // namespace pipewright
