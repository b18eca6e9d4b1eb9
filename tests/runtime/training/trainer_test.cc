// train(): the run folder, resuming under another plan, and errors.

#include "pipewright/runtime/training/trainer.h"

#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

TrainReport trained(const Model& model, const TrainRequest& request) {
  const Result<TrainReport> report = train(model, request);
  REQUIRE_MESSAGE(report.ok(), (report.ok() ? "" : report.error().to_text()));
  return *report;
}

// Every byte of the checkpoint of a step.
std::string checkpoint_bytes(const fs::path& run, int step) {
  std::string all;
  const fs::path folder =
      run / "checkpoints" / ("step-" + std::to_string(step));
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder))
    files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 2);
  for (const fs::path& file : files) {
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    all += text.str();
  }
  return all;
}

std::vector<double> numbers_in(const Json& line, const char* key) {
  std::vector<double> numbers;
  for (const Json& each : *line.find(key)->if_array()) {
    const auto* whole = std::get_if<std::int64_t>(&each.value());
    numbers.push_back(whole ? static_cast<double>(*whole)
                            : std::get<double>(each.value()));
  }
  return numbers;
}

// A line per piece, the last with what the report says of the last piece.
void check_pieces(const TrainRequest& request, const TrainReport& report) {
  std::istringstream lines(read_file(request.run / "pieces.jsonl").value());
  std::int64_t before = 0;
  Json last;
  for (std::string line; std::getline(lines, line);) {
    last = parse_json(line, "line").value();
    const auto step = std::get<std::int64_t>(last.find("step")->value());
    CHECK(step > before);
    before = step;
  }
  REQUIRE(before == 12);
  const auto& workers = report.timeline.workers;
  const std::vector<double> busy = numbers_in(last, "busy"),
                            memory = numbers_in(last, "memory_bytes");
  REQUIRE(busy.size() == workers.size());
  REQUIRE(memory.size() == workers.size());
  for (std::size_t w = 0; w < workers.size(); ++w) {
    CHECK(busy[w] == workers[w].busy / report.timeline.duration);
    CHECK(memory[w] == static_cast<double>(workers[w].peak.total().value()));
  }
  const std::vector<double> rates = numbers_in(last, "rates");
  REQUIRE(rates.size() == request.plan.stages.size());
  for (double rate : rates) CHECK(rate == request.rate.at(12, 12));
}

TEST_CASE("a run leaves plan, metrics, pieces, trace, summary and checkpoint") {
  const TemporaryFolder folder("train");
  const Model model = small_mlp();
  const TrainRequest request =
      request_for(model, "1f1b", 2, 4, folder.path() / "run");
  std::vector<StepReport> steps;
  TrainHooks hooks;
  hooks.on_step = [&](const StepReport& step) { steps.push_back(step); };
  const TrainReport report = train(model, request, hooks).value();
  CHECK(report.steps == 12);
  REQUIRE(steps.size() == 12);
  for (int i = 0; i < 12; ++i) CHECK(steps[i].step == i + 1);
  CHECK(report.last_loss == steps.back().loss);
  CHECK(report.step_seconds > Seconds(0));
  CHECK(report.timeline.workers.size() == 2);
  for (const char* name : {"plan.json", "trace.json", "summary.json"}) {
    const auto text = read_file(request.run / name);
    REQUIRE(text.ok());
    CHECK(parse_json(*text, name).ok());
  }
  std::istringstream lines(read_file(request.run / "metrics.jsonl").value());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json json = parse_json(line, "line").value();
    CHECK(std::get<double>(json.find("loss")->value()) == steps[count].loss);
  }
  CHECK(count == 12);
  CHECK(fs::exists(request.run / "checkpoints/step-12/manifest.json"));
  check_pieces(request, report);
}

TEST_CASE("resuming under another plan changes no bit") {
  for (const Model& model :
       {small_cnn(), small_gpt(), small_gpt(NumberType::BFloat16)})
    for (const char* optimizer : {"sgd", "adamw"}) {
      CAPTURE(model.name());
      CAPTURE(optimizer);
      const TemporaryFolder folder("resume");
      TrainRequest whole =
          request_for(model, "1f1b", 2, 4, folder.path() / "whole");
      whole.optimizer.name = optimizer;
      trained(model, whole);

      TrainRequest first =
          request_for(model, "gpipe", 3, 4, folder.path() / "parts");
      first.optimizer.name = optimizer;
      first.steps = 5;
      trained(model, first);
      TrainRequest rest =
          request_for(model, "interleaved", 2, 4, folder.path() / "parts");
      rest.optimizer.name = optimizer;
      rest.resume = true;
      const TrainReport report = trained(model, rest);
      CHECK(report.first_step == 5);
      CHECK(report.steps == 12);
      CHECK(
          (checkpoint_bytes(whole.run, 12) == checkpoint_bytes(rest.run, 12)));
    }
}

