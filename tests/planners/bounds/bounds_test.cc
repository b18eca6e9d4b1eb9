// Lower bounds compared with the best of every pipeline of small problems, and
// with values by hand.

#include "pipewright/planners/bounds/bounds.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "tests/planners/every_pipeline.h"
#include "tests/planners/random_problems.h"

namespace pipewright {

TEST_CASE("no pipeline of 2,000 small problems beats a bound") {
  RandomProblems random(71);
  int solved = 0, tight = 0;
  for (int i = 0; i < 2000; ++i) {
    RandomProblem made = random.next(3);
    Problem& problem = made.problem;
    problem.microbatches = {4, 8};
    problem.method = i % 4 == 3 ? Method::Stash : Method::Sync;
    if (made.cluster->num_devices() > 3) continue;
    CAPTURE(i);
    const Seconds best = fastest_pipeline(problem);
    const Bounds bounds = bounds_of(problem);
    if (best == Seconds::max()) continue;
    ++solved;
    const double least = best.value() * (1 + 1e-9);
    CHECK(bounds.work.value() <= least);
    CHECK(bounds.layer.value() <= least);
    CHECK(bounds.path.value() <= least);
    CHECK(bounds.slices.value() <= least);
    CHECK(bounds.link.value() <= least);
    CHECK(bounds.memory.value() <= least);
    CHECK(bounds.replicas.value() <= least);
    CHECK(bounds.cards.value() <= least);
    tight += bounds.largest().value() >= 0.999 * best.value();
  }
  CHECK(solved > 1000);
  CHECK(tight > 20);  // a bound is sometimes reached
}

// How often the bound on replicas is the sharpest, and how near it then comes.
struct ReplicaBoundCount {
  int solved = 0, sharper = 0, tight = 0;
  bool separate_cuts = false;  // for backward

