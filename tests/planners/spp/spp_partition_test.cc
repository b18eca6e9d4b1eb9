// SPP's partition compared with exhaustive search, with independent formulas
// for channel and all-reduce of the paper's model.

#include "pipewright/planners/spp/spp_partition.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

namespace pipewright {
namespace {

// pf+pb, parameters and df+db by layer; bandwidths by pair.
struct Instance {
  int microbatches = 1;
  std::vector<double> times, parameters, crossing;
  std::vector<std::vector<double>> b;

  int layers() const { return static_cast<int>(times.size()); }
  int devices() const { return static_cast<int>(b.size()); }

  double narrowest(int a0, int a1, int b0, int b1) const {
    double least = kNoPartition;
    for (int u = a0; u < a1; ++u)
      for (int v = b0; v < b1; ++v)
        if (u != v)
          least = std::min(
              least,
              b[static_cast<std::size_t>(u)][static_cast<std::size_t>(v)]);
    return least;
  }
  static double sum(const std::vector<double>& of, int first, int end) {
    double total = 0;
    for (int i = first; i < end; ++i) total += of[static_cast<std::size_t>(i)];
    return total;
  }
  double stage(int first, int end, int device, int device_end) const {
    const double r = device_end - device;
    double load = microbatches * sum(times, first, end) / r;
    if (r > 1)
      load += 2 * (r - 1) / r * sum(parameters, first, end) /
              narrowest(device, device_end, device, device_end);
    return load;
  }
  double channel(int cut, int a, int b_, int c) const {
    return microbatches * crossing[static_cast<std::size_t>(cut)] /
           ((b_ - a) * (c - b_) * narrowest(a, b_, b_, c));
  }
};

PartitionProblem mapping_problem(const Instance& in) {
  PartitionProblem problem;
  problem.resize(in.layers(), in.devices());
  problem.crossing = in.crossing;
  const int n = in.devices();
  for (int a = 0; a < n; ++a)
    for (int b = a + 1; b <= n; ++b) {
      auto& range = problem.ranges[problem.range_index(a, b)];
      for (int l = 0; l <= in.layers(); ++l)
        range.load.push_back(in.stage(0, l, a, b));
      for (int c = b + 1; c <= n; ++c)
        problem.channels[problem.channel_index(a, b, c)].per_byte =
            in.microbatches / ((b - a) * (c - b) * in.narrowest(a, b, b, c));
    }
  return problem;
}

Instance random_mapping(std::mt19937& random, int layers, int devices) {
  const auto number = [&](int most) {
    return 1.0 + static_cast<double>(random() % static_cast<unsigned>(most));
  };
  Instance in;
  in.microbatches = 1 + static_cast<int>(random() % 8);
  for (int l = 0; l < layers; ++l) {
    in.times.push_back(number(20));
    in.parameters.push_back(number(100));
    in.crossing.push_back(number(50));
  }
  in.crossing.push_back(0);
  in.b.assign(static_cast<std::size_t>(devices),
              std::vector<double>(static_cast<std::size_t>(devices), 0));
  for (std::size_t i = 0; i < in.b.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) in.b[i][j] = in.b[j][i] = number(30);
  return in;
}

// By (stages, first device, end of the first stage): all ways to go on.
using Least = std::map<std::vector<int>, double>;
void extend(const Instance& in, std::vector<PartitionStage>& stages,
            double load, Least& least, int held_limit) {
  const int layer = stages.empty() ? 0 : stages.back().end_layer;
  const int device = stages.empty() ? 0 : stages.back().end_device;
  if (layer == in.layers()) {
    if (device != in.devices()) return;
    // What 1F1B holds: as many microbatches as stages are left.
    const int k = static_cast<int>(stages.size());
    for (int s = 0; s < k; ++s)
      if (held_limit > 0 && (stages[static_cast<std::size_t>(s)].end_layer -
                             stages[static_cast<std::size_t>(s)].first_layer) *
                                    (k - s) >
                                held_limit)
        return;
    const std::vector<int> key = {k, stages.front().first_device,
                                  stages.front().end_device};
    const auto [known, is_new] = least.try_emplace(key, load);
    known->second = std::min(known->second, load);
    return;
  }
  const int first_start = stages.empty() ? in.devices() - 1 : device;
  for (int start = device; start <= first_start; ++start)
    for (int end = start + 1; end <= in.devices(); ++end)
      for (int cut = layer + 1; cut <= in.layers(); ++cut) {
        double more = std::max(load, in.stage(layer, cut, start, end));
        if (!stages.empty())
          more = std::max(more, in.channel(layer, stages.back().first_device,
                                           stages.back().end_device, end));
        stages.push_back({start, end, layer, cut});
        extend(in, stages, more, least, held_limit);
        stages.pop_back();
      }
}

double mapping_load(const Instance& in,
                    const std::vector<PartitionStage>& stages) {
  double load = 0;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    load =
        std::max(load, in.stage(stages[s].first_layer, stages[s].end_layer,
                                stages[s].first_device, stages[s].end_device));
    if (s > 0)
      load = std::max(
          load, in.channel(stages[s].first_layer, stages[s - 1].first_device,
                           stages[s].first_device, stages[s].end_device));
  }
  return load;
}

void compare_mappings(const Instance& in, const PartitionProblem& problem,
                      int held_limit) {
  std::vector<PartitionStage> none;
  Least least;
  extend(in, none, 0, least, held_limit);
  const Partition partition(problem);
  for (int k = 1; k <= std::min(in.layers(), in.devices()); ++k)
    for (int first = 0; first < in.devices(); ++first)
      for (int end = first + 1; end <= in.devices(); ++end) {
        const auto known = least.find({k, first, end});
        const double load = partition.load(k, first, end);
        if (known == least.end()) {
          CHECK(load == kNoPartition);
          continue;
        }
        REQUIRE(load == doctest::Approx(known->second).epsilon(1e-12));
        const auto stages = partition.stages(k, first, end);
        CHECK(static_cast<int>(stages.size()) == k);
        CHECK(mapping_load(in, stages) == doctest::Approx(load).epsilon(1e-12));
      }
}

TEST_CASE("equal to exhaustive search over layer cuts and device cuts") {
  std::mt19937 random(3);
  for (int round = 0; round < 200; ++round) {
    const Instance in =
        random_mapping(random, 1 + static_cast<int>(random() % 6),
                       1 + static_cast<int>(random() % 5));
    compare_mappings(in, mapping_problem(in), 0);
  }
}

TEST_CASE("equal to exhaustive search within a limit on what 1F1B holds") {
  std::mt19937 random(4);
  for (int round = 0; round < 150; ++round) {
    const Instance in =
        random_mapping(random, 1 + static_cast<int>(random() % 6),
                       1 + static_cast<int>(random() % 5));
    const int limit = 2 + static_cast<int>(random() % 5);
    PartitionProblem problem = mapping_problem(in);
    problem.farthest = [&](int stages, int, int) {
      std::vector<int> farthest;
      for (int l = 0; l < in.layers(); ++l)
        farthest.push_back(std::min(in.layers(), l + limit / stages));
      return farthest;
    };
    compare_mappings(in, problem, limit);
  }
}

// The recurrence of spp_partition.h word by word: for every layer each cut.
class PlainRecurrence {
 public:
  explicit PlainRecurrence(const PartitionProblem& problem)
      : problem_(problem) {}

