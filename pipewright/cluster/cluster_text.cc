#include "pipewright/cluster/cluster_text.h"

#include <algorithm>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/cluster/link_text.h"
#include "pipewright/cluster/presets.h"

namespace pipewright {
namespace {

constexpr const char* kExamples =
    "for example 4xV100@1GB/s, 2x8xV100@nvlink/10GbE, "
    "1x8xV100+1x4xT4/25GbE (two hosts) or a cluster file";

struct Term {  // COUNTxKIND, with HOSTS where the term has them
  std::optional<int> hosts;
  int count = 0;
  std::string kind;
};

struct HostGroup {  // equal hosts
  int hosts = 1;
  std::vector<Term> terms;
};

struct Parts {
  std::string_view devices;
  std::string_view within;   // empty: the kinds' default
  std::string_view between;  // empty: the default
};

// Whether a '/' is followed by a share: the 4 of "cuda/4".
bool is_share(std::string_view rest) {
  const std::size_t end = std::min(rest.find_first_of("@+/"), rest.size());
  return end > 0 && rest.find_first_not_of("0123456789") >= end;
}

// Finds the '/' before the link between hosts, not the one in "GB/s" or
// "cuda/4".
std::size_t find_slash(std::string_view text) {
  for (std::size_t at = text.find('/'); at != std::string_view::npos;
       at = text.find('/', at + 1)) {
    const std::string_view rest = text.substr(at + 1);
    const bool is_rate = !rest.empty() && rest[0] == 's' &&
                         (rest.size() == 1 || rest[1] == '/' || rest[1] == '+');
    if (!is_rate && !is_share(rest)) return at;
  }
  return std::string_view::npos;
}

// Removes "8x" from the front.
std::optional<int> take_count(std::string_view& text) {
  const std::size_t end = text.find_first_not_of("0123456789");
  if (end == 0 || end == std::string_view::npos ||
      (text[end] != 'x' && text[end] != 'X'))
    return std::nullopt;
  const auto count = parse_integer(text.substr(0, end));
  // A count that does not fit an int is rejected as too many devices.
  const std::int64_t bounded =
      std::min<std::int64_t>(count.value_or(kMaxDevices + 1), kMaxDevices + 1);
  text.remove_prefix(end + 1);
  return static_cast<int>(bounded);
}

// "nvlink+1x4xT4": each host would have a link of its own.
bool has_devices(std::string_view link) {
  for (std::string_view part : split(link, '+'))
    if (take_count(part)) return true;
  return false;
}

Result<Parts> split_parts(std::string_view text) {
  const std::string_view whole = text;
  Parts parts;
  const std::size_t at = text.find('@');
  const std::size_t slash = find_slash(text);
  parts.devices = text.substr(0, std::min(at, slash));
  if (slash != std::string_view::npos) {
    parts.between = text.substr(slash + 1);
    if (parts.between.empty())
      return bad_configuration(
          "\"" + std::string(text) + "\" has no link after '/'", kExamples);
    text = text.substr(0, slash);
  }
  if (at < text.size()) {
    parts.within = text.substr(at + 1);
    if (parts.within.empty())
      return bad_configuration(
          "\"" + std::string(text) + "\" has no link after '@'", kExamples);
  }
  if (has_devices(parts.within) || has_devices(parts.between))
    return bad_configuration(
        "\"" + std::string(whole) + "\" has devices after a link",
        "write all devices first, then one link within hosts and one between "
        "them, as 1x4xV100+1x4xT4@pcie3/10GbE; a cluster file can give each "
        "host its own");
  return parts;
}

Result<Term> parse_term(std::string_view text) {
  Term term;
  std::string_view rest = text;
  const auto first = take_count(rest);
  const auto second = first ? take_count(rest) : std::nullopt;
  if (!first || rest.empty())
    return bad_configuration(
        "expected COUNTxKIND, found \"" + std::string(text) + "\"", kExamples);
  if (second) term.hosts = first;
  term.count = second.value_or(*first);
  term.kind = rest;
  if (term.count < 1 || term.hosts.value_or(1) < 1)
    return bad_configuration("\"" + std::string(text) + "\" has no devices");
  return term;
}

Result<std::vector<HostGroup>> parse_groups(std::string_view text) {
  std::vector<HostGroup> groups;
  for (std::string_view part : split(text, '+')) {
    PIPEWRIGHT_TRY(Term term, parse_term(part));
    if (groups.empty() || term.hosts)
      groups.push_back({term.hosts.value_or(1), {}});
    groups.back().terms.push_back(std::move(term));
  }
  std::int64_t devices = 0;
  for (const HostGroup& group : groups)
    for (const Term& term : group.terms)
      devices += std::int64_t{group.hosts} * term.count;
  if (devices > kMaxDevices)
    return bad_configuration("\"" + std::string(text) + "\" has more than " +
                             with_thousands(kMaxDevices) + " devices");
  return groups;
}

// The same devices with a host for each term: "1x4xV100+1x4xT4".
std::string one_host_per_term(const std::vector<HostGroup>& groups) {
  std::vector<std::string> terms;
  for (const Term& term : groups.front().terms)
    terms.push_back("1x" + std::to_string(term.count) + "x" + term.kind);
  return join(terms, "+");
}

// A link between hosts needs two of them.
Result<void> check_between(std::string_view text, const Parts& parts,
                           const std::vector<HostGroup>& groups) {
  const bool one_host = groups.size() == 1 && groups.front().hosts == 1;
  if (parts.between.empty() || !one_host) return {};
  const std::vector<Term>& terms = groups.front().terms;
  const std::string devices = terms.size() > 1
                                  ? one_host_per_term(groups)
                                  : "2x" + std::to_string(terms.front().count) +
                                        "x" + terms.front().kind;
  return bad_configuration(
      "\"" + std::string(text) + "\" is one host, and /" +
          std::string(parts.between) + " connects hosts",
      "leave it out, or write " + devices +
          std::string(text.substr(parts.devices.size())) + " for " +
          std::to_string(std::max<std::size_t>(2, terms.size())) + " hosts");
}

// The kinds in the text, each once, in order.
Result<std::vector<KindPreset>> find_kinds(std::vector<HostGroup>& groups) {
  int most_on_a_host = 0;
  for (const HostGroup& group : groups) {
    int count = 0;
    for (const Term& term : group.terms) count += term.count;
    most_on_a_host = std::max(most_on_a_host, count);
  }
  std::vector<KindPreset> kinds;
  for (HostGroup& group : groups)
    for (Term& term : group.terms) {
      PIPEWRIGHT_TRY(KindPreset kind, find_kind(term.kind, most_on_a_host));
      term.kind = kind.kind.name;  // with our spelling
      const bool known = std::any_of(
          kinds.begin(), kinds.end(),
          [&](const KindPreset& k) { return k.kind.name == term.kind; });
      if (!known) kinds.push_back(std::move(kind));
    }
  return kinds;
}

Link slower(const Link& a, const Link& b) {
  Link link;
  link.bandwidth = std::min(a.bandwidth, b.bandwidth);
  link.latency = std::max(a.latency, b.latency);
  link.duplex = a.duplex == Duplex::Half ? a.duplex : b.duplex;
  return link;
}

// The link between two kinds on one host: the slower of what the text means for
// each of them.
Result<Link> link_on_host(const KindPreset& a, const KindPreset& b,
                          std::string_view text) {
  const auto of = [&](const KindPreset& kind) -> Result<Link> {
    if (text.empty()) return parse_link(kind.default_link);
    Result<Link> link = parse_link(text, kind.link_aliases);
    const std::string name = lower_case(split(text, '+')[0]);
    if (link || (name != "nvlink" && name != "pcie")) return link;
    return bad_configuration(
        kind.kind.name + " has no " + name,
        "its default link is " + kind.default_link +
            "; a bandwidth such as 10GB/s is also possible");
  };
  PIPEWRIGHT_TRY(Link first, of(a));
  PIPEWRIGHT_TRY(Link second, of(b));
  return slower(first, second);
}

using Hosts = std::vector<std::vector<DeviceId>>;

Hosts add_devices(ClusterBuilder& builder, const std::vector<HostGroup>& groups,
                  const std::vector<KindPreset>& kinds) {
  int num_hosts = 0;
  for (const HostGroup& group : groups) num_hosts += group.hosts;
  Hosts hosts;
  for (const HostGroup& group : groups)
    for (int h = 0; h < group.hosts; ++h) {
      const int host = static_cast<int>(hosts.size());
      hosts.emplace_back();
      std::vector<int> next(kinds.size(), 0);
      for (const Term& term : group.terms) {
        std::size_t kind = 0;
        while (kinds[kind].kind.name != term.kind) ++kind;
        for (int i = 0; i < term.count; ++i)
          hosts.back().push_back(builder.add_device(
              {device_name(term.kind, next[kind]++, host, num_hosts),
               static_cast<int>(kind), host}));
      }
    }
  return hosts;
}

Result<void> connect_on_hosts(ClusterBuilder& builder, const Hosts& hosts,
                              const std::vector<KindPreset>& kinds,
                              std::string_view text) {
  // Only for pairs of kinds that share a host.
  std::vector<std::optional<Link>> links(kinds.size() * kinds.size());
  for (const auto& host : hosts)
    for (DeviceId a : host)
      for (DeviceId b : host) {
        if (a == b) continue;
        const int kind_a = builder.devices()[a.index()].kind;
        const int kind_b = builder.devices()[b.index()].kind;
        auto& link = links[kind_a * kinds.size() + kind_b];
        if (!link) {
          auto found = link_on_host(kinds[kind_a], kinds[kind_b], text);
          if (!found) return found.error();
          link = *found;
        }
        builder.connect(a, b, *link);
      }
  return {};
}

void connect_hosts(ClusterBuilder& builder, const Hosts& hosts,
                   const Link& link) {
  std::vector<int> cards;
  for (std::size_t h = 0; h < hosts.size(); ++h)
    cards.push_back(
        builder.add_resource({"host" + std::to_string(h) + " network card",
                              link.bandwidth, link.duplex}));
  for (std::size_t a = 0; a < hosts.size(); ++a)
    for (std::size_t b = 0; b < hosts.size(); ++b) {
      if (a == b) continue;
      Link between = link;
      between.uses = {{cards[a], true}, {cards[b], false}};
      std::sort(between.uses.begin(), between.uses.end());
      builder.connect(hosts[a], hosts[b], between);
    }
}

}  // namespace

std::string device_name(const std::string& kind, int index, int host,
                        int num_hosts) {
  const std::string name = kind + "." + std::to_string(index);
  return num_hosts > 1 ? "host" + std::to_string(host) + "/" + name : name;
}

Result<Cluster> parse_cluster_text(std::string_view text) {
  PIPEWRIGHT_TRY(Parts parts, split_parts(text));
  PIPEWRIGHT_TRY(auto groups, parse_groups(parts.devices));
  PIPEWRIGHT_TRY(auto kinds, find_kinds(groups));
  const std::string_view between_text =
      parts.between.empty() ? "10GbE" : parts.between;
  PIPEWRIGHT_TRY(Link between, parse_link(between_text));
  if (auto fine = check_between(text, parts, groups); !fine)
    return fine.error();
  if (!parts.within.empty())  // check it even if no host has two devices
    for (const KindPreset& kind : kinds) {
      auto within = link_on_host(kind, kind, parts.within);
      if (!within) return within.error();
    }
  ClusterBuilder builder{std::string(text)};
  for (const KindPreset& kind : kinds) builder.add_kind(kind.kind);
  const Hosts hosts = add_devices(builder, groups, kinds);
  auto connected = connect_on_hosts(builder, hosts, kinds, parts.within);
  if (!connected) return connected.error();
  if (hosts.size() > 1) connect_hosts(builder, hosts, between);
  return builder.build();
}

}  // namespace pipewright
