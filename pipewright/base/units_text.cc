#include "pipewright/base/units_text.h"

#include <span>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

struct Unit {
  std::string_view name;
  double factor;
  double divisor = 1;  // 5us is 5 / 1e6: nearer to 5e-6 than 5 * 1e-6 is
};

constexpr Unit kRates[] = {
    {"B/s", 1},        {"kB/s", 1e3},     {"MB/s", 1e6},     {"GB/s", 1e9},
    {"TB/s", 1e12},    {"b/s", 1 / 8.},   {"kb/s", 1e3 / 8}, {"Mb/s", 1e6 / 8},
    {"Gb/s", 1e9 / 8}, {"Tb/s", 1e12 / 8}};
constexpr Unit kDurations[] = {
    {"s", 1}, {"ms", 1, 1e3}, {"us", 1, 1e6}, {"ns", 1, 1e9}};
constexpr Unit kSizes[] = {{"B", 1},         {"kB", 1e3},
                           {"KB", 1e3},      {"MB", 1e6},
                           {"GB", 1e9},      {"TB", 1e12},
                           {"KiB", 1024.},   {"MiB", 1 << 20},
                           {"GiB", 1 << 30}, {"TiB", 1024. * (1 << 30)}};

// A number and one of the units, a space allowed between them.
std::optional<double> parse_quantity(std::string_view text,
                                     std::span<const Unit> units) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  if (end == 0 || end == std::string_view::npos) return std::nullopt;
  const auto number = parse_real(text.substr(0, end));
  if (!number) return std::nullopt;
  for (const Unit& unit : units)
    if (trim(text.substr(end)) == unit.name)
      return *number * unit.factor / unit.divisor;
  return std::nullopt;
}

}  // namespace

std::optional<BytesPerSecond> parse_bandwidth(std::string_view text) {
  const auto rate = parse_quantity(text, kRates);
  if (!rate) return std::nullopt;
  return BytesPerSecond(*rate);
}

std::optional<Seconds> parse_duration(std::string_view text) {
  const auto duration = parse_quantity(text, kDurations);
  if (!duration) return std::nullopt;
  return Seconds(*duration);
}

std::optional<Bytes> parse_bytes(std::string_view text) {
  const auto bytes = parse_quantity(text, kSizes);
  if (!bytes || *bytes > 9e15) return std::nullopt;
  return Bytes(static_cast<std::int64_t>(*bytes + 0.5));
}

}  // namespace pipewright
