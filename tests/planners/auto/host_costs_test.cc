// What a pipeline over groups of hosts costs, counted value by value.

#include "pipewright/planners/auto/host_costs.h"

#include <doctest/doctest.h>

#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

constexpr int kMicrobatch = 4;

// Whether a layer between two others needs what one of them all makes.
bool needs(const Profile& profile, std::size_t maker, std::size_t first,
           std::size_t end) {
  const std::vector<LayerId> storages = profile.storages();
  for (std::size_t l = first; l < end; ++l)
    for (LayerId input : profile.layers[l].inputs)
      if (storages[input.index()].index() == maker) return true;
  return false;
}

double bytes_crossing(const Profile& profile, std::size_t first,
                      std::size_t end) {
  const auto sizes =
      sizes_at(profile, kMicrobatch, Outside::Extrapolate).value();
  double bytes = 0;
  for (std::size_t maker = 0; maker < profile.layers.size(); ++maker) {
    const bool is_made_here = maker >= first && maker < end;
    const bool crosses = is_made_here
                             ? needs(profile, maker, end, profile.layers.size())
                             : needs(profile, maker, first, end);
    if (crosses) bytes += double(sizes[maker].output.value());
  }
  return bytes;
}

}  // namespace

TEST_CASE("stages exchange what crosses their ends") {
  RandomProblems random(31);
  int with_exchange = 0;
  for (int i = 0; i < 200; ++i) {
    CAPTURE(i);
    RandomProblem made = random.next(24);
    *made.cluster = load_cluster("6x2xV100@50MB/s/20MB/s").value();
    for (ProfileLayer& layer : made.profile->layers)
      layer.output_is_view = !layer.inputs.empty() && random.chance(5);
    auto table =
        CostTable::create(*made.profile, *made.cluster, kMicrobatch).value();
    // So slow that computing takes no time beside it.
    const HostIslands islands{6, 2, 1e-3, 0, 1, 0, false, Replication::Split};
    const HostCosts costs(made.problem, 1, islands, std::move(table));
    REQUIRE(costs.last() == int(made.profile->layers.size()));
    for (int first = 0; first < costs.last(); ++first)
      for (int end = first + 1; end <= costs.last(); ++end) {
        const double bytes =
            bytes_crossing(*made.profile, std::size_t(first), std::size_t(end));
        if (bytes == 0) {
          CHECK(costs.load(first, end) == costs.compute(first, end));
          continue;
        }
        ++with_exchange;
        CHECK(costs.load(first, end) ==
              doctest::Approx(bytes / 1e-3 * made.problem.minibatch /
                              kMicrobatch));
      }
  }
  CHECK(with_exchange > 2000);
}

}  // namespace pipewright
