#include "pipewright/profile/formats/network_tables.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <tuple>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

// 0 for `wanted`; the next smaller numbers are nearer than any larger one.
int distance_to(int wanted, int devices) {
  constexpr int kMaxDegree = 1 << 20;
  return devices <= wanted ? wanted - devices : kMaxDegree + devices - wanted;
}

// "ZONE/2xKIND", as sailor_files.cc names the ends of a curve.
std::optional<NetworkEnd> end_named(const std::string& name) {
  const std::size_t times = name.find('x', name.rfind('/') + 1);
  const std::size_t slash = name.rfind('/');
  if (slash == std::string::npos || times == std::string::npos)
    return std::nullopt;
  const auto degree = parse_integer(name.substr(slash + 1, times - slash - 1));
  if (!degree) return std::nullopt;
  return NetworkEnd{name.substr(times + 1), static_cast<int>(*degree),
                    name.substr(0, slash)};
}

// Whether the curve is of these kinds, and 0 if it is of these zones, too.
std::optional<int> zone_distance(const NetworkEnd& from, const NetworkEnd& to,
                                 const NetworkEnd& a, const NetworkEnd& b) {
  if (from.kind != a.kind || to.kind != b.kind) return std::nullopt;
  if (from.zone == a.zone && to.zone == b.zone) return 0;
  // One kind has a curve of its own, without zones.
  if (from.zone == to.zone && a.kind != b.kind) return 1;
  return std::nullopt;
}

std::string place_text(const NetworkEnd& a, const NetworkEnd& b) {
  return "between " + gpus_text(a) + " and " + gpus_text(b) +
         (a.zone == b.zone ? (a.zone.empty() ? "" : " in " + a.zone)
                           : " in the zones " + a.zone + " and " + b.zone);
}

}  // namespace

std::string gpus_text(const NetworkEnd& end) {
  return std::to_string(end.degree) + "x" + end.kind;
}

NetworkTables::NetworkTables(const std::vector<BandwidthTable>& tables)
    : tables_(tables) {
  for (const BandwidthTable& table : tables) {
    if (table.operation != "inter-zone") continue;
    auto from = end_named(table.from), to = end_named(table.to);
    if (from && to) pairs_.push_back({*from, *to, &table});
  }
}

const BandwidthTable* NetworkTables::within_host(const std::string& kind,
                                                 int gpus) const {
  return of_kind("intra-node", kind, gpus);
}

const BandwidthTable* NetworkTables::between(const NetworkEnd& a,
                                             const NetworkEnd& b) {
  const auto known = found_.find({a, b});
  if (known != found_.end()) return known->second;
  const BandwidthTable* table = find_between(a, b);
  found_[{a, b}] = found_[{b, a}] = table;
  return table;
}

const BandwidthTable* NetworkTables::find_between(const NetworkEnd& a,
                                                  const NetworkEnd& b) {
  const PairTable* pair = nearest_pair(a, b);
  if (pair && ((pair->from == a && pair->to == b) ||
               (pair->from == b && pair->to == a)))
    return pair->table;
  const BandwidthTable* own = slower_of_kinds(a, b);
  if (own && a.kind == b.kind && a.zone == b.zone) return own;
  if (!pair && !own) return nullptr;
  notes_.push_back("assumed: the files have no rates " + place_text(a, b) +
                   "; those " +
                   (pair ? place_text(pair->from, pair->to)
                         : "between hosts of " + std::to_string(own->devices) +
                               "x" + own->from) +
                   " are used");
  return pair ? pair->table : own;
}

const BandwidthTable* NetworkTables::slower_of_kinds(
    const NetworkEnd& a, const NetworkEnd& b) const {
  const BandwidthTable* one = of_kind("inter-node", a.kind, a.degree);
  const BandwidthTable* other = of_kind("inter-node", b.kind, b.degree);
  if (!one || !other) return nullptr;
  return largest_rate(*one) <= largest_rate(*other) ? one : other;
}

const NetworkTables::PairTable* NetworkTables::nearest_pair(
    const NetworkEnd& a, const NetworkEnd& b) const {
  const PairTable* nearest = nullptr;
  std::tuple<int, int, int, bool> least;
  for (const PairTable& pair : pairs_)
    for (const bool is_reverse : {false, true}) {
      const NetworkEnd& from = is_reverse ? pair.to : pair.from;
      const NetworkEnd& to = is_reverse ? pair.from : pair.to;
      const std::optional<int> zones = zone_distance(from, to, a, b);
      if (!zones) continue;
      const std::tuple<int, int, int, bool> distance{
          *zones,
          distance_to(std::min(a.degree, b.degree),
                      std::min(from.degree, to.degree)),
          std::abs(from.degree - a.degree) + std::abs(to.degree - b.degree),
          is_reverse};
      if (nearest && least <= distance) continue;
      nearest = &pair;
      least = distance;
    }
  return nearest;
}

BytesPerSecond NetworkTables::of_host(const std::string& kind) const {
  BytesPerSecond best(0);
  for (const BandwidthTable& table : tables_)
    if (table.operation == "inter-node" && table.from == kind)
      best = std::max(best, largest_rate(table));
  return best;
}

BytesPerSecond NetworkTables::largest_rate(const BandwidthTable& table) {
  BytesPerSecond largest = table.fit ? table.fit->peak : BytesPerSecond(0);
  for (const MessageRate& rate : rates_of(table))
    largest = std::max(largest, rate.rate);
  return largest;
}

// Of equal names, the curve of the nearest number of GPUs.
const BandwidthTable* NetworkTables::of_kind(const std::string& operation,
                                             const std::string& kind,
                                             int devices) const {
  const BandwidthTable* nearest = nullptr;
  for (const BandwidthTable& table : tables_)
    if (table.operation == operation && table.from == kind &&
        (!nearest || distance_to(devices, table.devices) <
                         distance_to(devices, nearest->devices)))
      nearest = &table;
  return nearest;
}

}  // namespace pipewright
