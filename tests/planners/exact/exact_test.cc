// The exact search compared with every chain of downsets of small random graphs
// with CPUs, size limits, colours and backward nodes.

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>

#include "pipewright/base/index.h"
#include "pipewright/planners/exact/exact_placement.h"

namespace pipewright {
namespace {

struct Sizes {
  int nodes, accelerators, cpus;
};

// Whole numbers, so that loads have no rounding and ties are frequent.
ChainProblem random_placement(std::mt19937& random, const Sizes& sizes) {
  const auto below = [&](int n) {
    return static_cast<int>(random() % static_cast<unsigned>(n));
  };
  ChainProblem problem;
  problem.num_accelerators = sizes.accelerators;
  problem.num_cpus = sizes.cpus;
  problem.limit = below(3) == 0 ? kNever : 8 + below(25);
  problem.max_kept = 1 + below(3);
  const int density = 1 + below(4);
  for (int v = 0; v < sizes.nodes; ++v) {
    ChainNode node;
    node.accelerator = below(12) == 0 ? kNever : below(10);
    node.cpu = below(12) == 0 ? kNever : below(40);
    node.size = below(6);
    node.kept = below(3);
    problem.nodes.push_back(node);
    ChainTensor tensor{static_cast<double>(below(8)), {v}};
    for (int w = v + 1; w < sizes.nodes; ++w)
      if (below(8) < density) {
        problem.order.emplace_back(v, w);
        tensor.nodes.push_back(w);
      }
    if (tensor.nodes.size() > 1) problem.tensors.push_back(tensor);
  }
  return problem;
}

// The smallest largest load, by trying every chain; kNever if none fits.
class EveryChain {
 public:
  explicit EveryChain(const ChainProblem& problem) : problem_(problem) {
    const int n = static_cast<int>(problem.nodes.size());
    for (int set = 0; set < 1 << n; ++set)
      if (std::all_of(problem.order.begin(), problem.order.end(), [&](auto e) {
            return !(set >> e.second & 1) || set >> e.first & 1;
          }))
        downsets_.push_back(set);
  }

  double best(int set = 0, int accelerators = 0, int cpus = 0) const {
    const int all = (1 << problem_.nodes.size()) - 1;
    if (set == all) return 0;
    double least = kNever;
    for (int next : downsets_) {
      if ((next & set) != set || next == set) continue;
      std::vector<int> part;
      for (int v = 0; v < static_cast<int>(problem_.nodes.size()); ++v)
        if ((next & ~set) >> v & 1) part.push_back(v);
      if (accelerators < problem_.num_accelerators &&
          size_on(problem_, part, accelerators) <= problem_.limit) {
        const double load = accelerator_load(problem_, part);
        if (load < least)
          least = std::min(least,
                           std::max(load, best(next, accelerators + 1, cpus)));
      }
      if (cpus < problem_.num_cpus) {
        const double load = cpu_load(problem_, part);
        if (load < least)
          least = std::min(least,
                           std::max(load, best(next, accelerators, cpus + 1)));
      }
    }
    return least;
  }