TEST_CASE("checkpoints along the way; the last two are kept") {
  const TemporaryFolder folder("kept");
  const Model model = small_mlp();
  TrainRequest request = request_for(model, "1f1b", 2, 2, folder.path());
  request.checkpoint_every = 3;
  request.steps = 11;
  trained(model, request);
  std::set<std::string> names;
  for (const auto& entry :
       fs::directory_iterator(folder.path() / "checkpoints"))
    names.insert(entry.path().filename().string());
  CHECK((names == std::set<std::string>{"step-9", "step-11"}));
}

TEST_CASE("asynchronous methods train in pieces, too, and go on") {
  const TemporaryFolder folder("async");
  const Model model = small_mlp();
  for (const Method method : {Method::PipeMare, Method::Stash}) {
    const auto request = [&](const std::string& name) {
      TrainRequest made =
          request_for(model, "async-1f1b", 3, 4,
                      folder.path() / name / to_text(method), method);
      made.checkpoint_every = 6;
      return made;
    };
    trained(model, request("whole"));
    TrainRequest first = request("parts");
    first.steps = 6;
    trained(model, first);
    TrainRequest rest = request("parts");
    rest.resume = true;
    trained(model, rest);
    CHECK((checkpoint_bytes(request("whole").run, 12) ==
           checkpoint_bytes(rest.run, 12)));
  }
}

TEST_CASE("a signal ends the run after the step, with a checkpoint") {
  const TemporaryFolder folder("signal");
  const Model model = small_mlp();
  TrainRequest request = request_for(model, "1f1b", 2, 2, folder.path());
  request.steps = 1000000;
  TrainHooks hooks;
  hooks.signal = [] { return 15; };
  const TrainReport report = train(model, request, hooks).value();
  CHECK(report.signal == 15);
  CHECK(report.steps == 1);
  CHECK(fs::exists(folder.path() / "checkpoints/step-1/manifest.json"));
}

TEST_CASE("steps are reported while a piece runs, with their own times") {
  const TemporaryFolder folder("live");
  const Model model = small_mlp();
  TrainRequest request = request_for(model, "1f1b", 2, 2, folder.path());
  request.steps = 200;
  std::vector<StepReport> steps;
  TrainHooks hooks;
  hooks.on_step = [&steps](const StepReport& step) { steps.push_back(step); };
  const TrainReport report = train(model, request, hooks).value();
  REQUIRE(steps.size() == 200);
  std::set<double> times;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    CHECK(steps[i].step == static_cast<std::int64_t>(i) + 1);
    CHECK(steps[i].seconds > Seconds(0));
    times.insert(steps[i].seconds.value());
  }
  CHECK(times.size() > 100);  // measured one by one
  CHECK(!steps.front().bubble);
  CHECK(steps.back().bubble);
  CHECK(steps.back().loss == report.last_loss);
}

TEST_CASE("a loss that jumps is a warning") {
  const TemporaryFolder folder("spike");
  const Model model = small_mlp();
  TrainRequest request = request_for(model, "1f1b", 2, 2, folder.path());
  request.steps = 60;
  const auto warnings = [&] {
    std::vector<std::string> found;
    TrainHooks hooks;
    hooks.on_warning = [&found](const std::string& text) {
      found.push_back(text);
    };
    REQUIRE(train(model, request, hooks).ok());
    return found;
  };
  request.rate.rate = 0.001;
  CHECK(warnings().empty());
  // From step 41 on the rate is far too large.
  request.run = folder.path() / "jump";
  request.steps = 50;
  request.rate.shape = LearningRate::Shape::Step;
  request.rate.every = 40;
  request.rate.factor = 2000;
  const auto found = warnings();
  REQUIRE(!found.empty());
  CHECK(found[0].find("times the median of the 32 steps before") !=
        std::string::npos);
}

TEST_CASE("a loss that is NaN: exit code 79, the checkpoint is kept") {
  const TemporaryFolder folder("nan");
  const Model model = small_mlp();
  TrainRequest request = request_for(model, "1f1b", 2, 2, folder.path());
  request.steps = 2;
  trained(model, request);
  request.resume = true;
  request.steps = 500;
  request.rate.rate = 1e30;
  const Result<TrainReport> report = train(model, request);
  REQUIRE(!report.ok());
  CHECK(report.error().code == ErrorCode::LossNotFinite);
  CHECK(report.error().hint.find("kept in") != std::string::npos);
  CHECK(fs::exists(folder.path() / "checkpoints/step-2/manifest.json"));
}

