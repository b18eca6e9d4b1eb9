// What a run takes beside its layers, found again in pipelines whose overheads
// are known.

#include "pipewright/simulate/run_overheads.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/run_memory.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

constexpr int kMicrobatch = 4;
const std::string kDevice = "cuda-stream";

const Model& model() {
  static const Model known =
      load_model("mlp:features=64,classes=10,hidden=32,layers=6").value();
  return known;
}

double random_number(double low, double high) {
  static std::mt19937 random(3);
  return std::uniform_real_distribution<double>(low, high)(random);
}

Profile random_profile() {
  Profile profile = profile_graph(model());
  profile.sizes[kMicrobatch] = model_sizes(model(), kMicrobatch);
  for (const ProfileLayer& layer : profile.layers) {
    LayerTimes times;
    times.forward = Seconds(random_number(1e-5, 4e-5));
    times.backward_input = Seconds(random_number(1e-5, 4e-5));
    if (!layer.parameters.empty()) {
      times.backward_weight = Seconds(random_number(1e-5, 4e-5));
      times.update = Seconds(random_number(1e-6, 4e-6));
    }
    profile.times[kDevice][kMicrobatch].push_back(times);
  }
  return profile;
}

Plan plan_for(int workers, int microbatches) {
  Plan plan;
  plan.model = model().name();
  plan.microbatch = kMicrobatch;
  plan.minibatch = kMicrobatch * microbatches;
  std::vector<int> cuts;
  for (int w = 1; w < workers; ++w)
    cuts.push_back(w * model().num_layers() / workers);
  plan.stages = stages_of_cuts(cuts, model().num_layers());
  for (int w = 0; w < workers; ++w) plan.devices.push_back(DeviceId(w));
  ScheduleRequest wanted;
  wanted.workers = workers;
  wanted.microbatches = microbatches;
  plan.schedule = generate_schedule("1f1b", wanted).value();
  return plan;
}

LayerTimes sums_of(const Profile& profile) {
  LayerTimes sums;
  for (const LayerTimes& layer : profile.times.at(kDevice).at(kMicrobatch)) {
    sums.forward += layer.forward;
    sums.backward_input += layer.backward_input;
    sums.backward_weight += layer.backward_weight;
    sums.update += layer.update;
  }
  return sums;
}

// Steps of one worker, with pauses before actions, before a step and after it.
struct OneWorker {
  Seconds pause, before_step, after_step, forward, backward, update;
  // Of the steps but the second, which then is the only one that is timed.
  Seconds shorter = {};

  PipelineRun run() const {
    PipelineRun result{plan_for(1, 3), {}};
    std::vector<Span>& spans = result.timeline.spans.emplace_back();
    Seconds now;
    const auto add = [&](ActionKind kind, Seconds pause_before, Seconds time) {
      now += pause_before;
      Span span;
      span.kind = kind;
      span.start = now;
      span.end = now += time;
      spans.push_back(span);
    };
    const auto add_step = [&](int version) {
      add(ActionKind::Step, before_step, update);
      spans.back().version = version;
      const bool is_timed = shorter == Seconds(0) || version != 2;
      if (!is_timed) spans.pop_back();
    };
    for (int step = 0; step < 5; ++step) {
      if (shorter > Seconds(0) && step != 1) {
        now += after_step + 6.0 * pause - pause + 3.0 * (forward + backward) -
               shorter;
        add_step(step);
        continue;
      }
      for (int m = 0; m < 3; ++m) {
        add(ActionKind::Forward, m == 0 ? after_step : pause, forward);
        add(ActionKind::Backward, pause, backward);
      }
      add_step(step);
    }
    result.timeline.workers.emplace_back();
    return result;
  }
};

// The steps of a profile's layers, one worker.
OneWorker steps_of(const Profile& profile) {
  const LayerTimes sums = sums_of(profile);
  return {Seconds(3e-6), Seconds(7e-6),   Seconds(5e-6),
          sums.forward,  sums.backward(), sums.update};
}

// What the overheads say of the same steps.
double simulated(const PipelineRun& run, const Profile& profile,
                 const RunOverheads& overheads) {
  const Program program = lower(run.plan, profile).value();
  const Costs costs =
      costs_on(kDevice, program, profile, {}, overheads).value();
  return simulate(program, costs).step_seconds.value();
}

