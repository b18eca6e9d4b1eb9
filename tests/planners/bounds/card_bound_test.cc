// The bound on network cards, compared with many plans of small problems that
// have several heavy layers, and by hand.

#include "pipewright/planners/bounds/card_bound.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/planners/bounds/bounds.h"
#include "tests/planners/random_plans.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

// Layers that take long on one host, and whose gradients take about as long to
// sum over cards as all work does. In light ones only the weight gradients take
// long, so that nothing waits for anything but sums.
class HeavyLayers {
 public:
  HeavyLayers(RandomProblems& random, Profile& profile)
      : random_(random),
        profile_(profile),
        is_light_(random.chance(2)),
        least_(random.number(0, 8)),
        least_weights_(random.number(1, 29)) {}

  void set() {
    const int layers = random_.number(2, 4);
    profile_.layers.clear();
    profile_.parameters.clear();
    for (int l = 0; l < layers; ++l) profile_.layers.push_back(layer(l));
    const int bytes = random_.chance(2) ? 10 : random_.number(1, 30) * 10'000;
    profile_.sizes = {{1, {}}};
    for (int l = 0; l < layers; ++l)
      profile_.sizes[1].push_back({Bytes(random_.number(1, bytes)),
                                   Bytes(random_.number(0, 10)), Bytes(0)});
    for (auto& [kind, tables] : profile_.times) {
      tables = {{1, {}}};
      for (int l = 0; l < layers; ++l) tables[1].push_back(times());
    }
  }

