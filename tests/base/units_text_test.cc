// Quantities as people write them.

#include "pipewright/base/units_text.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

TEST_CASE("bandwidths, durations and sizes") {
  CHECK(parse_bandwidth("1GB/s") == BytesPerSecond(1e9));
  CHECK(parse_bandwidth("10Gb/s") == BytesPerSecond(1.25e9));
  CHECK(parse_bandwidth("2.5 MB/s") == BytesPerSecond(2.5e6));
  CHECK(parse_duration("5us") == Seconds(5e-6));
  CHECK(parse_bytes("16GB") == Bytes(16'000'000'000));
  CHECK(parse_bytes("2MiB") == Bytes(2 << 20));
  for (const char* bad : {"", "GB/s", "1", "1GB", "-1GB/s", "1e400GB/s",
                          "1..2GB/s", "infGB/s", "1GB/s ago"})
    CHECK(!parse_bandwidth(bad));
  CHECK(!parse_bytes("99999999999GB"));
}

}  // namespace
}  // namespace pipewright
