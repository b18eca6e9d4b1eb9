// The search compared with all cut pairs of small chains, with costs computed
// independently from the profile.

#include "pipewright/planners/bi_partition/bi_partition_search.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <set>

#include "tests/planners/bi_partition/bi_partition_chain.h"

namespace pipewright {
namespace {

constexpr double kNoLimit = std::numeric_limits<double>::infinity();

struct SearchCase {
  Profile profile;
  Cluster cluster;
  Problem problem;
};

Problem search_problem(const Profile& profile, const Cluster& cluster,
                       int minibatch, Method method) {
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = minibatch;
  problem.microbatches = {1};
  problem.method = method;
  return problem;
}

// What one microbatch sends at a boundary of a chain.
struct Moved {
  double forward = 0, backward = 0;
};
Moved moved(const Problem& problem, int x, int y, bool light) {
  const Profile& profile = *problem.profile;
  const auto& sizes = profile.sizes.at(1);
  const auto output = [&](int layer) {
    return static_cast<double>(
        sizes[static_cast<std::size_t>(layer)].output.value());
  };
  Moved m{output(x - 1), output(y - 1)};
  std::set<int> tensors;  // saved outputs of layers
  double extra = 0, weights = 0;
  for (int l = std::min(x, y); l < std::max(x, y); ++l) {
    const auto i = static_cast<std::size_t>(l);
    weights += static_cast<double>(profile.parameters[i].bytes.value()) /
               problem.minibatch;
    if (light) continue;
    extra += static_cast<double>(sizes[i].keeps_private.value());
    if (l > 0 && profile.layers[i].keeps_input[0]) tensors.insert(l - 1);
    if (profile.layers[i].keeps_output) tensors.insert(l);
  }
  if (x > y) {
    tensors.erase(x - 1);  // the activation
    if (light) tensors.insert(y - 1);
  } else {
    tensors.erase(x - 1);  // made by the owner itself
  }
  for (int t : tensors) extra += output(t);
  if (x > y) {
    m.forward += extra;
    m.backward += weights;
  } else if (x < y) {
    m.forward += weights;
    m.backward += extra;
  }
  return m;
}

// All cut lists 0 < c1 < ... < L with that many stages.
void each_cuts(int layers, int stages,
               const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> cuts = {0};
  const std::function<void()> next = [&] {
    if (static_cast<int>(cuts.size()) == stages) {
      cuts.push_back(layers);
      visit(cuts);
      cuts.pop_back();
      return;
    }
    for (int c = cuts.back() + 1; c < layers; ++c) {
      cuts.push_back(c);
      next();
      cuts.pop_back();
    }
  };
  next();
}

bool is_allowed(const std::vector<int>& x, const std::vector<int>& y,
                int band) {
  for (std::size_t i = 1; i < x.size(); ++i)
    if (x[i - 1] > y[i] || y[i - 1] > x[i] || std::abs(x[i] - y[i]) > band)
      return false;
  return true;
}

double search_load(const Problem& problem, int first, int end, bool backward) {
  const auto& times = problem.profile->times.at("V100").at(1);
  double sum = 0;
  for (int l = first; l < end; ++l) {
    const LayerTimes& t = times[static_cast<std::size_t>(l)];
    sum += (backward ? t.backward() : t.forward).value();
  }
  return sum;
}

// The largest load or link of one plan; infinite if it does not fit.
double period_of(const Problem& problem, const BiPartitionCosts& costs,
                 const std::vector<int>& x, const std::vector<int>& y,
                 unsigned recompute, bool blocking) {
  const std::size_t stages = x.size() - 1;
  const auto recomputes = [&](std::size_t s) {
    return ((recompute >> s) & 1U) != 0;
  };
  const Link& link = *problem.cluster->link(DeviceId(0), DeviceId(1));
  std::vector<double> exchange(x.size(), 0.0);
  double period = 0;
  for (std::size_t b = 1; b < stages; ++b) {
    const bool light = x[b] == y[b]  ? false
                       : x[b] > y[b] ? recomputes(b)
                                     : recomputes(b - 1);
    const Moved m = moved(problem, x[b], y[b], light);
    period = std::max(period,
                      std::max(m.forward, m.backward) / link.bandwidth.value() +
                          link.latency.value());
    exchange[b] = (m.forward + m.backward) / link.bandwidth.value() +
                  2 * link.latency.value();
  }
  for (std::size_t s = 0; s < stages; ++s) {
    double load = search_load(problem, x[s], x[s + 1], false) +
                  search_load(problem, y[s], y[s + 1], true);
    if (recomputes(s)) load += search_load(problem, y[s], y[s + 1], false);
    if (blocking) load += exchange[s] + exchange[s + 1];
    period = std::max(period, load);
    const int behind = static_cast<int>(stages - 1 - s);
    if (costs.memory({x[s], y[s]}, {x[s + 1], y[s + 1]}, behind,
                     recomputes(s)) > costs.memory_limit(0))
      return kNoLimit;
  }
  return period;
}

double best_by_force(const Problem& problem, const BiPartitionCosts& costs,
                     int stages, int band, bool blocking) {
  double best = kNoLimit;
  const int layers = problem.profile->num_layers();
  each_cuts(layers, stages, [&](const std::vector<int>& x) {
    each_cuts(layers, stages, [&](const std::vector<int>& y) {
      if (!is_allowed(x, y, band)) return;
      for (unsigned r = 0; r < (1U << stages); ++r)
        best = std::min(best, period_of(problem, costs, x, y, r, blocking));
    });
  });
  return best;
}

bool same(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(a, b);
}

TEST_CASE("the search finds what trying all cut pairs finds") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    const int layers = 2 + static_cast<int>(random() % 6);
    const int workers = 2 + static_cast<int>(random() % 3);
    const int band = static_cast<int>(random() % 4);
    // A megabyte takes a millisecond, so links sometimes matter.
    const Profile profile = random_chain(layers, random, 9'000'000);
    const bool blocking = trial % 4 == 0;
    Cluster cluster = *load_cluster(std::to_string(workers) + "xV100@1GB/s");
    if (blocking) {
      std::string text = to_text(cluster);
      const std::string overlaps = "\"overlaps_communication\": true";
      const auto place = text.find(overlaps);
      REQUIRE(place != std::string::npos);
      text.replace(place, overlaps.size(), "\"overlaps_communication\": false");
      cluster = *parse_cluster(text, "blocking.json");
    }
    const Method methods[] = {Method::Sync, Method::Stash, Method::TwoBw};
    Problem problem =
        search_problem(profile, cluster, 1 + trial % 5, methods[trial % 3]);
    if (trial % 2 == 0)
      problem.memory_limit =
          Bytes(80'000'000 + static_cast<int>(random() % 60'000'000));
    BiPartitionOptions options;
    options.band = band;
    const BiPartitionCosts costs =
        *BiPartitionCosts::create(problem, 1, options);
    const double bound = communication_free_bound(costs);
    const BiPartitionSearch search(costs, kNoLimit, bound);
    for (int stages = 1; stages <= costs.num_workers(); ++stages) {
      const double expected =
          best_by_force(problem, costs, stages, band, blocking);
      const double found = search.bottleneck(stages).value_or(kNoLimit);
      CAPTURE(trial);
      CAPTURE(stages);
      CHECK(same(found, expected));
      CHECK(bound <= expected);
      const auto plan = search.best(stages);
      REQUIRE(plan.has_value() == (expected < kNoLimit));
      if (!plan) continue;
      std::vector<int> x, y;
      unsigned recompute = 0;
      for (const CutPair& cut : plan->cuts) {
        x.push_back(cut.x);
        y.push_back(cut.y);
      }
      for (std::size_t s = 0; s < plan->recompute.size(); ++s)
        if (plan->recompute[s]) recompute |= 1U << s;
      CHECK(is_allowed(x, y, band));
      CHECK(
          same(period_of(problem, costs, x, y, recompute, blocking), expected));
      if (band == 0) CHECK(x == y);
    }
  }
}