// The rate becomes too large in the middle of a piece of many steps.
TEST_CASE("a loss that is NaN: the last good step is saved") {
  const Model model = small_cnn();
  const TemporaryFolder folder("good");
  TrainRequest request =
      request_for(model, "1f1b", 2, 2, folder.path() / "whole");
  request.optimizer.momentum = 0;
  request.steps = 400;
  request.rate = parse_learning_rate("step:100,1e20", 0.01, 0).value();
  const Result<TrainReport> lost = train(model, request);
  REQUIRE(!lost.ok());
  INFO(lost.error().to_text());
  CHECK(lost.error().code == ErrorCode::LossNotFinite);
  // The first step at the new rate still starts from a finite loss; how many
  // more do depends on the kernels.
  const std::string& hint = lost.error().hint;
  const auto place = hint.find("the weights of step ");
  REQUIRE(place != std::string::npos);
  const int last = std::stoi(hint.substr(place + 20));
  // ... and if the weights themselves are NaN, the state is that before the
  // last piece.
  CHECK(last > 100 - 64);
  CHECK(last < 110);
  std::istringstream lines(read_file(request.run / "metrics.jsonl").value());
  int count = 0;
  for (std::string line; std::getline(lines, line);) ++count;
  CHECK(count == last);

  // The same bits as a run that was told to stop there.
  TrainRequest plain = request;
  plain.run = folder.path() / "plain";
  plain.steps = last;
  trained(model, plain);
  CHECK((checkpoint_bytes(plain.run, last) ==
         checkpoint_bytes(request.run, last)));
}

TEST_CASE("held-out samples are evaluated every epoch and at the end") {
  const Model model = small_cnn();
  const TemporaryFolder folder("held-out");
  for (const bool share : {true, false}) {
    TrainRequest request =
        request_for(model, "1f1b", 2, 4, folder.path() / (share ? "a" : "b"));
    request.data = "synthetic:60";
    if (share)
      request.held_out_share = 0.2;
    else
      request.held_out_data = "synthetic:12";
    request.steps = 10;
    std::vector<std::int64_t> seen;
    TrainHooks hooks;
    hooks.on_evaluation = [&](const Evaluation& e) {
      CHECK(e.samples == 12);
      CHECK(e.accuracy.has_value());
      seen.push_back(e.step);
    };
    const TrainReport report = train(model, request, hooks).value();
    // 48 samples an epoch are 3 steps of 16; 60 are 3.75.
    CHECK((seen == (share ? std::vector<std::int64_t>{3, 6, 9, 10}
                          : std::vector<std::int64_t>{4, 8, 10})));
    const std::string summary = read_file(request.run / "summary.json").value();
    const Json json = parse_json(summary, "summary").value();
    REQUIRE(json.find("evaluation"));
    CHECK(std::get<double>(json.find("evaluation")->find("loss")->value()) ==
          report.evaluation->loss);
    CHECK(
        read_file(request.run / "metrics.jsonl").value().find("\"accuracy\"") !=
        std::string::npos);
  }
}

TEST_CASE("evaluating during training changes no weight") {
  const Model model = small_cnn();
  const TemporaryFolder folder("watched");
  TrainRequest plain = request_for(model, "1f1b", 2, 4, folder.path() / "a");
  trained(model, plain);
  TrainRequest watched = plain;
  watched.run = folder.path() / "b";
  watched.held_out_data = "synthetic:5";
  watched.evaluate_every = 2;
  trained(model, watched);
  CHECK((checkpoint_bytes(plain.run, 12) == checkpoint_bytes(watched.run, 12)));
}

// A link to a device that is always full stands for a full disk.
TEST_CASE("metrics that cannot be written are a warning, once") {
  const TemporaryFolder folder("full");
  const Model model = small_mlp();
  fs::create_symlink("/dev/full", folder.path() / "metrics.jsonl");
  std::vector<std::string> warnings;
  TrainHooks hooks;
  hooks.on_warning = [&](const std::string& text) { warnings.push_back(text); };
  const TrainRequest request = request_for(model, "1f1b", 2, 2, folder.path());
  CHECK(train(model, request, hooks).ok());
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].find("metrics.jsonl") != std::string::npos);
}

TEST_CASE("what cannot be trained is refused before the first step") {
  const TemporaryFolder folder("refused");
  const Model model = small_mlp();
  const auto refused = [&](TrainRequest request, ErrorCode code,
                           const std::string& part) {
    const Result<TrainReport> report = train(model, request);
    REQUIRE(!report.ok());
    INFO(report.error().to_text());
    CHECK(report.error().code == code);
    CHECK(report.error().to_text().find(part) != std::string::npos);
    CHECK(!fs::exists(request.run / "checkpoints"));
  };
  const TrainRequest good =
      request_for(model, "1f1b", 2, 2, folder.path() / "run");
  TrainRequest bad = good;
  std::ofstream(folder.path() / "file") << "x";
  bad.run = folder.path() / "file" / "run";
  refused(bad, ErrorCode::CannotCreate, "file/run");
  bad = good;
  bad.data = "digits";
  refused(bad, ErrorCode::BadConfiguration, "8x8, the model mlp needs 2x6");
  bad = good;
  bad.optimizer.name = "adagrad";
  refused(bad, ErrorCode::BadConfiguration, "adagrad");
  bad = good;
  bad.resume = true;
  refused(bad, ErrorCode::MissingInput, "no checkpoint");
  trained(model, good);
  const Result<TrainReport> again = train(model, good);
  REQUIRE(!again.ok());
  CHECK(again.error().hint.find("--resume") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
