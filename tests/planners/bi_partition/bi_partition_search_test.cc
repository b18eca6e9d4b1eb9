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

#include "pipewright/cluster/sum_rounds.h"
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

// What one microbatch sends at a boundary of a chain: tensors, which replicas
// share, and weights, which they do not.
struct Moved {
  double forward = 0, backward = 0;
  double forward_weights = 0, backward_weights = 0;
};
Moved moved(const Problem& problem, int x, int y, bool light) {
  const Profile& profile = *problem.profile;
  const int layers = profile.num_layers();
  const auto& sizes = profile.sizes.at(1);
  const auto output = [&](int layer) {
    return static_cast<double>(
        sizes[static_cast<std::size_t>(layer)].output.value());
  };
  const auto crossing = [&](int cut) {
    return cut > 0 && cut < layers ? output(cut - 1) : 0.0;
  };
  Moved m{crossing(x), crossing(y)};
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
  // The activation is there already. An earlier owner made it, a later one
  // receives it if any layer is left to read it.
  if (x < y || x < layers) tensors.erase(x - 1);
  if (x > y && light && y > 0) tensors.insert(y - 1);
  for (int t : tensors) extra += output(t);
  if (x > y) {
    m.forward += extra;
    m.backward_weights = weights;
  } else if (x < y) {
    m.forward_weights = weights;
    m.backward += extra;
  }
  return m;
}

// All lists of `count` numbers that do not fall, from `first` to at most
// `last`.
void each_list(int count, int first, int last,
               const std::function<void(const std::vector<int>&)>& visit) {
  std::vector<int> list;
  const std::function<void()> next = [&] {
    if (static_cast<int>(list.size()) == count) return visit(list);
    for (int v = list.empty() ? first : list.back(); v <= last; ++v) {
      list.push_back(v);
      next();
      list.pop_back();
    }
  };
  next();
}

// All cut lists 0 <= c1 <= ... <= L with that many stages, which may be empty.
void each_cuts(int layers, int stages,
               const std::function<void(const std::vector<int>&)>& visit) {
  each_list(stages - 1, 0, layers, [&](std::vector<int> cuts) {
    cuts.insert(cuts.begin(), 0);
    cuts.push_back(layers);
    visit(cuts);
  });
}

// A plan as the test sees it.
struct Pairs {
  std::vector<int> x, y;      // one more than stages
  std::vector<int> replicas;  // by stage
  unsigned recompute = 0;     // bit per stage

  int num_stages() const { return static_cast<int>(replicas.size()); }
  bool recomputes(int s) const {
    return ((recompute >> static_cast<unsigned>(s)) & 1U) != 0;
  }
};

int stage_at(const std::vector<int>& cuts, int layer) {
  int s = 0;
  while (cuts[static_cast<std::size_t>(s) + 1] <= layer) ++s;
  return s;
}