TEST_CASE("separate cuts are never slower than equal ones") {
  std::mt19937 random(11);
  int faster = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const Profile profile = random_chain(20, random, 2'000'000);
    const Cluster cluster = *load_cluster("4xV100@1GB/s");
    const Problem problem = search_problem(profile, cluster, 8, Method::Stash);
    double seconds[2];
    for (int i = 0; i < 2; ++i) {
      BiPartitionOptions options;
      options.band = i == 0 ? 0 : 6;
      const auto costs = *BiPartitionCosts::create(problem, 1, options);
      seconds[i] = *BiPartitionSearch(costs, kNoLimit, 0).bottleneck(4);
    }
    CHECK(seconds[1] <= seconds[0]);
    faster += seconds[1] < seconds[0] ? 1 : 0;
  }
  CHECK(faster > 0);
}

TEST_CASE("without communication the bound is the optimum over any two cuts") {
  std::mt19937 random(13);
  for (int trial = 0; trial < 40; ++trial) {
    const int layers = 1 + static_cast<int>(random() % 6), workers = 3;
    const Profile profile = random_chain(layers, random, 0);
    const Cluster cluster = *load_cluster("3xV100@1GB/s");
    const Problem problem = search_problem(profile, cluster, 4, Method::Stash);
    // Stages may be empty here, and regions far apart.
    double best = kNoLimit;
    const auto each = [&](const std::function<void(int, int)>& visit) {
      for (int a = 0; a <= layers; ++a)
        for (int b = a; b <= layers; ++b) visit(a, b);
    };
    each([&](int x1, int x2) {
      each([&](int y1, int y2) {
        const int x[] = {0, x1, x2, layers}, y[] = {0, y1, y2, layers};
        double most = 0;
        for (int s = 0; s < workers; ++s)
          most = std::max(most, search_load(problem, x[s], x[s + 1], false) +
                                    search_load(problem, y[s], y[s + 1], true));
        best = std::min(best, most);
      });
    });
    const auto costs = *BiPartitionCosts::create(problem, 1, {});
    if (costs.num_workers() < workers) continue;  // fewer layers than workers
    const double bound = communication_free_bound(costs);
    CHECK(bound <= best);
    CHECK(bound >= best * (1 - 1e-8));
  }
}

}  // namespace
}  // namespace pipewright
