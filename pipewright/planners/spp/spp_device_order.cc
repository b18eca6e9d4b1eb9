#include "pipewright/planners/spp/spp_device_order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <tuple>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// Allows for rounding: sums of the same bandwidths in another order differ.
bool is_less(double a, double b) { return a < b - 1e-9 * (a + b); }

// One phase of Stoer and Wagner: `order` becomes the vertices in `left`, each
// the one that is most attached to those before it. Returns the attachment of
// the last.
double attachment_order(const Bandwidths& weights, const std::vector<int>& left,
                        std::vector<int>& order) {
  std::vector<int> waiting = left;
  std::vector<double> attached(left.size(), 0);  // by place in `waiting`
  order.clear();
  double last = 0;
  for (std::size_t best = 0; !waiting.empty();) {
    const int taken = waiting[best];
    last = attached[best];
    order.push_back(taken);
    const auto place = static_cast<std::ptrdiff_t>(best);
    waiting.erase(waiting.begin() + place);
    attached.erase(attached.begin() + place);
    const double* to = weights[at(taken)].data();
    best = 0;
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      attached[i] += to[waiting[i]];
      if (is_less(attached[best], attached[i])) best = i;
    }
  }
  return last;
}

std::vector<int> everything_but(const std::vector<int>& part, std::size_t n) {
  std::vector<bool> inside(n, false);
  for (int v : part) inside[at(v)] = true;
  std::vector<int> rest;
  for (std::size_t v = 0; v < n; ++v)
    if (!inside[v]) rest.push_back(static_cast<int>(v));
  return rest;
}

bool are_all_equal(const Bandwidths& b) {
  for (std::size_t i = 0; i < b.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      if (i != j && b[i][j] != b[0][1]) return false;
  return true;
}

std::vector<int> joined(const Bandwidths& b, std::vector<int> head,
                        std::vector<int> tail) {
  const auto across = [&](int u, int v) { return b[at(u)][at(v)]; };
  double best = across(head.back(), tail.front());
  bool turn_head = false, turn_tail = false;
  for (int turns = 1; turns < 4; ++turns) {
    const bool th = turns & 2, tt = turns & 1;
    const double width = across(th ? head.front() : head.back(),
                                tt ? tail.back() : tail.front());
    if (!is_less(best, width)) continue;
    best = width;
    turn_head = th;
    turn_tail = tt;
  }
  if (turn_head) std::reverse(head.begin(), head.end());
  if (turn_tail) std::reverse(tail.begin(), tail.end());
  head.insert(head.end(), tail.begin(), tail.end());
  return head;
}

// `vertices` is ascending, so the smallest is vertex 0 of the graph to cut.
std::vector<int> ordered(const Bandwidths& all,
                         const std::vector<int>& vertices) {
  if (vertices.size() < 3) return vertices;
  const Bandwidths b = among(all, vertices);
  if (are_all_equal(b)) return vertices;
  const auto named = [&](std::vector<int> part) {
    for (int& v : part) v = vertices[at(v)];
    return part;
  };
  if (static_cast<int>(vertices.size()) > kMaxVerticesCut) {
    std::vector<int> left(vertices.size()), order;
    std::iota(left.begin(), left.end(), 0);
    attachment_order(b, left, order);
    return named(std::move(order));
  }
  const std::vector<int> part = global_min_cut(b).part;
  return joined(all, ordered(all, named(everything_but(part, b.size()))),
                ordered(all, named(part)));
}

// How many pairs of devices use each resource.
std::vector<double> pairs_sharing(const Cluster& cluster) {
  std::vector<double> pairs_of_link(cluster.links().size(), 0);
  for (int u = 0; u < cluster.num_devices(); ++u)
    for (int v = u + 1; v < cluster.num_devices(); ++v) {
      const int link = cluster.link_index(DeviceId(u), DeviceId(v));
      if (link >= 0) pairs_of_link[at(link)] += 1;
    }
  std::vector<double> pairs(cluster.resources().size(), 0);
  for (std::size_t l = 0; l < pairs_of_link.size(); ++l)
    for (const Link::Use& use : cluster.links()[l].uses)
      pairs[at(use.resource)] += pairs_of_link[l];
  return pairs;
}

// What each distinct link carries when all pairs of devices send at once.
std::vector<double> shared_widths(const Cluster& cluster) {
  const std::vector<double> pairs = pairs_sharing(cluster);
  std::vector<double> widths;
  for (const Link& link : cluster.links()) {
    double least = std::min(link.bandwidth.value(), 1e18);
    for (const Link::Use& use : link.uses)
      least = std::min(least,
                       cluster.resources()[at(use.resource)].bandwidth.value() /
                           std::max(1.0, pairs[at(use.resource)]));
    widths.push_back(least);
  }
  return widths;
}

// A symmetric number for each pair of devices: `of` the indices of its links in
// both directions, 0 without links.
template <typename OfLinks>
Bandwidths by_pair(const Cluster& cluster, OfLinks of) {
  const std::size_t n = at(cluster.num_devices());
  Bandwidths b(n, std::vector<double>(n, 0));
  for (std::size_t u = 0; u < n; ++u)
    for (std::size_t v = 0; v < u; ++v) {
      const int there = cluster.link_index(DeviceId(u), DeviceId(v));
      const int back = cluster.link_index(DeviceId(v), DeviceId(u));
      if (there >= 0 && back >= 0) b[u][v] = b[v][u] = of(at(there), at(back));
    }
  return b;
}

// Kinds by their names, which do not depend on the order of devices.
std::vector<int> ranked_kinds(const Cluster& cluster) {
  std::vector<std::string> names;
  for (const DeviceKind& kind : cluster.kinds()) names.push_back(kind.name);
  std::sort(names.begin(), names.end());
  std::vector<int> rank_of_kind, ranks;
  for (const DeviceKind& kind : cluster.kinds())
    rank_of_kind.push_back(static_cast<int>(
        std::lower_bound(names.begin(), names.end(), kind.name) -
        names.begin()));
  for (const Device& device : cluster.devices())
    ranks.push_back(rank_of_kind[at(device.kind)]);
  return ranks;
}

// Pairs by all that tells their links apart, the fastest with the largest
// number.
Bandwidths ranked_links(const Cluster& cluster) {
  using Look = std::tuple<double, double, double, bool>;
  const std::vector<double> widths = shared_widths(cluster);
  std::vector<Look> looks;
  for (std::size_t l = 0; l < widths.size(); ++l) {
    const Link& link = cluster.links()[l];
    looks.emplace_back(widths[l], link.bandwidth.value(), -link.latency.value(),
                       link.duplex == Duplex::Full);
  }
  std::vector<Look> sorted = looks;
  std::sort(sorted.begin(), sorted.end());
  std::vector<double> ranks;
  for (const Look& look : looks)
    ranks.push_back(static_cast<double>(
        1 + std::lower_bound(sorted.begin(), sorted.end(), look) -
        sorted.begin()));
  const auto base = static_cast<double>(looks.size() + 1);
  return by_pair(cluster, [&](std::size_t there, std::size_t back) {
    return base * std::min(ranks[there], ranks[back]) +
           std::max(ranks[there], ranks[back]);
  });
}

std::vector<DeviceId> by_host(const Cluster& cluster, const Bandwidths& b) {
  std::vector<std::vector<int>> hosts(at(cluster.num_hosts()));
  for (int d = 0; d < cluster.num_devices(); ++d)
    hosts[at(cluster.devices()[at(d)].host)].push_back(d);
  std::erase_if(hosts, [](const auto& host) { return host.empty(); });
  Bandwidths between(hosts.size(), std::vector<double>(hosts.size(), 0));
  for (std::size_t i = 0; i < hosts.size(); ++i)
    for (std::size_t j = 0; j < hosts.size(); ++j)
      for (int u : hosts[i])
        for (int v : hosts[j])
          if (i != j) between[i][j] += b[at(u)][at(v)];
  std::vector<DeviceId> order;
  for (int host : recursive_order(between))
    for (int d : ordered(b, hosts[at(host)])) order.push_back(DeviceId(d));
  return order;
}

}  // namespace

