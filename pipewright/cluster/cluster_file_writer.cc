// Writes the cluster file that cluster_file.cc reads. Equal devices and links
// are written once: 1,024 devices with one network card per host take
// kilobytes, not a million lines of pairs.

#include <algorithm>
#include <map>
#include <optional>

#include "pipewright/base/json.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/cluster/cluster_text.h"
#include "pipewright/cluster/presets.h"

namespace pipewright {
namespace {

// Consecutive equal devices with default names become one row with a count.
Json devices_json(const Cluster& cluster) {
  struct Row {
    int kind, host, count;
    std::string own_name;
  };
  std::vector<Row> rows;
  std::map<std::pair<int, int>, int> next;
  for (const Device& device : cluster.devices()) {
    const auto& kind = cluster.kinds()[device.kind];
    const int index = next[{device.host, device.kind}]++;
    const bool is_counted =
        device.name ==
        device_name(kind.name, index, device.host, cluster.num_hosts());
    if (is_counted && !rows.empty() && rows.back().own_name.empty() &&
        rows.back().kind == device.kind && rows.back().host == device.host) {
      ++rows.back().count;
      continue;
    }
    rows.push_back(
        {device.kind, device.host, 1, is_counted ? "" : device.name});
  }
  Json json = Json::array();
  for (const Row& row : rows) {
    Json object = Json::object();
    object.set("kind", cluster.kinds()[row.kind].name);
    object.set("host", row.host);
    if (!row.own_name.empty())
      object.set("name", row.own_name);
    else if (row.count > 1)
      object.set("count", row.count);
    json.push(std::move(object));
  }
  return json;
}

void set_link(Json& json, const Link& link) {
  json.set("bandwidth", link.bandwidth.value());
  json.set("latency", link.latency.value());
  if (link.duplex == Duplex::Half) json.set("duplex", "half");
  if (!link.rates.empty()) json.set("rates", to_json(link.rates));
  if (!link.collective_rates.empty())
    json.set("collective_rates", to_json(link.collective_rates));
}

// The link of all pairs within hosts, or between hosts, unless "links" differs.
struct Rule {
  Link plain;              // without uses
  std::vector<int> cards;  // one resource per host, or -1; empty within hosts

  Link link(int from_host, int to_host) const {
    Link link = plain;
    if (cards.empty()) return link;
    const int from = cards[from_host];
    const int to = cards[to_host];
    if (from >= 0) link.uses.push_back({from, true});
    if (to >= 0) link.uses.push_back({to, false});
    std::sort(link.uses.begin(), link.uses.end());
    return link;
  }
};

Link without_uses(Link link) {
  link.uses.clear();
  return link;
}

template <class Visit>
void for_each_pair(const Cluster& cluster, Visit visit) {
  for (std::size_t a = 0; a < cluster.devices().size(); ++a)
    for (std::size_t b = 0; b < cluster.devices().size(); ++b)
      if (a != b)
        visit(DeviceId(a), DeviceId(b), cluster.devices()[a].host,
              cluster.devices()[b].host);
}

// The most frequent link without shared resources within hosts.
std::optional<Rule> rule_within(const Cluster& cluster) {
  std::vector<int> counts(cluster.links().size() + 1, 0);
  for_each_pair(cluster, [&](DeviceId a, DeviceId b, int host, int other) {
    const int index = cluster.link_index(a, b);
    if (host == other && index >= 0 && cluster.link(a, b)->uses.empty())
      ++counts[index];
  });
  const auto most = std::max_element(counts.begin(), counts.end());
  if (*most == 0) return std::nullopt;
  return Rule{cluster.links()[most - counts.begin()], {}};
}

// A host's network card is the resource that links from it use upstream.
std::optional<Rule> rule_between(const Cluster& cluster) {
  Rule rule;
  rule.cards.assign(cluster.num_hosts(), -1);
  bool found = false;
  for_each_pair(cluster, [&](DeviceId a, DeviceId b, int host, int other) {
    const Link* link = cluster.link(a, b);
    if (host == other || !link) return;
    if (!found) rule.plain = without_uses(*link);
    found = true;
    int& card = rule.cards[host];
    for (const Link::Use& use : link->uses)
      if (use.upstream && card < 0) card = use.resource;
  });
  if (!found) return std::nullopt;
  return rule;
}

// Compares each pair's link with the link that the rules give it. There may be
// a million pairs with few different links, so results are cached.
class Rules {
 public:
  explicit Rules(const Cluster& cluster)
      : cluster_(cluster),
        within_(rule_within(cluster)),
        between_(rule_between(cluster)),
        explained_(cluster.links().size()),
        mirror_(cluster.links().size(), -1) {
    if (within_ && !explains_most(true)) within_.reset();
    if (between_ && !explains_most(false)) between_.reset();
  }

  const std::optional<Rule>& within() const { return within_; }
  const std::optional<Rule>& between() const { return between_; }

