// NotFinitePolicy: a fault that does not come back leaves no trace in a
// training that repeats, one that does leaves out its step, and nothing else
// changes: same bits, whatever the schedule, and wherever training resumes.

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/runtime/ranks/watched_transport.h"
#include "pipewright/runtime/training/trainer.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

constexpr int kSteps = 12, kBad = 8;

struct Fault {
  NotFinitePolicy policy = NotFinitePolicy::Stop;
  std::string inject;  // "": none
};

Result<TrainReport> trained_with(const Model& model, TrainRequest request,
                                 const Fault& fault,
                                 std::vector<std::string>* said = nullptr) {
  Progress progress;
  std::optional<Injection> injection;
  if (!fault.inject.empty()) injection = parse_injection(fault.inject).value();
  const auto transport =
      watched_transport(in_process_transport(), progress, injection);
  request.transport = transport.get();
  request.not_finite = fault.policy;
  TrainHooks hooks;
  hooks.on_warning = [said](const std::string& text) {
    if (said) said->push_back(text);
  };
  return train(model, request, hooks);
}

// The layers of a checkpoint: weights, optimizer's state, statistics. The
// manifest has the step.
std::string layers_at(const fs::path& run, int step) {
  const fs::path folder =
      run / "checkpoints" / ("step-" + std::to_string(step));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors")
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 2);
  std::string all;
  for (const fs::path& file : files) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    all += text.str();
  }
  return all;
}

// By step: its loss, or "skipped".
std::map<std::int64_t, std::string> metrics_of(const fs::path& run) {
  std::map<std::int64_t, std::string> found;
  std::istringstream lines(read_file(run / "metrics.jsonl").value());
  for (std::string line; std::getline(lines, line);) {
    const Json json = parse_json(line, "line").value();
    const auto step = std::get<std::int64_t>(json.find("step")->value());
    CHECK(found.count(step) == 0);
    found[step] =
        json.find("skipped") ? "skipped" : json.find("loss")->to_line();
  }
  return found;
}

TrainRequest request_of(const Model& model, const std::string& schedule,
                        const std::string& optimizer, const fs::path& run) {
  TrainRequest request = request_for(model, schedule, 2, 4, run);
  request.optimizer.name = optimizer;
  request.steps = kSteps;
  return request;
}

std::string nan_at(const std::string& action, const std::string& more = "") {
  return "nan:rank=1,step=" + std::to_string(kBad) + ",action=" + action + more;
}

// Of a forward the loss is not finite, of a backward gradients are.
void for_all_faults(const std::function<void(const Model&, const TrainRequest&,
                                             const std::string& action,
                                             const fs::path& folder)>& check) {
  int number = 0;
  for (const Model& model : {small_mlp(), small_cnn()})
    for (const char* schedule : {"1f1b", "gpipe", "zb-h1"})
      for (const char* optimizer : {"sgd", "adam"}) {
        const char* action = ++number % 2 == 0                  ? "F1"
                             : std::string(schedule) == "zb-h1" ? "I2"
                                                                : "B2";
        CAPTURE(std::string(schedule));
        CAPTURE(std::string(optimizer));
        CAPTURE(std::string(action));
        const TemporaryFolder folder("policy");
        check(model,
              request_of(model, schedule, optimizer, folder.path() / "run"),
              action, folder.path());
      }
}

TEST_CASE("repeat: a fault that does not come back leaves no trace") {
  for_all_faults([](const Model& model, TrainRequest request,
                    const std::string& action, const fs::path& folder) {
    std::vector<std::string> said;
    const Result<TrainReport> report = trained_with(
        model, request, {NotFinitePolicy::Repeat, nan_at(action, ",times=1")},
        &said);
    REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().to_text()));
    CHECK(report->repeated == 1);
    CHECK(report->skipped == 0);
    REQUIRE(said.size() == 2);
    CHECK(said[0].find("repeats what follows") != std::string::npos);
    CHECK(said[1].find("has not come back") != std::string::npos);
    const fs::path with_fault = request.run;
    request.run = folder / "whole";
    REQUIRE(trained_with(model, request, {}).ok());
    CHECK((layers_at(with_fault, kSteps) == layers_at(request.run, kSteps)));
    CHECK(metrics_of(with_fault) == metrics_of(request.run));
  });
}

TEST_CASE("repeat: a fault that comes back ends training, as stop does") {
  for_all_faults([](const Model& model, TrainRequest request,
                    const std::string& action, const fs::path&) {
    const Result<TrainReport> report =
        trained_with(model, request, {NotFinitePolicy::Repeat, nan_at(action)});
    REQUIRE(!report.ok());
    CHECK(report.error().code == ErrorCode::LossNotFinite);
    CHECK(report.error().message.find("also when it was repeated") !=
          std::string::npos);
    CHECK(fs::exists(request.run / "checkpoints" / "step-7"));
    CHECK(metrics_of(request.run).size() == kBad - 1);
  });
}

