#include "pipewright/cluster/link_text.h"

#include <span>

#include "pipewright/base/text.h"
#include "pipewright/cluster/presets.h"

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

Error unknown_link(std::string_view text) {
  std::vector<std::string> names{"nvlink", "pcie"};
  for (const LinkPreset& preset : link_presets()) names.push_back(preset.name);
  const std::string near = nearest_name(text, names);
  return bad_configuration(
      "\"" + std::string(text) + "\" is no link",
      (near.empty() ? "known: " + join(names, ", ")
                    : "did you mean \"" + near + "\"?") +
          "; a rate is written 1GB/s, 10Gb/s or 1GB/s+5us");
}

Result<Link> parse_rate_or_name(
    std::string_view text, const std::map<std::string, std::string>& aliases) {
  if (auto bandwidth = parse_bandwidth(text)) {
    if (bandwidth->value() <= 0)
      return bad_configuration("a link of " + std::string(text) +
                               " moves nothing");
    return Link{*bandwidth, Seconds(0), Duplex::Full, {}};
  }
  std::string name = lower_case(text);
  if (auto alias = aliases.find(name); alias != aliases.end())
    name = lower_case(alias->second);
  for (const LinkPreset& preset : link_presets())
    if (lower_case(preset.name) == name) return preset.link;
  return unknown_link(text);
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

Result<Link> parse_link(std::string_view text,
                        const std::map<std::string, std::string>& aliases) {
  const auto parts = split(text, '+');
  PIPEWRIGHT_TRY(Link link, parse_rate_or_name(trim(parts[0]), aliases));
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::string_view part = trim(parts[i]);
    if (part == "half") {
      link.duplex = Duplex::Half;
    } else if (auto latency = parse_duration(part)) {
      link.latency = *latency;
    } else {
      return bad_configuration("\"" + std::string(part) + "\" in the link \"" +
                                   std::string(text) +
                                   "\" is neither a latency nor \"half\"",
                               "write 1GB/s+5us, 1GB/s+half or both");
    }
  }
  return link;
}

}  // namespace pipewright
