// Bandwidth measured by another system: by message size, between kinds of
// devices, for one operation.
//
// A source gives points (Aceso, Galvatron) or a fitted curve with the highest
// measured rate (Sailor). Plans do not use these tables: they use the cluster,
// whose links may have their rates (rates_of).

#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/units.h"
#include "pipewright/cluster/cluster.h"

namespace pipewright {

// A message of 0 bytes: the source does not give the size.
using BandwidthPoint = MessageRate;

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

// The table as the rates of a link: its points, or the curve at 64 KiB, 128 KiB
// and so on up to 1 GiB where it is positive.
MessageRates rates_of(const BandwidthTable& table);

}  // namespace pipewright