TEST_CASE("a run takes as long as its untimed steps") {
  // Less than all pauses, and more.
  for (const double share : {0.3, 0.8, 3.0, 9.0}) {
    Profile profile = random_profile();
    OneWorker steps = steps_of(profile);
    steps.shorter = share * 5.0 * steps.pause;
    const PipelineRun run = steps.run();
    const RunOverheads found =
        overheads_alone(run, model(), kDevice, profile).value();
    CHECK(found.action >= Seconds(0));
    CHECK(found.action < steps.pause);
    CHECK((found.action > Seconds(0)) == (share < 1));
    CHECK(simulated(run, profile, found) ==
          doctest::Approx(step_period(run.timeline).value()));
  }
}

TEST_CASE("pauses are found, and what timing layers has cost is taken off") {
  for (int i = 0; i < 20; ++i) {
    const Profile real = random_profile();
    const PipelineRun run = steps_of(real).run();
    Profile timed = real;
    const Seconds cost(random_number(0, 8e-6));
    for (LayerTimes& layer : timed.times[kDevice][kMicrobatch])
      for (Seconds* time :
           {&layer.forward, &layer.backward_input, &layer.backward_weight})
        if (*time > Seconds(0)) *time += cost;
    const RunOverheads found =
        overheads_alone(run, model(), kDevice, timed).value();
    CHECK(found.action.value() == doctest::Approx(3e-6));
    CHECK(found.step.value() == doctest::Approx(7e-6 + 5e-6 - 3e-6));
    const auto &a = timed.times[kDevice][kMicrobatch],
               &b = real.times.at(kDevice).at(kMicrobatch);
    for (std::size_t l = 0; l < a.size(); ++l)
      CHECK(a[l].forward.value() == doctest::Approx(b[l].forward.value()));
    CHECK(simulated(run, timed, found) ==
          doctest::Approx(step_period(run.timeline).value()));
  }
}

TEST_CASE("what an action takes beyond its layers counts once per action") {
  Profile profile = random_profile();
  OneWorker steps = steps_of(profile);
  steps.forward += Seconds(4e-6);
  steps.backward += Seconds(8e-6);
  const Profile before = profile;
  const RunOverheads found =
      overheads_alone(steps.run(), model(), kDevice, profile).value();
  CHECK((profile == before));
  CHECK(found.action.value() == doctest::Approx(3e-6 + 6e-6));
  CHECK(simulated(steps.run(), profile, found) ==
        doctest::Approx(step_period(steps.run().timeline).value()));
}

TEST_CASE("memory beside the tensors is what was measured beyond them") {
  Profile profile = random_profile();
  PipelineRun run = steps_of(profile).run();
  const StepMemory step = step_memory({}, false, model(), kDevice).value();
  const Program program = with_run_memory(lower(run.plan, profile).value(),
                                          run.plan, model(), profile, step)
                              .value();
  const Costs costs = costs_on(kDevice, program, profile, {}).value();
  const MemoryUse peak =
      peak_with_steps(program, model(), WorkerId(0), step,
                      simulate(program, costs).workers[0].peak);
  run.timeline.workers[0].peak.activations = peak.total() + Bytes(33'000'000);
  CHECK(overheads_alone(run, model(), kDevice, profile).value().base_memory ==
        Bytes(33'000'000));
  run.timeline.workers[0].peak.activations = Bytes(1);
  CHECK(overheads_alone(run, model(), kDevice, profile).value().base_memory ==
        Bytes(0));
}

TEST_CASE("each worker of a pipeline holds what was measured beyond its own") {
  const Profile profile = random_profile();
  PipelineRun run{plan_for(3, 9), {}};
  const StepMemory step = step_memory({}, false, model(), kDevice).value();
  const Program program = with_run_memory(lower(run.plan, profile).value(),
                                          run.plan, model(), profile, step)
                              .value();
  const Timeline expected =
      simulate(program, costs_on(kDevice, program, profile, {}).value());
  std::vector<Bytes> beside;
  for (int w = 0; w < 3; ++w) {
    beside.push_back(Bytes(w * 1'000'000));
    run.timeline.workers.emplace_back().peak.activations =
        peak_with_steps(program, model(), WorkerId(w), step,
                        expected.workers[w].peak)
            .total() +
        beside.back();
  }
  RunOverheads overheads;
  overheads.base_memory = Bytes(7);
  CHECK(overheads.base_of(WorkerId(2)) == Bytes(7));
  overheads.base_of_workers =
      base_memory_of(run, model(), kDevice, profile).value();
  CHECK(overheads.base_of_workers == beside);
  CHECK(overheads.base_of(WorkerId(2)) == Bytes(2'000'000));
}

