#include "pipewright/cluster/link_text.h"

#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/cluster/presets.h"

namespace pipewright {
namespace {

Error unknown_link(std::string_view text) {
  std::vector<std::string> names{"nvlink", "pcie"};
  for (const LinkPreset& preset : link_presets()) names.push_back(preset.name);
  return bad_configuration(
      "unknown link \"" + std::string(text) + "\"",
      suggestion(text, names,
                 "or a bandwidth: 1GB/s, 10Gb/s, 1GB/s+5us with latency"));
}

Result<Link> parse_rate_or_name(
    std::string_view text, const std::map<std::string, std::string>& aliases) {
  if (auto bandwidth = parse_bandwidth(text)) {
    if (bandwidth->value() <= 0)
      return bad_configuration(
          "the bandwidth of a link must be positive, not " + std::string(text));
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
      return bad_configuration("expected a latency or \"half\" in the link \"" +
                                   std::string(text) + "\", found \"" +
                                   std::string(part) + "\"",
                               "for example 1GB/s+5us or 1GB/s+5us+half");
    }
  }
  return link;
}

}  // namespace pipewright
