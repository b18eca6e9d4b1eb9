// The memory of runs, replayed tensor by tensor: sums of weight gradients are
// made by the first backward of a minibatch and dropped by its step.

#include "pipewright/plan/memory/run_memory.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/memory_bound.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/schedules/generator.h"

namespace pipewright {
namespace {

// Pools keep indices: more than the weights take, or less.
const Model& lenet() {
  static const Model known = load_model("lenet").value();
  return known;
}

// What layers hand on is empty, so that no message counts.
Profile profile_of_kept(int microbatch, std::mt19937& random) {
  Profile profile = profile_graph(lenet());
  for (std::size_t l = 0; l < profile.layers.size(); ++l)
    profile.sizes[microbatch].push_back(
        {Bytes(0), Bytes(0), Bytes(static_cast<int>(random() % 200'000))});
  return profile;
}

Plan plan_of_few(int microbatch, std::mt19937& random) {
  const int workers = 1 + static_cast<int>(random() % 3);
  const int microbatches = 1 + static_cast<int>(random() % 6);
  Plan plan;
  plan.model = lenet().name();
  plan.microbatch = microbatch;
  plan.minibatch = microbatch * microbatches;
  std::vector<int> cuts;
  for (int w = 1; w < workers; ++w)
    cuts.push_back(w * lenet().num_layers() / workers);
  plan.stages = stages_of_cuts(cuts, lenet().num_layers());
  for (int w = 0; w < workers; ++w) plan.devices.push_back(DeviceId(w));
  ScheduleRequest wanted;
  wanted.workers = workers;
  wanted.microbatches = microbatches;
  plan.schedule =
      generate_schedule(random() % 2 ? "gpipe" : "1f1b", wanted).value();
  return plan;
}

class Replay {
 public:
  Replay(const Program& program, const Profile& profile, const StepMemory& step)
      : program_(program), profile_(profile), step_(step) {}

  Bytes peak(WorkerId worker) {
    const Operation& operation = program_.operations[worker.index()];
    held_ = weights(operation) * std::int64_t{1 + step_.optimizer.words};
    if (step_.keeps_sums) held_ += weights(operation);
    has_sums_ = step_.keeps_sums;
    most_ = held_;
    for (const Action& action : program_.workers[worker.index()].body)
      if (action.kind == ActionKind::Forward)
        forward(operation);
      else if (action.kind == ActionKind::Backward)
        backward(operation);
    note(largest_parameter(operation) * step_.optimizer.temporaries);
    return most_;
  }

 private:
  Bytes workspace(LayerId layer) const {
    return profile_.sizes.at(program_.microbatch)[layer.index()].workspace;
  }
  Bytes kept(LayerId layer) const {
    return layer_cost(lenet(), layer).keeps_private.at(program_.microbatch);
  }
  Bytes weights(const Operation& operation) const {
    Bytes sum;
    for (const LayerId layer : operation.backward)
      sum += profile_.parameter_bytes(layer);
    return sum;
  }
  Bytes largest_parameter(const Operation& operation) const {
    Bytes most;
    for (const LayerId layer : operation.backward)
      for (const ParameterId id : profile_.layers[layer.index()].parameters)
        most = std::max(most, profile_.parameters[id.index()].bytes);
    return most;
  }
  void note(Bytes more) { most_ = std::max(most_, held_ + more); }

  void forward(const Operation& operation) {
    for (const LayerId layer : operation.forward) {
      held_ += kept(layer);
      note(workspace(layer));
    }
  }
  // Workspace is what adding to sums needs; making them needs no more.
  void backward(const Operation& operation) {
    for (auto layer = operation.backward.rbegin();
         layer != operation.backward.rend(); ++layer) {
      note(workspace(*layer));
      if (!has_sums_) held_ += profile_.parameter_bytes(*layer);
      note(Bytes(0));
      held_ -= kept(*layer);
    }
    has_sums_ = true;
  }

  const Program& program_;
  const Profile& profile_;
  const StepMemory& step_;
  Bytes held_, most_;
  bool has_sums_ = false;
};

void check_peaks(unsigned seed, const std::string& device) {
  std::mt19937 random(seed);
  const int microbatch = 1 + static_cast<int>(random() % 40);
  const Profile profile = profile_of_kept(microbatch, random);
  const Plan plan = plan_of_few(microbatch, random);
  const StepMemory step = step_memory({}, false, lenet(), device).value();
  const Program program = with_run_memory(lower(plan, profile).value(), plan,
                                          lenet(), profile, step)
                              .value();
  const auto bounds = memory_bounds(program);  // no message is in the way
  CAPTURE(seed);
  CAPTURE(device);
  for (std::size_t w = 0; w < bounds.size(); ++w) {
    CAPTURE(w);
    const MemoryUse peak =
        peak_with_steps(program, lenet(), WorkerId(w), step, bounds[w].peak);
    CHECK(peak.total().value() ==
          Replay(program, profile, step).peak(WorkerId(w)).value());
  }
}

}  // namespace

TEST_CASE("sums of gradients begin with the first backward of a minibatch") {
  for (unsigned seed = 0; seed < 1000; ++seed) check_peaks(seed, "cpu");
}

TEST_CASE("on a GPU they are there from step to step") {
  for (unsigned seed = 0; seed < 100; ++seed) check_peaks(seed, "cuda");
}

}  // namespace pipewright
