#include "pipewright/planners/spp/spp_device_order.h"

#include <algorithm>
#include <numeric>
#include <set>
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
  std::vector<double> attached(weights.size(), 0);
  std::vector<int> waiting = left;
  order.clear();
  double last = 0;
  while (!waiting.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < waiting.size(); ++i)
      if (is_less(attached[at(waiting[best])], attached[at(waiting[i])]))
        best = i;
    const int taken = waiting[best];
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(best));
    last = attached[at(taken)];
    order.push_back(taken);
    for (int v : waiting) attached[at(v)] += weights[at(taken)][at(v)];
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

Bandwidths among(const Bandwidths& b, const std::vector<int>& vertices) {
  Bandwidths part(vertices.size(), std::vector<double>(vertices.size(), 0));
  for (std::size_t i = 0; i < vertices.size(); ++i)
    for (std::size_t j = 0; j < vertices.size(); ++j)
      part[i][j] = b[at(vertices[i])][at(vertices[j])];
  return part;
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

std::vector<double> pairs_sharing(const Cluster& cluster) {
  std::vector<double> pairs(cluster.resources().size(), 0);
  for (int u = 0; u < cluster.num_devices(); ++u)
    for (int v = u + 1; v < cluster.num_devices(); ++v)
      if (const Link* link = cluster.link(DeviceId(u), DeviceId(v)))
        for (const Link::Use& use : link->uses) pairs[at(use.resource)] += 1;
  return pairs;
}

// Kinds by their names, which do not depend on the order of devices.
std::vector<int> ranked_kinds(const Cluster& cluster) {
  std::set<std::string> names;
  for (const DeviceKind& kind : cluster.kinds()) names.insert(kind.name);
  std::vector<int> ranks;
  for (const Device& device : cluster.devices())
    ranks.push_back(static_cast<int>(std::distance(
        names.begin(), names.find(cluster.kinds()[at(device.kind)].name))));
  return ranks;
}

// Links by all that tells them apart, the fastest with the largest rank.
Bandwidths ranked_links(const Cluster& cluster, const Bandwidths& shared) {
  using Look = std::tuple<double, double, double, bool>;
  const auto look = [&](std::size_t u, std::size_t v) {
    const Link* link = cluster.link(DeviceId(u), DeviceId(v));
    return link == nullptr
               ? Look()
               : Look(shared[u][v], link->bandwidth.value(),
                      -link->latency.value(), link->duplex == Duplex::Full);
  };
  std::set<Look> looks;
  for (std::size_t u = 0; u < shared.size(); ++u)
    for (std::size_t v = 0; v < u; ++v) looks.insert(look(u, v));
  const std::vector<Look> sorted(looks.begin(), looks.end());
  Bandwidths ranks = shared;
  for (std::size_t u = 0; u < shared.size(); ++u)
    for (std::size_t v = 0; v < u; ++v)
      ranks[u][v] = ranks[v][u] = static_cast<double>(
          std::lower_bound(sorted.begin(), sorted.end(), look(u, v)) -
          sorted.begin());
  return ranks;
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
    for (std::size_t v = 0; v < n; ++v) {
      weights[at(kept)][v] += weights[at(last)][v];
      weights[v][at(kept)] = weights[at(kept)][v];
    }
    merged[at(kept)].insert(merged[at(kept)].end(), part.begin(), part.end());
    left.erase(std::find(left.begin(), left.end(), last));
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
  const std::vector<double> pairs = pairs_sharing(cluster);
  const auto width = [&](int u, int v) {
    const Link* link = cluster.link(DeviceId(u), DeviceId(v));
    if (link == nullptr) return 0.0;
    double least = std::min(link->bandwidth.value(), 1e18);
    for (const Link::Use& use : link->uses)
      least = std::min(least,
                       cluster.resources()[at(use.resource)].bandwidth.value() /
                           std::max(1.0, pairs[at(use.resource)]));
    return least;
  };
  const std::size_t n = at(cluster.num_devices());
  Bandwidths b(n, std::vector<double>(n, 0));
  for (std::size_t u = 0; u < n; ++u)
    for (std::size_t v = 0; v < u; ++v) {
      const int from = static_cast<int>(u), to = static_cast<int>(v);
      b[u][v] = b[v][u] = std::min(width(from, to), width(to, from));
    }
  return b;
}

std::vector<DeviceId> recursive_device_order(const Cluster& cluster) {
  const Bandwidths b = shared_bandwidths(cluster);
  if (cluster.num_devices() > kMaxVerticesCut) return by_host(cluster, b);
  const std::vector<int> names =
      canonical_order(ranked_links(cluster, b), ranked_kinds(cluster));
  std::vector<DeviceId> order;
  for (int d : recursive_order(among(b, names)))
    order.push_back(DeviceId(names[at(d)]));
  return order;
}

}  // namespace pipewright
