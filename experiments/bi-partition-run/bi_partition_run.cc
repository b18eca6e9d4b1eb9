// Bi-Partition on two cores: a net in which one layer has most of the work, so
// that no cut between layers can balance two workers, but forward and backward
// of that layer can go to one each. Every layer-wise cut and the split plan are
// predicted from one measured profile, and run.
//
//   bi_partition_run [--width N] [--rounds N]

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/cluster.h"
#include "pipewright/estimate/estimator.h"
#include "pipewright/model/zoo/sketch.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/planners/pipeline.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/profiling/profiler.h"

namespace pipewright {
namespace {

constexpr int kMicrobatch = 32, kMicrobatches = 16;

// Small layers, one of width x width, small layers.
Result<Model> lopsided_net(std::int64_t width) {
  Sketch sketch("lopsided", NumberType::Float32);
  Source x = sketch.input("image", {1, 8, 8});
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  x = sketch.relu("relu0", sketch.linear("first", x, width));
  x = sketch.relu("relu1", sketch.linear("heavy", x, width));
  sketch.cross_entropy(sketch.linear("out", x, 10));
  return std::move(sketch).build();
}

struct Candidate {
  int forward_cut = 0, backward_cut = 0;
  Plan plan;
  Seconds predicted;
};

class Comparison {
 public:
  Comparison(const Model& model, const Profile& profile, const Cluster& cluster)
      : model_(model), profile_(profile) {
    problem_.profile = &profile;
    problem_.cluster = &cluster;
    problem_.minibatch = kMicrobatch * kMicrobatches;
    problem_.microbatches = {kMicrobatch};
    problem_.estimate = simulating_estimator(problem_);
  }

  // The best with equal cuts, or the best of all pairs.
  Result<Candidate> best(bool apart) const {
    Candidate best;
    const int layers = profile_.num_layers();
    for (int x = 1; x < layers; ++x)
      for (int y = 1; y < layers; ++y) {
        if (!apart && x != y) continue;
        Pipeline pipeline;
        pipeline.microbatch = kMicrobatch;
        pipeline.stages = {{x, y, {DeviceId(0)}, false},
                           {layers, layers, {DeviceId(1)}, false}};
        PIPEWRIGHT_TRY(Planned found, planned(pipeline, problem_, "by hand"));
        if (best.forward_cut > 0 && found.estimate.step >= best.predicted)
          continue;
        best = {x, y, found.plan, found.estimate.step};
      }
    return best;
  }

  Result<Seconds> measured(const Candidate& candidate, int rounds) const {
    PIPEWRIGHT_TRY(const Program program, lower(candidate.plan, profile_));
    TrainingSettings settings;
    settings.optimizer = sgd({});
    settings.learning_rate = [](std::int64_t) { return 0.01; };
    PIPEWRIGHT_TRY(const Dataset digits, open_dataset("digits", model_));
    const MicrobatchSource source = microbatches_of(digits, {1, kMicrobatch});
    Executor executor(model_, program, settings);
    Seconds least(1e9);
    for (int round = 0; round <= rounds; ++round) {
      PIPEWRIGHT_TRY(const Executed done, executor.run(source, 3));
      if (round > 0) least = std::min(least, done.timeline.step_seconds);
    }
    return least;
  }

 private:
  const Model& model_;
  const Profile& profile_;
  Problem problem_;
};

Result<void> run(std::int64_t width, int rounds) {
  PIPEWRIGHT_TRY(const Model model, lopsided_net(width));
  const std::array sizes = {kMicrobatch};
  PIPEWRIGHT_TRY(const Profile profile, measured_profile(model, sizes));
  PIPEWRIGHT_TRY(const Cluster cluster, load_cluster("2xcpu"));
  const Comparison comparison(model, profile, cluster);
  PIPEWRIGHT_TRY(const Candidate equal, comparison.best(false));
  PIPEWRIGHT_TRY(const Candidate apart, comparison.best(true));
  PIPEWRIGHT_TRY(const Seconds equal_measured,
                 comparison.measured(equal, rounds));
  PIPEWRIGHT_TRY(const Seconds apart_measured,
                 comparison.measured(apart, rounds));
  using Align = TextTable::Align;
  TextTable table({{"plan"},
                   {"forward cut", Align::Right},
                   {"backward cut", Align::Right},
                   {"predicted", Align::Right},
                   {"measured", Align::Right}});
  const auto add = [&](const std::string& name, const Candidate& candidate,
                       Seconds seen) {
    table.add_row({name, std::to_string(candidate.forward_cut),
                   std::to_string(candidate.backward_cut),
                   to_text(candidate.predicted), to_text(seen)});
  };
  add("best equal cuts", equal, equal_measured);
  add("best cuts apart", apart, apart_measured);
  std::cout << "one layer of " << width << " x " << width << ", "
            << kMicrobatches << " microbatches of " << kMicrobatch
            << " samples, 1f1b on 2 threads; a step, the least of " << rounds
            << " rounds\n\n"
            << table.to_text(100) << "\nspeed-up: predicted "
            << to_text(equal.predicted / apart.predicted) << "x, measured "
            << to_text(equal_measured / apart_measured) << "x\n";
  return {};
}

}  // namespace
}  // namespace pipewright

int main(int count, char** words) {
  int width = 2048, rounds = 10;
  for (int i = 1; i + 1 < count; i += 2) {
    if (std::string(words[i]) == "--width") width = std::atoi(words[i + 1]);
    if (std::string(words[i]) == "--rounds") rounds = std::atoi(words[i + 1]);
  }
  const auto done =
      pipewright::run(std::clamp(width, 16, 16384), std::max(1, rounds));
  if (done) return 0;
  std::cerr << done.error().to_text() << "\n";
  return static_cast<int>(done.error().code);
}