TEST_CASE("the slowdown of a pipeline is found again, and holds for others") {
  for (int i = 0; i < 30; ++i) {
    const int workers = 2 + i % 3;
    const Profile profile = random_profile();
    RunOverheads real;
    real.action = Seconds(random_number(0, 2e-5));
    real.step = Seconds(random_number(0, 2e-5));
    const double slowdown = random_number(1.05, 2.0 * workers);
    for (int k = 0; k < workers; ++k)
      real.slowdowns.push_back(1 + (slowdown - 1) * k / (workers - 1));
    PipelineRun run{plan_for(workers, 3 * workers), {}};
    run.timeline.spans.emplace_back();
    run.timeline.step_seconds = Seconds(simulated(run, profile, real));
    RunOverheads found = real;
    REQUIRE(fit_together(run, profile, kDevice, found).ok());
    CHECK(found.slowdowns.back() == doctest::Approx(slowdown).epsilon(1e-3));
    const PipelineRun other{plan_for(workers, 8), {}};
    CHECK(simulated(other, profile, found) ==
          doctest::Approx(simulated(other, profile, real)).epsilon(1e-3));
  }
}

TEST_CASE(
    "what an action takes on cores is found again, and holds for others") {
  for (int i = 0; i < 30; ++i) {
    const int workers = 1 + i % 4;
    Profile profile = random_profile();
    profile.times["cpu"] = profile.times.at(kDevice);
    const InProcessChannelCosts channel{Seconds(random_number(0, 3e-6)), 1e9};
    const auto step_of = [&](const Plan& plan, const RunOverheads& overheads) {
      const Program program = lower(plan, profile).value();
      return simulate(
                 program,
                 costs_on("cpu", program, profile, channel, overheads).value())
          .step_seconds;
    };
    RunOverheads real, found;
    real.action = Seconds(random_number(0, 5e-5));
    PipelineRun run{plan_for(workers, 3 * workers), {}};
    run.timeline.spans.emplace_back();
    run.timeline.step_seconds = step_of(run.plan, real);
    REQUIRE(fit_action(run, profile, channel, found).ok());
    const Plan other = plan_for(workers, 8);
    CHECK(step_of(other, found).value() ==
          doctest::Approx(step_of(other, real).value()).epsilon(1e-3));
    run.timeline.step_seconds = step_of(run.plan, {}) / 2;
    REQUIRE(fit_action(run, profile, channel, found).ok());
    CHECK(found.action == Seconds(0));
  }
}

TEST_CASE("streams share a GPU, shares of it do, GPUs do not") {
  CHECK((gpu_units("cuda-stream", 3) == std::vector<int>{0, 0, 0}));
  CHECK((gpu_units("cuda/2", 4) == std::vector<int>{0, 0, 1, 1}));
  CHECK((gpu_units("cuda", 3) == std::vector<int>{0, 1, 2}));
  const Profile profile = random_profile();
  PipelineRun run{plan_for(2, 6), {}};
  run.timeline.spans.emplace_back();
  run.timeline.step_seconds = Seconds(1);
  Profile of_gpus = profile;
  of_gpus.times["cuda"] = profile.times.at(kDevice);
  RunOverheads overheads;
  REQUIRE(fit_together(run, of_gpus, "cuda", overheads).ok());
  CHECK(overheads.slowdowns.empty());
  const auto simulated = [&] {
    const Program program = lower(run.plan, of_gpus).value();
    return simulate(program,
                    costs_on("cuda", program, of_gpus, {}, overheads).value())
        .step_seconds;
  };
  CHECK(simulated().value() == doctest::Approx(1.0).epsilon(1e-3));
  run.timeline.step_seconds = Seconds(1e-9);  // never less than one worker's
  overheads.action = Seconds(0.25);
  REQUIRE(fit_together(run, of_gpus, "cuda", overheads).ok());
  CHECK(overheads.action == Seconds(0.25));
  CHECK(!costs_on("cuda/4", lower(run.plan, profile).value(), profile, {}));
}

}  // namespace
}  // namespace pipewright