 private:
  const ChainProblem& problem_;
  std::vector<int> downsets_;
};

void check_chain(const ChainProblem& problem, const ChainSolution& solution) {
  std::vector<int> part_of(problem.nodes.size(), -1);
  int accelerators = 0, cpus = 0;
  double largest = 0;
  for (std::size_t p = 0; p < solution.parts.size(); ++p) {
    const ChainPart& part = solution.parts[p];
    CHECK_FALSE(part.nodes.empty());
    for (int v : part.nodes) {
      CHECK(part_of[at(v)] == -1);
      part_of[at(v)] = static_cast<int>(p);
    }
    CHECK(part.load == load_of(problem, part));
    largest = std::max(largest, part.load);
    if (!part.on_cpu)
      CHECK(size_on(problem, part.nodes, accelerators) <= problem.limit);
    ++(part.on_cpu ? cpus : accelerators);
  }
  CHECK(std::count(part_of.begin(), part_of.end(), -1) == 0);
  CHECK(accelerators <= problem.num_accelerators);
  CHECK(cpus <= problem.num_cpus);
  for (auto [u, v] : problem.order) CHECK(part_of[at(u)] <= part_of[at(v)]);
  CHECK(solution.load == largest);
}

void compare(const ChainProblem& problem) {
  const double expected = EveryChain(problem).best();
  const auto solution = best_chain(problem);
  if (expected == kNever) {
    REQUIRE_FALSE(solution);
    CHECK(solution.error().code == ErrorCode::BadConfiguration);
    return;
  }
  REQUIRE(solution);
  CHECK(solution->proven);
  CHECK(solution->load == doctest::Approx(expected).epsilon(1e-11));
  CHECK(solution->lower_bound == solution->load);
  check_chain(problem, *solution);
}

}  // namespace

TEST_CASE("exact: equals every chain tried, accelerators alone") {
  std::mt19937 random(1);
  for (int round = 0; round < 1500; ++round) {
    CAPTURE(round);
    compare(random_placement(random, {1 + round % 8, 1 + round % 4, 0}));
  }
}

TEST_CASE("exact: equals every chain tried, with CPUs") {
  std::mt19937 random(2);
  for (int round = 0; round < 1000; ++round) {
    CAPTURE(round);
    compare(
        random_placement(random, {1 + round % 7, round % 4, 1 + round % 2}));
  }
}

TEST_CASE("exact: equals every chain tried, nine nodes on three devices") {
  std::mt19937 random(3);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    compare(random_placement(random, {9, 3, 0}));
    compare(random_placement(random, {9, 2, 1}));
  }
}

TEST_CASE("exact: one more device or more memory never hurts") {
  std::mt19937 random(4);
  for (int round = 0; round < 200; ++round) {
    CAPTURE(round);
    ChainProblem problem = random_placement(random, {14, 3, round % 2});
    const auto before = best_chain(problem);
    if (!before) continue;
    ++problem.num_accelerators;
    problem.limit += 5;
    const auto after = best_chain(problem);
    REQUIRE(after);
    CHECK(after->load <= before->load);
  }
}

TEST_CASE("exact: refuses a cycle and a graph beyond its size") {
  ChainProblem problem;
  problem.num_accelerators = 2;
  problem.nodes.resize(2);
  problem.order = {{0, 1}, {1, 0}};
  REQUIRE_FALSE(best_chain(problem));
  CHECK(best_chain(problem).error().to_text().find("cycle") !=
        std::string::npos);
  problem.order.clear();
  problem.nodes.resize(kMaxChainNodes + 1);
  CHECK_FALSE(best_chain(problem));
}

TEST_CASE("exact: stops at its limits, with a valid bound") {
  std::mt19937 random(5);
  ChainProblem problem;
  problem.num_accelerators = 4;
  for (int v = 0; v < 40; ++v) {
    problem.nodes.push_back({1.0 + random() % 1000, kNever, 0, 0});
    if (v % 2 == 1) {
      problem.order.emplace_back(v - 1, v);
      problem.tensors.push_back({1.0 + random() % 9, {v - 1, v}});
    }
  }
  const auto solution = best_chain(problem, {1000, 1000, {}});
  REQUIRE(solution);
  CHECK_FALSE(solution->proven);
  CHECK(solution->lower_bound <= solution->load);
  check_chain(problem, *solution);
}

TEST_CASE("exact: colours share a device, and so do cycles through them") {
  // a -> b -> c with a and c of one colour: all three are one group.
  PlacementInstance instance;
  instance.max_accelerators = 2;
  instance.max_size = 100;
  for (int v = 0; v < 4; ++v) {
    PlacementNode node;
    node.id = 10 + v;
    node.accelerator_latency = 1 + v;
    node.cost = 0.5;
    instance.nodes.push_back(node);
  }
  instance.nodes[0].color_class = instance.nodes[2].color_class = 7;
  instance.edges = {{0, 1, -1}, {1, 2, -1}, {2, 3, -1}};
  const GroupedInstance groups = grouped(instance);
  REQUIRE(groups.groups.size() == 2);
  CHECK(groups.groups[0] == std::vector<int>{0, 1, 2});
  const auto solution = best_chain(groups.problem);
  REQUIRE(solution);
  const PlacementSplit split = split_of(instance, groups, solution->parts);
  const auto expected = loads(instance, split);
  REQUIRE(expected);
  CHECK(*std::max_element(expected->begin(), expected->end()) ==
        doctest::Approx(solution->load));
  CHECK(solution->load == doctest::Approx(6.5));
}

}  // namespace pipewright