  void add(Problem& problem) {
    problem.microbatches = {4, 8};
    problem.memory_limit = Bytes(0);
    problem.estimate = simulating_estimator(problem);
    const Seconds best = fastest_pipeline(problem, separate_cuts);
    const Bounds bounds = bounds_of(problem);
    REQUIRE(best < Seconds::max());
    CHECK(bounds.replicas.value() <= best.value() * (1 + 1e-9));
    CHECK(bounds.cards.value() <= best.value() * (1 + 1e-9));
    const Seconds others =
        std::max({bounds.work, bounds.layer, bounds.path, bounds.slices,
                  bounds.link, bounds.memory});
    const bool is_sharper = bounds.replicas > others * 1.01;
    ++solved;
    sharper += is_sharper;
    tight += is_sharper && bounds.replicas.value() > 0.9 * best.value();
  }
  std::string to_text() const {
    return std::to_string(solved) + " solved, " + std::to_string(sharper) +
           " sharper, " + std::to_string(tight) + " of them within 10 %";
  }
};

TEST_CASE("no pipeline with heavy weights beats the bound on its replicas") {
  RandomProblems random(74);
  ReplicaBoundCount count;
  for (int i = 0; i < 600; ++i) {
    RandomProblem made = random.next(3);
    Problem& problem = made.problem;
    if (made.cluster->num_devices() > 3) continue;
    for (ProfileParameter& parameter : made.profile->parameters)
      parameter.bytes = parameter.bytes * std::int64_t{random.number(1, 100)};
    problem.method = i % 3 == 2 ? Method::Stash : Method::Sync;
    CAPTURE(i);
    count.add(problem);
  }
  MESSAGE(count.to_text());
  CHECK(count.solved > 300);
  CHECK(count.sharper > 10);
  CHECK(count.tight > 0);
}

TEST_CASE("no pipeline over links with latency beats the bound on replicas") {
  RandomProblems random(77);
  const char* const clusters[] = {"2xV100@50MB/s+5ms", "3xV100@20MB/s+20ms",
                                  "3xV100@100MB/s+2ms",
                                  "2x2xV100@1GB/s/50MB/s+10ms"};
  ReplicaBoundCount count;
  for (int i = 0; i < 2000; ++i) {
    RandomProblem made = random.next(i % 4 == 3 ? 2 : 3);
    Problem& problem = made.problem;
    *made.cluster = load_cluster(clusters[i % 4]).value();
    problem.method = i % 5 == 4 ? Method::Stash : Method::Sync;
    CAPTURE(i);
    count.add(problem);
  }
  MESSAGE(count.to_text());
  CHECK(count.sharper > 100);
  CHECK(count.tight > 10);
}

// Forwards that take long and backwards that take nearly nothing are what
// separate cuts are for.
TEST_CASE("no pipeline with other cuts for backward beats the bound") {
  RandomProblems random(81);
  const char* const clusters[] = {"2xV100@50MB/s+5ms", "3xV100@1GB/s+20ms",
                                  "3xV100@20MB/s+2ms",
                                  "2x2xV100@1GB/s/50MB/s+10ms"};
  ReplicaBoundCount count;
  count.separate_cuts = true;
  for (int i = 0; i < 2000; ++i) {
    RandomProblem made = random.next(i % 4 == 3 ? 2 : 3);
    *made.cluster = load_cluster(clusters[i % 4]).value();
    for (auto& [kind, tables] : made.profile->times)
      for (auto& [size, rows] : tables)
        for (LayerTimes& row : rows)
          row.forward = row.forward * double(random.number(1, 10));
    for (ProfileParameter& parameter : made.profile->parameters)
      parameter.bytes = parameter.bytes * std::int64_t{random.number(1, 30)};
    CAPTURE(i);
    count.add(made.problem);
  }
  MESSAGE(count.to_text());
  CHECK(count.sharper > 100);
  CHECK(count.tight > 10);
}

// Heavy weights on few hosts, whose inputs are computed on others.
TEST_CASE("no pipeline whose inputs come over slow cards beats the bound") {
  RandomProblems random(83);
  const char* const clusters[] = {
      "2xV100@20MB/s+1ms", "2x2xV100@200MB/s/20MB/s", "3xV100@5MB/s",
      "2x2xV100@1GB/s/5MB/s+3ms", "3x1xV100@1GB/s/10MB/s+1ms"};
  for (const bool separate_cuts : {false, true}) {
    ReplicaBoundCount count;
    count.separate_cuts = separate_cuts;
    for (int i = 0; i < 1500; ++i) {
      RandomProblem made = random.next(i % 5 % 2 == 1 ? 2 : 3);
      *made.cluster = load_cluster(clusters[i % 5]).value();
      for (ProfileLayer& layer : made.profile->layers)
        layer.keeps_input.assign(layer.inputs.size(), true);
      for (auto& [kind, tables] : made.profile->times)
        for (auto& [size, rows] : tables)
          rows[0].forward = rows[0].forward * double(random.number(1, 10));
      for (ProfileParameter& parameter : made.profile->parameters)
        parameter.bytes = parameter.bytes * std::int64_t{random.number(1, 50)};
      made.problem.method = i % 7 == 6 ? Method::Stash : Method::Sync;
      CAPTURE(i);
      count.add(made.problem);
    }
    MESSAGE(count.to_text());
    CHECK(count.sharper > 100);
    CHECK(count.tight > 10);
  }
}

TEST_CASE("the inputs of a layer come before its gradients are summed") {
  RandomProblems random(84);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(100'000'000));
  profile.layers[0].keeps_output = false;
  profile.layers[1].keeps_input = {true};
  profile.sizes = {{1,
                    {{Bytes(1'000'000), Bytes(0), Bytes(0)},
                     {Bytes(4), Bytes(0), Bytes(0)}}}};
  const Seconds zero(0), one(1);
  profile.times = {
      {"V100", {{1, {{one, zero, zero, zero}, {zero, zero, zero, one}}}}}};
  *made.cluster = load_cluster("2x2xV100@1GB/s/1MB/s").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {1};
  problem.memory_limit = Bytes(0);
  // To sum over two hosts takes 100 s. One host receives a sample per second
  // from second 1 to t, and computes the others on two devices in t seconds:
  // 8 - (t - 1) = 2 t, so t = 3. Then it updates for 1 s.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(4).epsilon(1e-4));
  profile.layers[1].keeps_input = {false};
  // Without its input, only the work precedes the update.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(3).epsilon(1e-4));
}

