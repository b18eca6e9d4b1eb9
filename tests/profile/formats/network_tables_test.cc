// Which network curve is that of two groups of GPUs.

#include "pipewright/profile/formats/network_tables.h"

#include <doctest/doctest.h>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

BandwidthTable table_of(const std::string& operation, const std::string& from,
                        const std::string& to, int devices, double rate) {
  BandwidthTable table;
  table.operation = operation;
  table.from = from;
  table.to = to;
  table.devices = devices;
  table.points = {{Bytes(0), BytesPerSecond(rate)}};
  return table;
}

// GPUs of 30 units between hosts of their kind, and slower to the other kind.
const std::vector<BandwidthTable> kTables = {
    table_of("inter-node", "A", "A", 1, 30),
    table_of("inter-node", "A", "A", 2, 31),
    table_of("inter-node", "B", "B", 1, 40),
    table_of("inter-zone", "z/1xA", "z/1xB", 2, 1),
    table_of("inter-zone", "z/4xA", "z/4xB", 2, 4),
    table_of("inter-zone", "z/2xA", "z/4xB", 2, 2),
    table_of("inter-zone", "z/2xA", "y/2xA", 2, 7)};

// The rate between the ends, and the notes about it.
struct Found {
  double rate = 0;
  std::string notes;
};

Found between(const NetworkEnd& a, const NetworkEnd& b) {
  NetworkTables tables(kTables);
  const BandwidthTable* table = tables.between(a, b);
  REQUIRE(table);
  CHECK(tables.between(b, a) == table);  // one rate and one note for both
  return {NetworkTables::largest_rate(*table).value(),
          join(tables.notes(), "\n")};
}

}  // namespace

TEST_CASE("a curve is used in both directions, without a note") {
  CHECK(between({"A", 1, "z"}, {"B", 1, "z"}).rate == 1);
  CHECK(between({"B", 4, "z"}, {"A", 2, "z"}).rate == 2);
  CHECK(between({"A", 2, "y"}, {"A", 2, "z"}).rate == 7);
  CHECK(between({"B", 4, "z"}, {"A", 2, "z"}).notes.empty());
}

TEST_CASE("two kinds of other degrees have the curve of the smaller one") {
  const Found found = between({"A", 2, "z"}, {"B", 1, "z"});
  CHECK(found.rate == 1);
  CHECK(found.notes ==
        "assumed: the files have no rates between 2xA and 1xB in z; those "
        "between 1xA and 1xB in z are used");
  CHECK(between({"A", 8, "z"}, {"B", 4, "z"}).rate == 4);
  CHECK(between({"A", 2, "z"}, {"B", 2, "z"}).rate == 2);
  CHECK(between({"B", 16, "z"}, {"A", 8, "z"}).rate == 4);
  CHECK(between({"A", 3, "z"}, {"B", 3, "z"}).rate == 2);
}

TEST_CASE("one kind in one zone has its own curve, without a note") {
  const Found found = between({"A", 2, "z"}, {"A", 1, "z"});
  CHECK(found.rate == 30);
  CHECK(found.notes.empty());
  CHECK(between({"A", 2, "x"}, {"A", 2, "x"}).rate == 31);
}

TEST_CASE("zones without a curve are named, with what is used") {
  const Found other = between({"A", 1, "x"}, {"B", 1, "x"});
  CHECK(other.rate == 1);
  CHECK(contains(other.notes, "those between 1xA and 1xB in z are used"));
  const Found own = between({"A", 2, "z"}, {"A", 2, "eu"});
  CHECK(own.rate == 31);
  CHECK(own.notes ==
        "assumed: the files have no rates between 2xA and 2xA in the zones z "
        "and eu; those between hosts of 2xA are used");
  CHECK(between({"A", 4, "y"}, {"A", 1, "z"}).rate == 7);
}

TEST_CASE("kinds without any curve have none") {
  NetworkTables tables(kTables);
  CHECK_FALSE(tables.between({"A", 1, "z"}, {"C", 1, "z"}));
  CHECK(tables.notes().empty());
}

}  // namespace pipewright