  double load(int stages, int first, int end, int layer) const {
    const auto known = known_.find({stages, first, end, layer});
    if (known != known_.end()) return known->second;
    const double found = stages == 1 ? last(first, end, layer)
                                     : least(stages, first, end, layer);
    return known_[{stages, first, end, layer}] = found;
  }
  double load_with(int stages, int first, int end, int layer, int cut) const {
    double best = kNoPartition;
    for (int c = end + 1; c <= problem_.num_devices; ++c) {
      const double through =
          problem_.crossing[std::size_t(cut)] *
          problem_.channels[problem_.channel_index(first, end, c)].per_byte;
      best = std::min(best, std::max({stage(first, end, layer, cut), through,
                                      load(stages - 1, end, c, cut)}));
    }
    return best;
  }

 private:
  const PartitionProblem::Range& range(int first, int end) const {
    return problem_.ranges[problem_.range_index(first, end)];
  }
  int farthest(int stages, int first, int end, int layer) const {
    return problem_.farthest(stages, first, end)[std::size_t(layer)];
  }
  double stage(int first, int end, int layer, int cut) const {
    const auto& load = range(first, end).load;
    return load[std::size_t(cut)] - load[std::size_t(layer)];
  }
  double last(int first, int end, int layer) const {
    const int n = problem_.num_layers;
    return end == problem_.num_devices && farthest(1, first, end, layer) >= n
               ? stage(first, end, layer, n)
               : kNoPartition;
  }
  double least(int stages, int first, int end, int layer) const {
    double best = kNoPartition;
    const int last =
        std::min(problem_.num_layers - 1, farthest(stages, first, end, layer));
    for (int cut = layer + 1; cut <= last; ++cut)
      best = std::min(best, load_with(stages, first, end, layer, cut));
    return best;
  }