TEST_CASE("a ring of many devices carries more than one of many hosts") {
  RandomProblems random(85);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(2'000'000));
  // What passes between the layers takes 1,000 s per sample to send.
  profile.sizes = {{1,
                    {{Bytes(1'000'000'000), Bytes(0), Bytes(0)},
                     {Bytes(4), Bytes(0), Bytes(0)}}}};
  const Seconds zero(0), one(1);
  profile.times = {
      {"V100",
       {{1, {{zero, zero, Seconds(2), zero}, {zero, zero, one, zero}}}}}};
  *made.cluster = load_cluster("2x4xV100@1GB/s/1MB/s").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {8};
  problem.memory_limit = Bytes(0);
  // One host would compute for 24/4 s. On two, r devices compute for 8/r s and
  // sum for 2 (r - 1)/r times 2 s: r = 8 is best, although two suffice to have
  // both hosts.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(1 + 3.5).epsilon(1e-4));
}

TEST_CASE("devices with a layer's backward have its forward, or send weights") {
  RandomProblems random(82);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(4));
  const Seconds zero(0), one(1);
  profile.sizes = {
      {1, {{Bytes(4), Bytes(0), Bytes(0)}, {Bytes(4), Bytes(0), Bytes(0)}}}};
  profile.times = {
      {"V100", {{1, {{zero, zero, zero, zero}, {one, zero, one, zero}}}}}};
  *made.cluster = load_cluster("8xV100@1GB/s+1200ms").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {8};
  problem.memory_limit = Bytes(0);
  // On r devices forwards and backwards take 16 / r, and latency 2.4 log2 r:
  // r = 5 is best, 8.8 s. With forwards elsewhere r = 2 is: backwards start
  // after 1 s and take 8/2 s, latency is 2.4 s, and the weights take 1.2 s.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(1 + 8.0 / 2 + 2.4 + 1.2).epsilon(1e-5));
  *made.cluster = load_cluster("8xV100@1B/s+500ms").value();
  // Now the weights take 4.5 s, and the sum 2 (r - 1) / r times 4 s: r = 6.
  CHECK(
      bounds_of(problem).replicas.value() ==
      doctest::Approx(16.0 / 6 + std::log2(6) + 2 * 5.0 / 6 * 4).epsilon(1e-5));
}

TEST_CASE("many devices take long to sum, few to compute") {
  RandomProblems random(78);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(4));
  const Seconds zero(0), one(1);
  profile.sizes = {
      {1, {{Bytes(4), Bytes(0), Bytes(0)}, {Bytes(4), Bytes(0), Bytes(0)}}}};
  profile.times = {
      {"V100", {{1, {{zero, zero, zero, zero}, {zero, zero, one, zero}}}}}};
  *made.cluster = load_cluster("8xV100@1GB/s+500ms").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {8};
  problem.memory_limit = Bytes(0);
  CHECK(bounds_of(problem).work.value() == doctest::Approx(1));
  // On r devices: 8 / r to compute, 2 log2 r / 2 of latency; r = 6 is best.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(8.0 / 6 + std::log2(6)).epsilon(1e-5));
}

TEST_CASE("layers with large weights keep the work on their devices") {
  RandomProblems random(75);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(10'000'000));
  profile.sizes = {{1,
                    {{Bytes(2'000'000), Bytes(0), Bytes(0)},
                     {Bytes(4), Bytes(0), Bytes(0)}}}};
  const Seconds zero(0);
  profile.times = {
      {"V100",
       {{1, {{zero, zero, Seconds(1), zero}, {zero, zero, zero, zero}}}}}};
  *made.cluster = load_cluster("2xV100@1MB/s").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {1};
  problem.memory_limit = Bytes(0);
  const Bounds bounds = bounds_of(problem);
  CHECK(bounds.work.value() == doctest::Approx(4));
  // In T seconds T/2 samples leave the device that has the weights; 8 - T/2
  // seconds of backwards stay with it: T = 8 - T/2. To sum takes 10 s.
  CHECK(bounds.replicas.value() == doctest::Approx(16.0 / 3).epsilon(1e-5));
  profile.parameters[0].bytes = Bytes(5'000'000);
  // Now to sum them is faster: 5 s.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(5).epsilon(1e-6));
}

TEST_CASE("gradients are summed after the work that they depend on") {
  RandomProblems random(76);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(5'000'000));
  std::swap(profile.layers[0].parameters, profile.layers[1].parameters);
  profile.layers[0].keeps_output = false;
  profile.layers[1].keeps_input = {true};
  profile.layers[1].keeps_output = false;
  // What passes between the layers takes 100 s per sample to send.
  profile.sizes = {{1,
                    {{Bytes(100'000'000), Bytes(0), Bytes(0)},
                     {Bytes(4), Bytes(0), Bytes(0)}}}};
  const Seconds zero(0), one(1);
  profile.times = {
      {"V100", {{1, {{zero, zero, zero, zero}, {one, one, zero, zero}}}}}};
  *made.cluster = load_cluster("2xV100@1MB/s").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {1};
  problem.memory_limit = Bytes(0);
  const Bounds bounds = bounds_of(problem);
  CHECK(bounds.work.value() == doctest::Approx(8));
  // Two devices compute for 8 s, then sum 5 MB. On one device: 16 s.
  CHECK(bounds.replicas.value() == doctest::Approx(13).epsilon(1e-4));
  profile.parameters[0].bytes = Bytes(50'000'000);
  // Now one device is faster: nearly no sample can be elsewhere.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(16).epsilon(0.05));
  problem.method = Method::Stash;
  profile.parameters[0].bytes = Bytes(5'000'000);
  CHECK(bounds_of(problem).replicas.value() == doctest::Approx(8));
}

