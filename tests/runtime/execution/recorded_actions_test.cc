// Recorded actions, on a device of the host that logs operators: bits are those
// of kernels one by one, for schedules, workers and runs; and where recording
// is impossible training goes on without it.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/execution/worker.h"
#include "tests/runtime/devices/logging_device.h"
#include "tests/runtime/exported_models.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 4;
constexpr int kMicrobatches = 4;

// Of operators that the dispatcher sees, with statistics and a skip over cuts;
// its last stage may draw random numbers.
Model recordable(std::int64_t size = 4, double dropout = 0) {
  Sketch sketch("recordable");
  Source x = sketch.input("image", {3, size, size});
  const Source target = sketch.indices("target", {});
  for (int block = 0; block < 3; ++block) {
    Source y = sketch.add(LayerKind::Conv2d, {x},
                          {{"out_channels", std::int64_t{3}},
                           {"kernel", Shape{3, 3}},
                           {"padding", Shape{1, 1}},
                           {"bias", false}});
    y = sketch.add(LayerKind::Relu, {sketch.add(LayerKind::BatchNorm, {y})});
    x = sketch.add(LayerKind::Add, {y, x});
  }
  if (dropout > 0) x = sketch.add(LayerKind::Dropout, {x}, {{"rate", dropout}});
  x = sketch.add(LayerKind::Linear, {sketch.add(LayerKind::Flatten, {x})},
                 {{"out_features", std::int64_t{5}}, {"bias", false}});
  sketch.add(LayerKind::CrossEntropy, {x, target});
  return sketch.build();
}

struct RecordedRun {
  Trained trained;
  std::string why_not, recorded_as;
  int num_recordings = 0, num_replays = 0, num_joint_replays = 0;
};

// Compute actions of a step.
int num_compute(const WorkerProgram& worker) {
  return static_cast<int>(std::count_if(
      worker.body.begin(), worker.body.end(),
      [](const Action& action) { return is_compute(action.kind); }));
}

// Those of all steps; or of one, and the updates of the first two and the last.
bool has_all_actions(const std::vector<std::vector<Span>>& spans,
                     const Program& program, int steps) {
  for (std::size_t w = 0; w < spans.size(); ++w) {
    int computes = 0, updates = 0;
    for (const Span& span : spans[w]) {
      computes += is_compute(span.kind) ? 1 : 0;
      updates += span.kind == ActionKind::Step ? 1 : 0;
    }
    const int one = num_compute(program.workers[w]);
    const bool has_all = computes == one * steps;
    if (!has_all && computes != one) return false;
    if (updates != (has_all ? steps : std::min(steps, 3))) return false;
  }
  return true;
}

RecordedRun trained_on_logs(
    const Model& model, const Program& program, std::vector<int> runs,
    int first_failure = 1 << 30,
    const TrainingSettings& settings = settings_for_tests()) {
  Executor::Devices devices;
  std::vector<const LoggingDevice*> logs;
  for (int w = 0; w < program.num_workers(); ++w) {
    auto device = std::make_unique<LoggingDevice>(first_failure);
    logs.push_back(device.get());
    devices.push_back(std::move(device));
  }
  Executor executor(model, program, settings, nullptr, std::move(devices));
  for (const int steps : runs) {
    const Result<Executed> run =
        executor.run(random_source(model, kMicrobatch), steps);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
    CHECK(has_all_actions(run->timeline.spans, program, steps));
    CHECK(run->timeline.bubble >= 0);
  }
  CHECK(executor.num_values_held() == 0);
  RecordedRun result{executor.trained(), executor.why_not_recorded(),
                     executor.recorded_as()};
  for (const LoggingDevice* log : logs) {
    result.num_recordings += log->num_recordings();
    result.num_replays += log->num_replays();
    result.num_joint_replays += log->num_joint_replays();
  }
  return result;
}