// The rules of BiPartitionSearch, layer by layer.
bool is_allowed(const Pairs& plan, int band) {
  for (std::size_t s = 0; s + 1 < plan.x.size(); ++s) {
    const bool no_forward = plan.x[s] == plan.x[s + 1];
    const bool no_backward = plan.y[s] == plan.y[s + 1];
    if (no_forward && no_backward) return false;
    if (no_backward && plan.recomputes(static_cast<int>(s))) return false;
    if (std::abs(plan.x[s] - plan.y[s]) > band) return false;
  }
  for (int l = 0; l < plan.x.back(); ++l) {
    const int f = stage_at(plan.x, l), b = stage_at(plan.y, l);
    if (std::abs(f - b) > 1 && plan.recomputes(b)) return false;
    for (int s = std::min(f, b) + 1; s < std::max(f, b); ++s)
      if (plan.recomputes(s)) return false;
  }
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
                 const Pairs& plan, bool blocking) {
  const int stages = plan.num_stages();
  const Link& link = *problem.cluster->link(DeviceId(0), DeviceId(1));
  const double bandwidth = link.bandwidth.value(),
               latency = link.latency.value();
  std::vector<double> exchange(plan.x.size(), 0.0);  // by stage
  double period = 0;
  const auto cut = [](const std::vector<int>& cuts, int b) {
    return cuts[static_cast<std::size_t>(b)];
  };
  const auto replicas = [&](int s) {
    return plan.replicas[static_cast<std::size_t>(s)];
  };
  for (int b = 1; b < stages; ++b) {
    const int x = cut(plan.x, b), y = cut(plan.y, b);
    const bool light = x != y && plan.recomputes(x > y ? b : b - 1);
    const Moved m = moved(problem, x, y, light);
    const int r = std::min(replicas(b - 1), replicas(b));
    period = std::max(period, std::max(m.forward / r + m.forward_weights,
                                       m.backward / r + m.backward_weights) /
                                      bandwidth +
                                  latency);
    for (int s : {b - 1, b})
      exchange[static_cast<std::size_t>(s)] +=
          ((m.forward + m.backward) / replicas(s) + m.forward_weights +
           m.backward_weights) /
              bandwidth +
          2 * latency;
  }
  int device = costs.num_devices();
  for (int r : plan.replicas) device -= r;
  for (int s = 0; s < stages; ++s) {
    const int x = cut(plan.x, s), x2 = cut(plan.x, s + 1);
    const int y = cut(plan.y, s), y2 = cut(plan.y, s + 1), r = replicas(s);
    double load = (search_load(problem, x, x2, false) +
                   search_load(problem, y, y2, true)) /
                  r;
    double parameters = 0;
    for (int l = y; l < y2; ++l)
      parameters += static_cast<double>(
          problem.profile->parameters[static_cast<std::size_t>(l)]
              .bytes.value());
    if (y < y2)
      load += (2.0 * (r - 1) / r * parameters / bandwidth +
               sum_rounds(r) * latency) /
              problem.minibatch;
    if (plan.recomputes(s)) load += search_load(problem, y, y2, false) / r;
    if (blocking) load += exchange[static_cast<std::size_t>(s)];
    period = std::max(period, load);
    if (costs.memory({x, y}, {x2, y2}, r, stages - 1 - s, plan.recomputes(s)) >
        costs.memory_limit({device, r}))
      return kNoLimit;
    device += r;
  }
  return period;
}

struct SearchOptions {
  int band = 0, max_replicas = 1;
  bool blocking = false, may_recompute = true;
};

double best_by_force(const Problem& problem, const BiPartitionCosts& costs,
                     int stages, int devices, SearchOptions options) {
  double best = kNoLimit;
  const int layers = problem.profile->num_layers();
  std::vector<std::vector<int>> replicas;  // sums: where the next stage starts
  each_list(stages - 1, 1, devices - 1, [&](std::vector<int> sums) {
    sums.insert(sums.begin(), 0);
    sums.push_back(devices);
    for (std::size_t i = sums.size() - 1; i > 0; --i) sums[i] -= sums[i - 1];
    sums.erase(sums.begin());
    const bool fine = std::all_of(sums.begin(), sums.end(), [&](int r) {
      return r >= 1 && r <= options.max_replicas;
    });
    if (fine) replicas.push_back(sums);
  });
  each_cuts(layers, stages, [&](const std::vector<int>& x) {
    each_cuts(layers, stages, [&](const std::vector<int>& y) {
      if (!is_allowed({x, y, {}, 0}, options.band)) return;
      const unsigned flags =
          options.may_recompute ? 1U << static_cast<unsigned>(stages) : 1;
      for (unsigned r = 0; r < flags; ++r) {
        if (!is_allowed({x, y, {}, r}, options.band)) continue;
        for (const auto& counts : replicas)
          best = std::min(best, period_of(problem, costs, {x, y, counts, r},
                                          options.blocking));
      }
    });
  });
  return best;
}

bool same(double a, double b) {
  return a == b || std::abs(a - b) <= 1e-9 * std::max(a, b);
}

Cluster without_overlap(const Cluster& cluster) {
  std::string text = to_text(cluster);
  const std::string overlaps = "\"overlaps_communication\": true";
  const auto place = text.find(overlaps);
  REQUIRE(place != std::string::npos);
  text.replace(place, overlaps.size(), "\"overlaps_communication\": false");
  return *parse_cluster(text, "blocking.json");
}