  const PartitionProblem& problem_;
  mutable std::map<std::vector<int>, double> known_;
};

// Whole numbers, of which many are equal or zero, so that sums are exact; some
// of many layers with cuts that are all alike, and limits that go up and down.
TEST_CASE("equal to the recurrence word by word for many layers") {
  std::mt19937 random(7);
  int with_partition = 0;
  for (int round = 0; round < 120; ++round) {
    const int n = 1 + static_cast<int>(random() % 40), devices = 4;
    const unsigned wide = random() % 4 == 0 ? 1 : 60;
    const int free_layers = static_cast<int>(random() % 3);
    PartitionProblem problem;
    problem.resize(n, devices);
    for (double& bytes : problem.crossing) bytes = double(random() % wide);
    for (int a = 0; a < devices; ++a)
      for (int b = a + 1; b <= devices; ++b) {
        auto& load = problem.ranges[problem.range_index(a, b)].load;
        load.push_back(0);
        for (int l = 0; l < n; ++l)
          load.push_back(load.back() +
                         double(l % 3 < free_layers ? 0 : random() % 8));
        for (int c = b + 1; c <= devices; ++c)
          problem.channels[problem.channel_index(a, b, c)].per_byte =
              double(1 + random() % 2);
      }
    std::vector<std::vector<int>> limits(64);
    for (auto& each : limits)
      for (int l = 0; l < n; ++l)
        each.push_back(random() % 2 ? n : l + static_cast<int>(random() % 9));
    problem.farthest = [&](int k, int first, int end) {
      return limits[std::size_t((k * 5 + first) * 5 + end) % limits.size()];
    };
    const Partition partition(problem);
    const PlainRecurrence plain(problem);
    for (int k = 1; k <= std::min(n, devices); ++k)
      for (int first = 0; first < devices; ++first)
        for (int end = first + 1; end <= devices; ++end) {
          const double load = partition.load(k, first, end);
          REQUIRE(load == plain.load(k, first, end, 0));
          if (load == kNoPartition) continue;
          ++with_partition;
          // Of equal cuts the first.
          const int first_cut = partition.stages(k, first, end)[0].end_layer;
          for (int cut = 1; cut < first_cut && k > 1; ++cut)
            CHECK(plain.load_with(k, first, end, 0, cut) > load);
        }
  }
  CHECK(with_partition > 500);
}

TEST_CASE("more bandwidth never makes the least load larger") {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    Instance in = random_mapping(random, 6, 4);
    const PartitionProblem before = mapping_problem(in);
    const std::size_t i = random() % 4, j = (i + 1 + random() % 3) % 4;
    in.b[i][j] = in.b[j][i] = in.b[i][j] * 3;
    const PartitionProblem after = mapping_problem(in);
    const Partition slow(before), fast(after);
    for (int k = 1; k <= 4; ++k)
      for (int end = 1; end <= 4; ++end)
        if (slow.load(k, 0, end) < kNoPartition)
          CHECK(fast.load(k, 0, end) <= slow.load(k, 0, end) * (1 + 1e-12));
  }
}

TEST_CASE("devices without a link are not neighbours") {
  std::mt19937 random(6);
  Instance in = random_mapping(random, 4, 2);
  PartitionProblem problem = mapping_problem(in);
  problem.channels[problem.channel_index(0, 1, 2)].per_byte = kNoPartition;
  problem.ranges[problem.range_index(0, 2)].load.clear();
  const Partition partition(problem);
  CHECK(partition.load(1, 0, 2) == kNoPartition);
  CHECK(partition.load(2, 0, 1) == kNoPartition);
  CHECK(partition.load(1, 1, 2) < kNoPartition);  // one device alone
}

}  // namespace
}  // namespace pipewright