Trained trained_on_cores(
    const Model& model, const Program& program, const std::vector<int>& runs,
    const TrainingSettings& settings = settings_for_tests()) {
  Executor executor(model, program, settings);
  for (const int steps : runs)
    REQUIRE(executor.run(random_source(model, kMicrobatch), steps).ok());
  return executor.trained();
}

Program program_of(const Model& model, const std::string& schedule,
                   int workers) {
  return lower(plan_of(model, generated(schedule, workers, kMicrobatches),
                       kMicrobatch),
               profile_of(model, kMicrobatch))
      .value();
}

// Two to warm up, one to rehearse, one to record.
constexpr int kStepsApart = 4;

// Of the first worker, until a step is recorded.
int recordings_of_first(const Model& model, const Program& program) {
  Executor::Devices devices;
  for (int w = 0; w < program.num_workers(); ++w)
    devices.push_back(std::make_unique<LoggingDevice>());
  const auto& first = static_cast<const LoggingDevice&>(*devices.front());
  Executor executor(model, program, settings_for_tests(), nullptr,
                    std::move(devices));
  REQUIRE(executor.run(random_source(model, kMicrobatch), kStepsApart).ok());
  return first.num_recordings();
}

int total(const std::vector<int>& runs) {
  return std::accumulate(runs.begin(), runs.end(), 0);
}

int num_compute(const Program& program) {
  int count = 0;
  for (const WorkerProgram& worker : program.workers)
    count += num_compute(worker);
  return count;
}

TEST_CASE("recorded steps have the bits of kernels one by one") {
  const Model model = recordable();
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"})
    for (const int workers : {1, 2, 3})
      for (const std::vector<int>& runs :
           {std::vector<int>{9}, {2, 4, 3}, {1, 1, 1, 1, 1, 1}}) {
        CAPTURE(schedule);
        CAPTURE(workers);
        CAPTURE(runs.size());
        const Program program = program_of(model, schedule, workers);
        const RecordedRun recorded = trained_on_logs(model, program, runs);
        CHECK(recorded.why_not == "");
        CHECK(recorded.recorded_as == "one for the step of all workers");
        CHECK(recorded.num_replays == num_compute(program));
        CHECK(recorded.num_joint_replays == total(runs) - kStepsApart);
        CHECK(is_identical(recorded.trained,
                           trained_on_cores(model, program, runs)));
      }
}

TEST_CASE("stages that recompute, and Adam, have the same bits recorded") {
  const Model model = recordable();
  TrainingSettings settings = settings_for_tests();
  settings.optimizer = adam({.weight_decay = 1e-2, .decoupled = true});
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"})
    for (const int workers : {1, 3}) {
      CAPTURE(schedule);
      CAPTURE(workers);
      Plan plan = plan_of(model, generated(schedule, workers, kMicrobatches),
                          kMicrobatch);
      for (Stage& stage : plan.stages) stage.recompute = true;
      const Program program =
          lower(plan, profile_of(model, kMicrobatch)).value();
      const RecordedRun recorded =
          trained_on_logs(model, program, {2, 4, 3}, 1 << 30, settings);
      CHECK(recorded.why_not == "");
      CHECK(recorded.num_replays == num_compute(program));
      CHECK(is_identical(recorded.trained,
                         trained_on_cores(model, program, {9}, settings)));
    }
}

TEST_CASE("steps that clip gradients are given as a whole up to there") {
  const Model model = recordable();
  const std::vector<int> runs = {3, 6};
  TrainingSettings settings = settings_for_tests();
  settings.max_norm = 0.1;
  LowerOptions options;
  options.global_norm = true;
  const Program program =
      lower(plan_of(model, generated("1f1b", 3, kMicrobatches), kMicrobatch),
            profile_of(model, kMicrobatch), options)
          .value();
  const RecordedRun recorded =
      trained_on_logs(model, program, runs, 1 << 30, settings);
  CHECK(recorded.num_joint_replays == total(runs) - kStepsApart);
  CHECK(is_identical(recorded.trained,
                     trained_on_cores(model, program, runs, settings)));
}