TEST_CASE("sums of several layers wait for the work of all of them") {
  RandomProblems random(79);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(5'000'000));
  profile.parameters.push_back({"second", Bytes(5'000'000)});
  profile.layers[0].parameters = {ParameterId(1)};
  profile.layers[0].keeps_output = profile.layers[1].keeps_output = false;
  // What passes between the layers takes 100 s per sample to send.
  profile.sizes = {{1,
                    {{Bytes(100'000'000), Bytes(0), Bytes(0)},
                     {Bytes(4), Bytes(0), Bytes(0)}}}};
  const Seconds zero(0), one(1);
  profile.times = {
      {"V100", {{1, {{zero, zero, one, zero}, {zero, zero, one, zero}}}}}};
  *made.cluster = load_cluster("2xV100@1MB/s").value();
  Problem& problem = made.problem;
  problem.minibatch = 8;
  problem.microbatches = {1};
  problem.memory_limit = Bytes(0);
  // Two devices compute for 16 s together, and the last of the two sums takes
  // 5 s. Each layer alone would be summed after 4 s.
  CHECK(bounds_of(problem).replicas.value() ==
        doctest::Approx(13).epsilon(1e-4));
  profile.parameters[1].bytes = Bytes(0);
  // Now the weights of one are summed while the other is computed.
  CHECK(bounds_of(problem).largest().value() ==
        doctest::Approx(9).epsilon(1e-4));
}

TEST_CASE("what does not fit one device is sent") {
  RandomProblems random(72);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  profile.layers.resize(2);
  profile.layers[1].inputs = {LayerId(0)};
  profile.layers[1].keeps_input = {false};
  profile.parameters = {{"a", Bytes(1000)}, {"b", Bytes(1000)}};
  for (std::size_t l = 0; l < 2; ++l)
    profile.layers[l].parameters = {ParameterId(l)};
  for (auto& [size, rows] : profile.sizes)
    rows.assign(2, {Bytes(1000 * size), Bytes(0), Bytes(0)});
  for (auto& [kind, tables] : profile.times)
    for (auto& [size, rows] : tables) rows.resize(2);
  *made.cluster = load_cluster("2xV100@1MB/s").value();
  Problem& problem = made.problem;
  problem.optimizer_words = 1;
  problem.memory_limit = Bytes(6001);
  CHECK(bounds_of(problem).link == Seconds(0));
  problem.memory_limit = Bytes(5999);
  // 1,000 bytes of each of 16 samples, less what rounding may take, over both
  // directions of a link.
  CHECK(bounds_of(problem).link.value() ==
        doctest::Approx(16 * 1000 / 2e6).epsilon(0.001));
}

TEST_CASE("what all devices together cannot keep is recomputed") {
  RandomProblems random(73);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  profile.layers.resize(1);
  profile.layers[0].keeps_output = false;
  profile.layers[0].parameters.clear();
  profile.parameters.clear();
  for (auto& [size, rows] : profile.sizes)
    rows.assign(1, {Bytes(0), Bytes(1000 * size), Bytes(0)});
  for (auto& [kind, tables] : profile.times)
    for (auto& [size, rows] : tables)
      rows.assign(1, {Seconds(size * 1e-3), Seconds(0), Seconds(size * 1e-3),
                      Seconds(0)});
  *made.cluster = load_cluster("2xV100@1MB/s").value();
  Problem& problem = made.problem;
  problem.microbatches = {4};
  problem.memory_limit = Bytes(2000);
  CHECK(bounds_of(problem).memory == bounds_of(problem).work);
  problem.memory_limit = Bytes(1000);
  // Half of the layer's forwards, on two devices.
  CHECK((bounds_of(problem).memory - bounds_of(problem).work).value() ==
        doctest::Approx(16 * 1e-3 / 2 / 2));
}

}  // namespace pipewright
