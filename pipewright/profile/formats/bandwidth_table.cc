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
  auto above = std::lower_bound(
      table.points.begin(), table.points.end(), message,
      [](const BandwidthPoint& p, Bytes m) { return p.message < m; });
  if (above == table.points.end()) return table.points.back().rate;
  if (above == table.points.begin()) return above->rate;
  const BandwidthPoint& low = *(above - 1);
  const BandwidthPoint& high = *above;
  const double t = (message - low.message) / (high.message - low.message);
  const Seconds time =
      (1 - t) * (low.message / low.rate) + t * (high.message / high.rate);
  if (!(time > Seconds(0))) return high.rate;
  return BytesPerSecond(static_cast<double>(message.value()) / time.value());
}

}  // namespace pipewright