// 280 kB a message, four times: more than are kept in place.
TEST_CASE("large messages are copied, action by action") {
  const Model model = recordable(76);
  const Program program = program_of(model, "1f1b", 2);
  const RecordedRun recorded = trained_on_logs(model, program, {7});
  CHECK(recorded.why_not == "");
  CHECK(recorded.recorded_as ==
        "one for each action: messages or samples are large");
  CHECK(recorded.num_joint_replays == 0);
  CHECK(recorded.num_replays == 4 * num_compute(program));
  CHECK(is_identical(recorded.trained, trained_on_cores(model, program, {7})));
}

// Some workers send what they get. Backward there may have nothing to do.
TEST_CASE("stages that only pass messages on are recorded") {
  for (const int num_first : {0, 1, 2}) {
    Sketch sketch("passing");
    Source x = sketch.input("features", {6});
    const Source target = sketch.indices("target", {});
    for (int i = 0; i < num_first; ++i) x = sketch.add(LayerKind::Flatten, {x});
    x = sketch.add(LayerKind::Linear, {x},
                   {{"out_features", std::int64_t{5}}, {"bias", false}});
    for (int i = num_first; i < 2; ++i) x = sketch.add(LayerKind::Flatten, {x});
    sketch.add(LayerKind::CrossEntropy, {x, target});
    const Model model = sketch.build();
    for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
      CAPTURE(num_first);
      CAPTURE(schedule);
      const Program program = program_of(model, schedule, 4);
      const RecordedRun recorded = trained_on_logs(model, program, {9});
      CHECK(recorded.why_not == "");
      CHECK(recorded.num_joint_replays == 9 - kStepsApart);
      CHECK(is_identical(recorded.trained,
                         trained_on_cores(model, program, {9})));
    }
  }
}

TEST_CASE("workers record alone if one of them cannot") {
  const Model model = recordable(4, 0.5);
  const Program program = program_of(model, "1f1b", 3);
  const RecordedRun recorded = trained_on_logs(model, program, {4, 6});
  CHECK(recorded.why_not == "a layer draws random numbers");
  CHECK(recorded.num_joint_replays == 0);
  CHECK(recorded.num_replays > 0);
  CHECK(
      is_identical(recorded.trained, trained_on_cores(model, program, {4, 6})));
}

TEST_CASE("what a device cannot record it is given kernel by kernel") {
  const Model model = recordable();
  const Program program = program_of(model, "1f1b", 2);
  const RecordedRun recorded = trained_on_logs(model, program, {9}, 1);
  CHECK(recorded.why_not == "the device cannot record an action: not recorded");
  CHECK(recorded.num_replays == 0);
  CHECK(is_identical(recorded.trained, trained_on_cores(model, program, {9})));
}

// Else the watch takes a worker that sends nothing for one that hangs.
TEST_CASE("a device is seen to get on, step by step, though none is timed") {
  const Model model = recordable();
  TrainingSettings settings = settings_for_tests();
  settings.may_record = false;
  Executor::Devices devices;
  devices.push_back(std::make_unique<LoggingDevice>());
  const auto& log = static_cast<const LoggingDevice&>(*devices.front());
  Executor executor(model, program_of(model, "1f1b", 1), settings, nullptr,
                    std::move(devices));
  REQUIRE(executor.run(random_source(model, kMicrobatch), 9).ok());
  CHECK(log.num_moments() >= 9);
}

