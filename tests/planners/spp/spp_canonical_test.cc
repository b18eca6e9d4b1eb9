// The canonical order of a graph: all names of small graphs, random names of
// graphs with many symmetries, and that equal vertices keep their names' order.

#include "pipewright/planners/spp/spp_canonical.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>

namespace pipewright {
namespace {

// A graph from the bandwidth of each pair.
Bandwidths graph(int n, const std::function<double(int, int)>& between) {
  const auto size = static_cast<std::size_t>(n);
  Bandwidths b(size, std::vector<double>(size, 0));
  for (int u = 0; u < n; ++u)
    for (int v = 0; v < u; ++v)
      b[static_cast<std::size_t>(u)][static_cast<std::size_t>(v)] =
          b[static_cast<std::size_t>(v)][static_cast<std::size_t>(u)] =
              between(u, v);
  return b;
}

std::vector<int> range(std::size_t n) {
  std::vector<int> all(n);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

std::vector<int> renamed(const std::vector<int>& kinds,
                         const std::vector<int>& names) {
  std::vector<int> other;
  for (int v : names) other.push_back(kinds[static_cast<std::size_t>(v)]);
  return other;
}

// The graph and its kinds along the canonical order.
std::pair<Bandwidths, std::vector<int>> canonical_form(
    const Bandwidths& b, const std::vector<int>& kinds) {
  const std::vector<int> order = canonical_order(b, kinds);
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  REQUIRE(sorted == range(b.size()));
  Bandwidths form = among(b, order);
  for (std::size_t v = 0; v < b.size(); ++v) form[v][v] = 0;
  return {std::move(form), renamed(kinds, order)};
}

TEST_CASE("every naming of a small graph has one form") {
  std::mt19937 random(1);
  for (int round = 0; round < 400; ++round) {
    const int n = 1 + static_cast<int>(random() % 5);
    const unsigned different = 1 + random() % 3;
    const Bandwidths b =
        graph(n, [&](int, int) { return 1.0 + random() % different; });
    std::vector<int> kinds, names = range(b.size());
    for (int v = 0; v < n; ++v)
      kinds.push_back(round % 2 ? static_cast<int>(random() % 2) : 0);
    const auto form = canonical_form(b, kinds);
    CAPTURE(round);
    do CHECK(canonical_form(among(b, names), renamed(kinds, names)) == form);
    while (std::next_permutation(names.begin(), names.end()));
  }
}

// Different graphs have different forms: otherwise the test above would pass
// for an order that forgets bandwidths.
TEST_CASE("graphs that no naming makes equal have different forms") {
  std::vector<Bandwidths> forms;
  for (unsigned edges = 0; edges < 64; ++edges) {
    unsigned edge = 0;
    const Bandwidths b = graph(
        4, [&](int, int) { return ((edges >> edge++) & 1) != 0 ? 2.0 : 1.0; });
    const Bandwidths form = canonical_form(b, {0, 0, 0, 0}).first;
    if (std::find(forms.begin(), forms.end(), form) == forms.end())
      forms.push_back(form);
  }
  CHECK(forms.size() == 11);  // the graphs with four vertices
}

TEST_CASE("symmetric graphs have one form under random names") {
  const auto near = [](int a, int b, int n) {
    return (a - b + n) % n == 1 || (b - a + n) % n == 1;
  };
  const std::vector<Bandwidths> graphs = {
      // 8 hosts of 8, the last with faster links inside
      graph(64,
            [](int u, int v) {
              return u / 8 != v / 8 ? 1.0 : u >= 56 ? 9.0 : 8.0;
            }),
      // a ring of 24, a ring of 8 hosts of 4
      graph(24, [&](int u, int v) { return near(u, v, 24) ? 2.0 : 1.0; }),
      graph(32,
            [&](int u, int v) {
              return u / 4 == v / 4 ? 8.0 : near(u / 4, v / 4, 8) ? 2.0 : 1.0;
            }),
      // a torus of 6 times 6, a hypercube of 32
      graph(36,
            [&](int u, int v) {
              return (u / 6 == v / 6 && near(u % 6, v % 6, 6)) ||
                             (u % 6 == v % 6 && near(u / 6, v / 6, 6))
                         ? 2.0
                         : 0.0;
            }),
      graph(32, [](int u, int v) {
        return ((u ^ v) & ((u ^ v) - 1)) == 0 ? 2.0 : 0.0;
      })};
  std::mt19937 random(2);
  for (std::size_t g = 0; g < graphs.size(); ++g) {
    const Bandwidths& b = graphs[g];
    const std::vector<int> kinds(b.size(), 0);
    const auto form = canonical_form(b, kinds);
    CAPTURE(g);
    for (int naming = 0; naming < 6; ++naming) {
      std::vector<int> names = range(b.size());
      std::shuffle(names.begin(), names.end(), random);
      CHECK(canonical_form(among(b, names), kinds) == form);
    }
  }
}

TEST_CASE("vertices that look alike keep the order of their names") {
  const Bandwidths hosts =
      graph(64, [](int u, int v) { return u / 8 == v / 8 ? 8.0 : 1.0; });
  CHECK(canonical_order(hosts, std::vector<int>(64, 0)) == range(64));
  const Bandwidths equal = graph(9, [](int, int) { return 3.0; });
  CHECK(canonical_order(equal, std::vector<int>(9, 0)) == range(9));
  CHECK(canonical_order(equal, {1, 0, 1, 0, 1, 0, 1, 0, 1}) ==
        std::vector<int>{1, 3, 5, 7, 0, 2, 4, 6, 8});
  CHECK(canonical_order({}, {}).empty());
}

}  // namespace
}  // namespace pipewright
