// SPP's device order: min-cuts compared with all cuts, two servers of four,
// symmetric graphs, renamed devices, clusters with shared network cards.

#include "pipewright/planners/spp/spp_device_order.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "pipewright/cluster/cluster_text.h"

namespace pipewright {
namespace {

Bandwidths servers(const std::vector<int>& server_of, double inside,
                   double between) {
  Bandwidths b(server_of.size(), std::vector<double>(server_of.size(), 0));
  for (std::size_t i = 0; i < b.size(); ++i)
    for (std::size_t j = 0; j < b.size(); ++j)
      if (i != j) b[i][j] = server_of[i] == server_of[j] ? inside : between;
  return b;
}

double least_cut_of_all(const Bandwidths& b) {
  double least = 1e300;
  const std::size_t n = b.size();
  for (unsigned side = 1; side < (1U << (n - 1)); ++side) {
    double weight = 0;
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (((side >> i) & 1) != ((side >> j) & 1)) weight += b[i][j];
    least = std::min(least, weight);
  }
  return least;
}

std::vector<int> identity(std::size_t n) {
  std::vector<int> order(n);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

TEST_CASE("the min-cut is the smallest of all cuts") {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 2 + random() % 7;
    Bandwidths b(n, std::vector<double>(n, 0));
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        b[i][j] = b[j][i] = random() % 3 == 0 ? 0.0 : 1.0 + random() % 20;
    const MinCut cut = global_min_cut(b);
    CHECK(cut.weight == doctest::Approx(least_cut_of_all(b)));
    double across = 0;
    for (int u : cut.part)
      for (std::size_t v = 0; v < n; ++v)
        if (std::find(cut.part.begin(), cut.part.end(), static_cast<int>(v)) ==
            cut.part.end())
          across += b[static_cast<std::size_t>(u)][v];
    CHECK(across == doctest::Approx(cut.weight));
    CHECK(!cut.part.empty());
    CHECK(cut.part.front() > 0);
    std::vector<int> order = recursive_order(b);
    std::sort(order.begin(), order.end());
    CHECK(order == identity(n));
  }
}

TEST_CASE("two servers of four") {
  const Bandwidths weak = servers({0, 0, 0, 0, 1, 1, 1, 1}, 100, 1);
  CHECK(global_min_cut(weak).weight == doctest::Approx(16));
  CHECK(global_min_cut(weak).part == std::vector<int>{4, 5, 6, 7});
  CHECK(recursive_order(weak) == identity(8));
  // A single device is now the least cut; servers still stay together.
  const Bandwidths strong = servers({0, 0, 0, 0, 1, 1, 1, 1}, 100, 50);
  CHECK(global_min_cut(strong).weight == doctest::Approx(500));
  CHECK(global_min_cut(strong).part.size() == 1);
  CHECK(recursive_order(strong) == identity(8));
}

TEST_CASE("servers stay together however their devices are named") {
  std::mt19937 random(2);
  for (int round = 0; round < 100; ++round) {
    std::vector<int> server_of = {0, 0, 0, 0, 1, 1, 1, 1};
    std::shuffle(server_of.begin(), server_of.end(), random);
    for (double between : {1.0, 50.0}) {
      const auto order = recursive_order(servers(server_of, 100, between));
      int changes = 0;
      for (std::size_t i = 1; i < order.size(); ++i)
        changes += server_of[static_cast<std::size_t>(order[i])] !=
                   server_of[static_cast<std::size_t>(order[i - 1])];
      CHECK(changes == 1);
      CHECK(order == recursive_order(servers(server_of, 100, between)));
    }
  }
}

TEST_CASE("symmetric graphs keep their order") {
  for (std::size_t n : {1UL, 2UL, 3UL, 8UL, 33UL, 300UL})
    CHECK(recursive_order(servers(std::vector<int>(n, 0), 7, 7)) ==
          identity(n));
}

TEST_CASE("a network card counts once for a cut, not for each pair") {
  const auto cluster = parse_cluster_text("4x8xV100@nvlink/10GbE");
  REQUIRE(cluster);
  const Bandwidths b = shared_bandwidths(*cluster);
  // All that leaves a host: the card of 10 Gb/s.
  double leaving = 0;
  for (std::size_t u = 0; u < 8; ++u)
    for (std::size_t v = 8; v < 32; ++v) leaving += b[u][v];
  CHECK(leaving == doctest::Approx(1.25e9));
  const auto order = recursive_device_order(*cluster);
  for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i].index() == i);
}

TEST_CASE("the devices of a host stay together") {
  const auto cluster = parse_cluster_text("64x8xV100@nvlink/10GbE");
  REQUIRE(cluster);
  const auto order = recursive_device_order(*cluster);
  REQUIRE(order.size() == 512);
  for (std::size_t i = 0; i < order.size(); i += 8)
    for (std::size_t j = i; j < i + 8; ++j)
      CHECK(cluster->devices()[order[j].index()].host ==
            cluster->devices()[order[i].index()].host);
}

}  // namespace
}  // namespace pipewright