// Of the worker's step, after all rehearsals. The others go on alone.
TEST_CASE(
    "a recording that fails leaves a step that goes on kernel by kernel") {
  const Model model = recordable();
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"})
    for (const int workers : {1, 3}) {
      const Program program = program_of(model, schedule, workers);
      const int of_step = num_compute(program.workers[0]);
      const int rehearsals = recordings_of_first(model, program) - of_step;
      for (const int failing : {0, 1, of_step / 2, of_step - 1}) {
        CAPTURE(schedule);
        CAPTURE(workers);
        CAPTURE(failing);
        Executor::Devices devices;
        for (int w = 0; w < workers; ++w)
          devices.push_back(std::make_unique<LoggingDevice>(
              w == 0 ? rehearsals + failing : 1 << 30));
        Executor executor(model, program, settings_for_tests(), nullptr,
                          std::move(devices));
        for (const int steps : {4, 6})
          REQUIRE(executor.run(random_source(model, kMicrobatch), steps).ok());
        CHECK(executor.why_not_recorded() ==
              "the device cannot record an action: not recorded");
        CHECK(executor.num_values_held() == 0);
        CHECK(executor.is_settled());
        CHECK(is_identical(executor.trained(),
                           trained_on_cores(model, program, {4, 6})));
      }
    }
}

// Nothing of the step that failed is left, the memory of recordings neither.
TEST_CASE("a step that fails while it is recorded is begun again") {
  const Model model = recordable();
  const Program program = program_of(model, "1f1b", 2);
  Executor::Devices devices;
  std::vector<const LoggingDevice*> logs;
  for (int w = 0; w < program.num_workers(); ++w) {
    auto device = std::make_unique<LoggingDevice>();
    logs.push_back(device.get());
    devices.push_back(std::move(device));
  }
  Executor executor(model, program, settings_for_tests(), nullptr,
                    std::move(devices));
  const MicrobatchSource good = random_source(model, kMicrobatch);
  const MicrobatchSource bad = [&](std::size_t input, std::int64_t microbatch) {
    at::Tensor sample = good(input, microbatch);
    if (sample.is_floating_point() && microbatch == 3 * kMicrobatches)
      sample = at::full_like(sample, NAN);
    return sample;
  };
  REQUIRE(executor.run(good, kStepsApart - 1).ok());
  const Result<Executed> failed = executor.run(bad, 1);
  REQUIRE(!failed.ok());
  CHECK(failed.error().code == ErrorCode::LossNotFinite);
  for (int i = 0; i < 2; ++i) {
    const Result<Executed> run = executor.run(good, kStepsApart);
    REQUIRE_MESSAGE(run.ok(), (run.ok() ? "" : run.error().to_text()));
  }
  CHECK(executor.why_not_recorded() == "");
  CHECK(executor.recorded_as() == "one for the step of all workers");
  for (const LoggingDevice* log : logs) CHECK(log->num_replays() > 0);
}

TEST_CASE("random numbers, replicas and tied weights are not recorded") {
  const RecordedRun drawn =
      trained_on_logs(small_cnn(), program_of(small_cnn(), "1f1b", 1), {6});
  CHECK(drawn.why_not == "a layer draws random numbers");
  CHECK(drawn.num_recordings == 0);
  const RecordedRun tied =
      trained_on_logs(small_gpt(), program_of(small_gpt(), "1f1b", 2), {6});
  CHECK(tied.why_not == "a stage has replicas or tied weights");
  CHECK(tied.num_recordings == 0);
}

// What a frozen layer's user sends back has no tensor.
TEST_CASE("replayed actions drop what arrived, tensors or none") {
  const Model& model = exported_models().at("mixed");
  Executor::Devices devices;
  for (int w = 0; w < 4; ++w)
    devices.push_back(std::make_unique<LoggingDevice>(1 << 30));
  Executor executor(model, program_of(model, "1f1b", 4), settings_for_tests(),
                    nullptr, std::move(devices));
  REQUIRE(executor.run(exported_source(model, kMicrobatch), 9).ok());
  CHECK(executor.why_not_recorded() == "");
  CHECK(executor.num_values_held() == 0);
}

}  // namespace
}  // namespace pipewright
