// Bandwidth measured by another system: by message size, between kinds of
// devices, for one operation.
//
// A source gives points (Aceso, Galvatron) or a fitted curve with the highest
// measured rate (Sailor). Plans do not use these tables: they use the cluster.

#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"

namespace pipewright {

struct BandwidthPoint {
  Bytes message;  // 0 if the source does not give the size
  BytesPerSecond rate;
};

// GB/s = c[0] x^2 + c[1] x + c[2] with x = log2(bytes / 1e6), at most `peak`.
struct BandwidthFit {
  std::array<double, 3> c{};
  BytesPerSecond peak;
};

struct BandwidthTable {
  std::string operation;  // "p2p", "all_reduce", "all_gather", ...
  std::string from;       // device kind, zone or machine; "" if not given
  std::string to;
  int devices = 2;                     // number of participants
  std::vector<BandwidthPoint> points;  // ascending in message
  std::optional<BandwidthFit> fit;     // instead of points
};

// Between two points the time is interpolated; outside, the nearest rate is
// used. Nothing if the fit gives no positive rate (small messages) or the table
// is empty.
std::optional<BytesPerSecond> rate_at(const BandwidthTable& table,
                                      Bytes message);

}  // namespace pipewright