MinCut global_min_cut(const Bandwidths& bandwidths) {
  const std::size_t n = bandwidths.size();
  Bandwidths weights = bandwidths;
  std::vector<std::vector<int>> merged(n);
  std::vector<int> left(n), order;
  std::iota(left.begin(), left.end(), 0);
  for (int v : left) merged[at(v)] = {v};
  const auto balance = [n](const std::vector<int>& part) {
    return std::min(part.size(), n - part.size());
  };
  MinCut best;
  while (left.size() > 1) {
    const double weight = attachment_order(weights, left, order);
    const int last = order.back(), kept = order[order.size() - 2];
    const std::vector<int>& part = merged[at(last)];
    if (best.part.empty() || is_less(weight, best.weight) ||
        (!is_less(best.weight, weight) && balance(part) > balance(best.part)))
      best = {weight, part};
    left.erase(std::find(left.begin(), left.end(), last));
    for (int v : left) {
      weights[at(kept)][at(v)] += weights[at(last)][at(v)];
      weights[at(v)][at(kept)] = weights[at(kept)][at(v)];
    }
    merged[at(kept)].insert(merged[at(kept)].end(), part.begin(), part.end());
  }
  std::sort(best.part.begin(), best.part.end());
  if (!best.part.empty() && best.part.front() == 0)
    best.part = everything_but(best.part, n);
  return best;
}

std::vector<int> recursive_order(const Bandwidths& bandwidths) {
  std::vector<int> all(bandwidths.size());
  std::iota(all.begin(), all.end(), 0);
  return ordered(bandwidths, all);
}

Bandwidths shared_bandwidths(const Cluster& cluster) {
  const std::vector<double> widths = shared_widths(cluster);
  return by_pair(cluster, [&](std::size_t there, std::size_t back) {
    return std::min(widths[there], widths[back]);
  });
}

std::vector<DeviceId> recursive_device_order(const Cluster& cluster) {
  const Bandwidths b = shared_bandwidths(cluster);
  if (cluster.num_devices() > kMaxVerticesCut) return by_host(cluster, b);
  const std::vector<int> names =
      canonical_order(ranked_links(cluster), ranked_kinds(cluster));
  std::vector<DeviceId> order;
  for (int d : recursive_order(among(b, names)))
    order.push_back(DeviceId(names[at(d)]));
  return order;
}

}  // namespace pipewright