TEST_CASE("skip: the step changes nothing, and the others what they would") {
  for_all_faults([](const Model& model, TrainRequest request,
                    const std::string& action, const fs::path& folder) {
    const Fault fault{NotFinitePolicy::Skip, nan_at(action)};
    const Result<TrainReport> whole = trained_with(model, request, fault);
    REQUIRE_MESSAGE(whole.ok(), (whole.ok() ? "" : whole.error().to_text()));
    CHECK(whole->skipped == 1);
    CHECK(whole->repeated == 0);
    CHECK(whole->steps == kSteps);
    const auto metrics = metrics_of(request.run);
    CHECK(metrics.size() == kSteps);
    CHECK(metrics.at(kBad) == "skipped");

    // Up to the bad step; then a new process without the fault.
    TrainRequest again = request;
    again.run = folder / "again";
    again.steps = kBad;
    again.checkpoint_every = 1;
    REQUIRE(trained_with(model, again, fault).ok());
    CHECK((layers_at(again.run, kBad) == layers_at(again.run, kBad - 1)));
    again.resume = true;
    again.steps = kSteps;
    REQUIRE(trained_with(model, again, {}).ok());
    CHECK((layers_at(again.run, kSteps) == layers_at(request.run, kSteps)));
    CHECK(metrics_of(again.run) == metrics);
  });
}

TEST_CASE("skip: a fault that does not come back costs no step") {
  const TemporaryFolder folder("once");
  const Model model = small_mlp();
  TrainRequest request =
      request_of(model, "1f1b", "adam", folder.path() / "run");
  const auto report = trained_with(
      model, request, {NotFinitePolicy::Skip, nan_at("B1", ",times=1")});
  REQUIRE(report.ok());
  CHECK(report->skipped == 0);
  CHECK(report->repeated == 1);
}

// Larger than what is remembered without being asked to.
TEST_CASE("skip: however large the optimizer's state is") {
  Sketch sketch("wide");
  Source x = sketch.input("image", {2, 6});
  const Source target = sketch.indices("target", {});
  x = sketch.add(LayerKind::Flatten, {x});
  x = sketch.add(LayerKind::Relu, {sketch.linear(x, 1100)});
  x = sketch.add(LayerKind::Relu, {sketch.linear(x, 1100)});
  x = sketch.linear(x, 1100);
  x = sketch.linear(x, 5);
  sketch.add(LayerKind::CrossEntropy, {x, target});
  const Model model = sketch.build();
  const TemporaryFolder folder("wide");
  TrainRequest request =
      request_of(model, "1f1b", "adam", folder.path() / "run");
  request.checkpoint_every = kBad - 1;
  request.steps = kBad + 1;
  const auto report =
      trained_with(model, request, {NotFinitePolicy::Skip, nan_at("B2")});
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().to_text()));
  CHECK(report->skipped == 1);
}

TEST_CASE("skip ends where steps are never finite again") {
  const TemporaryFolder folder("never");
  const Model model = small_mlp();
  TrainRequest request =
      request_of(model, "1f1b", "sgd", folder.path() / "run");
  request.steps = 400;
  request.rate = parse_learning_rate("step:5,1e30", 0.01, 0).value();
  const auto report = trained_with(model, request, {NotFinitePolicy::Skip, ""});
  REQUIRE(!report.ok());
  INFO(report.error().to_text());
  CHECK(report.error().code == ErrorCode::LossNotFinite);
  CHECK(report.error().message.find("the 10 steps before were skipped") !=
        std::string::npos);
  // One step that is not finite is no training.
  request.run = folder.path() / "one";
  request.steps = 1;
  CHECK(!trained_with(model, request,
                      {NotFinitePolicy::Skip, "nan:rank=1,step=1,action=F0"})
             .ok());
}

TEST_CASE("asynchronous methods only stop") {
  const TemporaryFolder folder("async");
  const Model model = small_mlp();
  TrainRequest request =
      request_for(model, "async-1f1b", 2, 4, folder.path(), Method::PipeMare);
  for (const NotFinitePolicy policy :
       {NotFinitePolicy::Repeat, NotFinitePolicy::Skip}) {
    const auto refused = trained_with(model, request, {policy, ""});
    REQUIRE(!refused.ok());
    CHECK(refused.error().code == ErrorCode::BadConfiguration);
    CHECK(refused.error().message.find("pipemare") != std::string::npos);
  }
}

}  // namespace
}  // namespace pipewright