  bool explain(DeviceId a, DeviceId b) const {
    const int host = cluster_.devices()[a.index()].host;
    const int other = cluster_.devices()[b.index()].host;
    const auto& rule = host == other ? within_ : between_;
    const int index = cluster_.link_index(a, b);
    if (!rule) return index < 0;
    if (index < 0) return false;
    Explained& known = explained_[index];
    if (known.host != host || known.other != other)
      known = {host, other, rule->link(host, other) == *cluster_.link(a, b)};
    return known.yes;
  }

  // Whether the link in the opposite direction is the mirrored one.
  bool is_mirrored(DeviceId a, DeviceId b) const {
    const int there = cluster_.link_index(a, b);
    const int back = cluster_.link_index(b, a);
    if (there < 0) return true;
    int& known = mirror_[there];
    if (known != back && *cluster_.link(b, a) == mirrored(*cluster_.link(a, b)))
      known = back;
    return known == back;
  }

 private:
  bool explains_most(bool same_host) const {
    std::int64_t balance = 0;
    for_each_pair(cluster_, [&](DeviceId a, DeviceId b, int host, int other) {
      if ((host == other) == same_host) balance += explain(a, b) ? 1 : -1;
    });
    return balance > 0;
  }

  const Cluster& cluster_;
  std::optional<Rule> within_, between_;
  struct Explained {  // by the rule for these two hosts
    int host = -1, other = -1;
    bool yes = false;
  };
  mutable std::vector<Explained> explained_;
  mutable std::vector<int> mirror_;
};

Json uses_json(const Cluster& cluster, const Link& link) {
  Json uses = Json::array();
  for (const Link::Use& use : link.uses) {
    Json row = Json::object();
    row.set("resource", cluster.resources()[use.resource].name);
    row.set("direction", use.upstream ? "up" : "down");
    uses.push(std::move(row));
  }
  return uses;
}

// The links of one device that the rules do not give, grouped if equal.
void add_links_of(const Cluster& cluster, const Rules& rules, DeviceId from,
                  Json& json) {
  std::map<std::pair<int, bool>, Json> groups;  // by link and one_way
  for (std::size_t i = 0; i < cluster.devices().size(); ++i) {
    const DeviceId to(i);
    if (to == from) continue;
    const bool is_first = from < to;
    const bool one_way = !rules.is_mirrored(from, to);
    if (!one_way && !is_first) continue;  // written with the other device
    const bool explained =
        rules.explain(from, to) && (one_way || rules.explain(to, from));
    if (explained) continue;
    auto& group = groups[{cluster.link_index(from, to), one_way}];
    if (group.is_null()) group = Json::array();
    group.push(cluster.devices()[i].name);
  }
  for (auto& [key, names] : groups) {
    Json row = Json::object();
    row.set("from", cluster.devices()[from.index()].name);
    row.set("to", std::move(names));
    if (key.first < 0) {
      row.set("missing", true);
    } else {
      const Link& link = cluster.links()[key.first];
      set_link(row, link);
      if (!link.uses.empty()) row.set("uses", uses_json(cluster, link));
      if (key.second) row.set("one_way", true);
    }
    json.push(std::move(row));
  }
}

Json resources_json(const Cluster& cluster) {
  Json json = Json::array();
  for (const SharedResource& resource : cluster.resources()) {
    Json row = Json::object();
    row.set("name", resource.name);
    row.set("bandwidth", resource.bandwidth.value());
    row.set("duplex", to_text(resource.duplex));
    json.push(std::move(row));
  }
  return json;
}

Json between_json(const Cluster& cluster, const Rule& rule) {
  Json json = Json::object();
  set_link(json, rule.plain);
  const bool has_cards = std::any_of(rule.cards.begin(), rule.cards.end(),
                                     [](int card) { return card >= 0; });
  if (!has_cards) return json;
  Json cards = Json::array();
  for (int card : rule.cards)
    cards.push(card < 0 ? Json() : Json(cluster.resources()[card].name));
  json.set("cards", std::move(cards));
  return json;
}

}  // namespace

std::string to_text(const Cluster& cluster) {
  Json json = Json::object();
  json.set("format", "pipewright/cluster").set("version", 1);
  json.set("name", cluster.name());
  Json kinds = Json::array();
  for (const DeviceKind& kind : cluster.kinds()) kinds.push(to_json(kind));
  json.set("kinds", std::move(kinds));
  json.set("devices", devices_json(cluster));
  if (!cluster.resources().empty())
    json.set("resources", resources_json(cluster));
  const Rules rules(cluster);
  if (rules.within()) {
    Json within = Json::object();
    set_link(within, rules.within()->plain);
    json.set("within_hosts", std::move(within));
  }
  if (rules.between())
    json.set("between_hosts", between_json(cluster, *rules.between()));
  Json links = Json::array();
  for (std::size_t i = 0; i < cluster.devices().size(); ++i)
    add_links_of(cluster, rules, DeviceId(i), links);
  json.set("links", std::move(links));
  return json.to_text();
}

}  // namespace pipewright
