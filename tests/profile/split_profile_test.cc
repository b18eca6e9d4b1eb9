// The profile of a model with split layers, from that of the whole one.

#include "pipewright/profile/split_profile.h"

#include <doctest/doctest.h>

#include "pipewright/profile/analytic.h"

namespace pipewright {
namespace {

const std::string kWhole = "mlp:layers=2,hidden=64,features=32";
const std::string kSplit = kWhole + ",split=hidden1.linear@16";

Profile estimate_of(const std::string& name, const Cluster& cluster) {
  const auto model = load_model(name);
  REQUIRE(model);
  auto profile =
      analytic_profile(*model, cluster.kinds(), std::vector{1, 4, 8});
  REQUIRE(profile);
  profile->model = name;
  return *std::move(profile);
}

// As if it were measured.
Profile measured(Profile profile) {
  profile.origin = {.source = "measured", .description = "here"};
  for (auto& [kind, tables] : profile.times)
    for (auto& [size, rows] : tables)
      for (std::size_t l = 0; l < rows.size(); ++l) {
        const double seconds = static_cast<double>(l + 1) * size;
        rows[l] = {Seconds(seconds), Seconds(2 * seconds), Seconds(3 * seconds),
                   Seconds(4)};
      }
  return profile;
}

TEST_CASE("an estimate becomes the estimate of the split model") {
  const Cluster cluster = *load_cluster("1xVCU118+1xV100@1GB/s");
  const auto split =
      with_splits(estimate_of(kWhole, cluster), kSplit, cluster.kinds());
  REQUIRE(split);
  CHECK(*split == estimate_of(kSplit, cluster));
}

TEST_CASE("measured times: parts in proportion, other layers as they were") {
  const Cluster cluster = *load_cluster("2xVCU118");
  const Profile whole = measured(estimate_of(kWhole, cluster));
  const Profile estimated = estimate_of(kSplit, cluster);
  const auto split = with_splits(whole, kSplit, cluster.kinds());
  REQUIRE(split);
  REQUIRE(split->check("split"));
  CHECK(split->model == kSplit);
  CHECK(split->origin.source == "measured");
  CHECK(split->layers == estimated.layers);
  CHECK(split->sizes == estimated.sizes);
  for (const std::string table : {"VCU118", "VCU118/on-chip"})
    for (const int size : {1, 4, 8}) {
      const auto& from = whole.times.at(table).at(size);
      const auto& to = split->times.at(table).at(size);
      // linear, relu | linear (2), relu, output, loss.
      CHECK(to[0] == from[0]);
      CHECK(to[1] == from[1]);
      CHECK(to[2].forward == from[2].forward * 0.25);
      CHECK(to[3].backward_weight == from[2].backward_weight * 0.75);
      CHECK(to[3].update == from[2].update * 0.75);
      CHECK(to[4] == estimated.times.at(table).at(size)[4]);
      for (std::size_t l = 3; l < from.size(); ++l) CHECK(to[l + 2] == from[l]);
    }
}

TEST_CASE("a part of a part has its share of the whole") {
  const Cluster cluster = *load_cluster("2xVCU118");
  const Profile whole = measured(estimate_of(kWhole, cluster));
  const std::string twice = kSplit + "+hidden1.linear.part1@32";
  const auto at_once = with_splits(whole, twice, cluster.kinds());
  REQUIRE(at_once);
  const auto& from = whole.times.at("VCU118").at(4)[2];
  const auto& to = at_once->times.at("VCU118").at(4);
  CHECK(to[2].forward == from.forward * 0.25);
  CHECK(to[3].forward == from.forward * 0.5);
  CHECK(to[4].forward == from.forward * 0.25);
  const auto first = with_splits(whole, kSplit, cluster.kinds());
  REQUIRE(first);
  const auto again = with_splits(*first, twice, cluster.kinds());
  REQUIRE(again);
  CHECK(again->times.at("VCU118").at(4)[3].forward.value() ==
        doctest::Approx(from.forward.value() * 0.5));
}

TEST_CASE("a profile that has these layers, or of another model, stays") {
  const Cluster cluster = *load_cluster("2xVCU118");
  const Profile split = measured(estimate_of(kSplit, cluster));
  CHECK(*with_splits(split, kSplit, cluster.kinds()) == split);
  const Profile whole = measured(estimate_of(kWhole, cluster));
  CHECK(*with_splits(whole, "lenet:split=fc1@4", cluster.kinds()) == whole);
  CHECK(*with_splits(whole, "mine.json", cluster.kinds()) == whole);
  CHECK(*with_splits(whole, kWhole, cluster.kinds()) == whole);
}

}  // namespace
}  // namespace pipewright