 private:
  ProfileLayer layer(int index) {
    ProfileLayer made;
    made.name = "layer" + std::to_string(index);
    made.kind = "test";
    if (index > 1 && random_.chance(4))
      made.inputs.push_back(LayerId(random_.number(0, index - 2)));
    if (index > 0 && !random_.chance(6))
      made.inputs.push_back(LayerId(index - 1));
    made.keeps_input.assign(made.inputs.size(), random_.chance(2));
    made.keeps_output = random_.chance(2);
    if (random_.chance(6)) return made;
    // Some layers are tied to the first.
    if (random_.chance(12) && !profile_.parameters.empty())
      made.parameters.push_back(ParameterId(0));
    made.parameters.push_back(ParameterId(profile_.parameters.size()));
    profile_.parameters.push_back(
        {"weight" + std::to_string(index),
         Bytes(random_.number(least_weights_, 30) * 50'000)});
    return made;
  }

  LayerTimes times() {
    const auto time = [&](bool is_light) {
      return is_light ? Seconds(random_.number(0, 3) * 1e-5)
                      : Seconds(random_.number(least_, 10) * 3e-4);
    };
    const bool forward_is_light = is_light_ && !random_.chance(4);
    return {time(forward_is_light), time(is_light_),
            time(is_light_ && random_.chance(3)),
            Seconds(random_.number(0, is_light_ ? 0 : 30) * 1e-4)};
  }

  RandomProblems& random_;
  Profile& profile_;
  const bool is_light_;
  const int least_, least_weights_;  // 300 us per sample, 50 kB
};

// Two layers whose weight gradients take 2 s per sample, and 8 samples, on four
// hosts with one device each, whose cards send 1 MB/s.
RandomProblem two_heavy_layers(int output_bytes) {
  RandomProblems random(87);
  RandomProblem made = random.next();
  Profile& profile = *made.profile;
  keep_two_layers(profile, Bytes(6'000'000));
  profile.parameters.push_back({"first", Bytes(5'000'000)});
  profile.layers[0].parameters = {ParameterId(1)};
  profile.layers[0].keeps_output = profile.layers[1].keeps_output = false;
  profile.sizes = {{1,
                    {{Bytes(output_bytes), Bytes(0), Bytes(0)},
                     {Bytes(4), Bytes(0), Bytes(0)}}}};
  const Seconds zero(0), two(2);
  profile.times = {
      {"V100", {{1, {{zero, zero, two, zero}, {zero, zero, two, zero}}}}}};
  *made.cluster = load_cluster("4x1xV100@1GB/s/1MB/s").value();
  made.problem.minibatch = 8;
  made.problem.microbatches = {2, 4, 8};
  made.problem.memory_limit = Bytes(0);
  made.problem.estimate = simulating_estimator(made.problem);
  return made;
}

}  // namespace

TEST_CASE("no plan of 1,000 problems with heavy layers beats the bound") {
  RandomProblems random(86);
  const char* const clusters[] = {
      "5x1xV100@1GB/s/30MB/s",     "4x1xV100@1GB/s/10MB/s+1ms",
      "3x2xV100@20MB/s/20MB/s",    "6x2xV100@1GB/s/20MB/s",
      "6x1xV100@1GB/s/20MB/s+1ms", "8x2xV100@1GB/s/40MB/s"};
  int raised = 0, near = 0;
  std::int64_t plans = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    RandomProblem made = random.next(1);
    Problem& problem = made.problem;
    if (!random.chance(16))
      *made.cluster = load_cluster(clusters[i % 6]).value();
    HeavyLayers(random, *made.profile).set();
    problem.memory_limit = Bytes(0);
    problem.minibatch = 60;
    problem.microbatches = {4, 6, 10, 12, 20, 30, 60};
    problem.estimate = simulating_estimator(problem);
    const Bounds bounds = bounds_of(problem);
    // Where it says nothing new, other tests have compared it.
    if (bounds.cards <= bounds.replicas * 1.001) continue;
    RandomPlans random_plans(problem, static_cast<unsigned>(i));
    const Seconds best = random_plans.fastest(400);
    CHECK(bounds.cards.value() <= best.value() * (1 + 1e-9));
    ++raised;
    near += bounds.cards.value() > 0.9 * best.value();
    plans += random_plans.num_valid();
  }
  MESSAGE(raised << " raised, " << near << " of them within 10 %, " << plans
                 << " plans");
  CHECK(raised > 140);
  CHECK(near > 3);
  CHECK(plans > 20'000);
}

TEST_CASE("two sums that do not fit on one card keep their layers apart") {
  RandomProblem made = two_heavy_layers(4);
  const Bounds bounds = bounds_of(made.problem);
  // Two devices compute the second layer for 8 s and sum 6 MB in 6 s, three for
  // 5.3 and 8 s. The first sums 5 MB, from second 8 on if all compute for 16 s
  // each. So 13 s are enough for each layer, and for both.
  CHECK(bounds.replicas.value() == doctest::Approx(13).epsilon(1e-4));
  // But to sum both takes 11 s or more of a card, after 4 s or more. In less
  // than 14 s, three hosts have the second layer, and nothing to do when its
  // sum has started, before second 6: the fourth would compute the first alone.
  CHECK(bounds.cards.value() == doctest::Approx(14).epsilon(1e-4));
  CHECK(RandomPlans(made.problem, 1).fastest(2000).value() ==
        doctest::Approx(14).epsilon(1e-4));
  made.problem.method = Method::Stash;
  CHECK(bounds_of(made.problem).cards == bounds_of(made.problem).replicas);
}

TEST_CASE("all gradients cross the border between layers that are apart") {
  RandomProblem made = two_heavy_layers(2'125'000);
  const Bounds bounds = bounds_of(made.problem);
  CHECK(bounds.replicas.value() == doctest::Approx(13).epsilon(1e-4));
  // 17 MB leave the second layer's hosts, and its sum is on the same cards: for
  // two hosts 17/2 + 6 s. Three would have nothing to do as above.
  CHECK(bounds.cards.value() == doctest::Approx(14.5).epsilon(1e-4));
  CHECK(RandomPlans(made.problem, 1).fastest(2000) >= bounds.cards);
}

}  // namespace pipewright
