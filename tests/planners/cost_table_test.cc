// Sums over ranges of layers, compared with each other.

#include "pipewright/planners/cost_table.h"

#include <doctest/doctest.h>

#include "pipewright/base/index.h"
#include "tests/planners/random_problems.h"

namespace pipewright {

TEST_CASE("what ranges of layers keep is the same in one pass, both ways") {
  RandomProblems random(98);
  for (int i = 0; i < 100; ++i) {
    const RandomProblem made = random.next();
    const CostTable costs =
        CostTable::create(*made.profile, *made.cluster, 8).value();
    const int layers = costs.num_layers();
    for (int l = 0; l <= layers; ++l) {
      const auto from = costs.kept_from(l);
      REQUIRE(from.size() == at(layers - l + 1));
      for (int end = l; end <= layers; ++end)
        CHECK(from[at(end - l)] == costs.kept(l, end));
      const Bytes limit(random.number(0, 100'000));
      const auto until = costs.kept_until(l, limit);
      for (std::size_t n = 0; n < until.size(); ++n) {
        CHECK(until[n] == costs.kept(l - static_cast<int>(n), l));
        CHECK((until[n] <= limit || n + 1 == until.size()));
      }
      CHECK((until.size() == at(l) + 1 || until.back() > limit));
    }
  }
}

TEST_CASE("groups of layers cost what their layers do") {
  RandomProblems random(99);
  for (int i = 0; i < 100; ++i) {
    const RandomProblem made = random.next();
    const CostTable costs =
        CostTable::create(*made.profile, *made.cluster, 8).value();
    std::vector<int> positions = {0};
    for (int l = 1; l < costs.num_layers(); ++l)
      if (random.chance(2)) positions.push_back(l);
    positions.push_back(costs.num_layers());
    const CostTable groups = costs.grouped(positions);
    REQUIRE(at(groups.num_layers()) + 1 == positions.size());
    for (int g = 0; g <= groups.num_layers(); ++g) {
      const int first = positions[at(g)];
      CHECK(groups.crossing(g) == costs.crossing(first));
      for (int h = g; h <= groups.num_layers(); ++h) {
        const int end = positions[at(h)];
        CHECK(groups.compute(0, g, h) == costs.compute(0, first, end));
        CHECK(groups.backward_input(0, g, h) ==
              costs.backward_input(0, first, end));
        CHECK(groups.update(0, g, h) == costs.update(0, first, end));
        CHECK(groups.parameters(g, h) == costs.parameters(first, end));
        CHECK(groups.kept(g, h) == costs.kept(first, end));
      }
    }
  }
}

}  // namespace pipewright
