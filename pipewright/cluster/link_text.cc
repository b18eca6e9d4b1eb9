#include "pipewright/cluster/link_text.h"

#include "pipewright/base/text.h"
#include "pipewright/base/units_text.h"
#include "pipewright/cluster/presets.h"

namespace pipewright {
namespace {

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