// The plan has the period that was found, and follows the rules.
void check_plan_of(const BiPartition& found, const Problem& problem,
                   const BiPartitionCosts& costs, double expected,
                   SearchOptions options) {
  Pairs plan;
  for (const CutPair& cut : found.cuts) {
    plan.x.push_back(cut.x);
    plan.y.push_back(cut.y);
  }
  plan.replicas = found.replicas;
  for (std::size_t s = 0; s < found.recompute.size(); ++s)
    if (found.recompute[s]) plan.recompute |= 1U << s;
  CHECK(is_allowed(plan, options.band));
  if (!options.may_recompute) CHECK(plan.recompute == 0);
  CHECK(same(period_of(problem, costs, plan, options.blocking), expected));
  if (options.band == 0) CHECK(plan.x == plan.y);
}

bool has_empty_side(const BiPartition& plan) {
  for (std::size_t s = 0; s + 1 < plan.cuts.size(); ++s)
    if (plan.cuts[s].x == plan.cuts[s + 1].x ||
        plan.cuts[s].y == plan.cuts[s + 1].y)
      return true;
  return false;
}

TEST_CASE("the search finds what trying all cut pairs finds") {
  std::mt19937 random(7);
  int empty_sides = 0, with_replicas = 0;
  for (int trial = 0; trial < 300; ++trial) {
    SearchOptions options;
    options.max_replicas = 1 + trial % 3;
    const int layers =
        1 + static_cast<int>(random() % (options.max_replicas > 1 ? 4 : 6));
    const int workers = 2 + static_cast<int>(random() % 3);
    options.band = static_cast<int>(random() % 4);
    options.blocking = trial % 4 == 0;
    options.may_recompute = trial % 5 != 0;
    // A megabyte takes a millisecond, so links sometimes matter.
    const Profile profile = random_chain(layers, random, 9'000'000);
    Cluster cluster = *load_cluster(std::to_string(workers) + "xV100@1GB/s");
    if (options.blocking) cluster = without_overlap(cluster);
    const Method methods[] = {Method::Sync, Method::Stash, Method::TwoBw};
    Problem problem =
        search_problem(profile, cluster, 1 + trial % 5, methods[trial % 3]);
    if (trial % 2 == 0)
      problem.memory_limit =
          Bytes(80'000'000 + static_cast<int>(random() % 60'000'000));
    BiPartitionOptions given;
    given.band = options.band;
    given.max_replicas = options.max_replicas;
    given.may_recompute = options.may_recompute;
    const BiPartitionCosts costs = *BiPartitionCosts::create(problem, 1, given);
    const double bound = communication_free_bound(costs);
    const BiPartitionSearch search(costs, kNoLimit, bound);
    for (int stages = 1; stages <= costs.num_devices(); ++stages)
      for (int devices = stages; devices <= costs.num_devices(); ++devices) {
        const double expected =
            best_by_force(problem, costs, stages, devices, options);
        const double found =
            search.bottleneck(stages, devices).value_or(kNoLimit);
        CAPTURE(trial);
        CAPTURE(stages);
        CAPTURE(devices);
        CHECK(same(found, expected));
        CHECK(bound <= expected);
        const auto plan = search.best(stages, devices);
        REQUIRE(plan.has_value() == (expected < kNoLimit));
        if (!plan) continue;
        check_plan_of(*plan, problem, costs, expected, options);
        empty_sides += has_empty_side(*plan) ? 1 : 0;
        with_replicas += devices > stages ? 1 : 0;
      }
  }
  CHECK(empty_sides > 100);
  CHECK(with_replicas > 100);
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
      seconds[i] = *BiPartitionSearch(costs, kNoLimit, 0).bottleneck(4, 4);
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
    if (costs.num_devices() < workers) continue;  // fewer layers than workers
    const double bound = communication_free_bound(costs);
    CHECK(bound <= best);
    CHECK(bound >= best * (1 - 1e-8));
  }
}

}  // namespace
}  // namespace pipewright
