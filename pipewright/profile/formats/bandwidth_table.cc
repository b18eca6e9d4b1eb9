#include "pipewright/profile/formats/bandwidth_table.h"

#include <algorithm>
#include <cmath>

namespace pipewright {
namespace {

std::optional<BytesPerSecond> fitted_rate(const BandwidthFit& fit,
                                          Bytes message) {
  if (message <= Bytes(0)) return std::nullopt;
  const double x = std::log2(static_cast<double>(message.value()) / 1e6);
  const double gigabytes = (fit.c[0] * x + fit.c[1]) * x + fit.c[2];
  if (!(gigabytes > 0)) return std::nullopt;
  return std::min(BytesPerSecond(gigabytes * 1e9), fit.peak);
}

}  // namespace

std::optional<BytesPerSecond> rate_at(const BandwidthTable& table,
                                      Bytes message) {
  if (table.fit) return fitted_rate(*table.fit, message);
  if (table.points.empty()) return std::nullopt;
  return rate_at(table.points, message);
}

MessageRates rates_of(const BandwidthTable& table) {
  if (!table.fit) return table.points;
  MessageRates rates;
  for (int bits = 16; bits <= 30; ++bits) {
    const Bytes message(std::int64_t{1} << bits);
    if (auto rate = rate_at(table, message)) rates.push_back({message, *rate});
  }
  return rates;
}

}  // namespace pipewright
