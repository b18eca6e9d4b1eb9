// Samples that another process hands over: a thread stands in for it.

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <set>
#include <thread>

#include "pipewright/runtime/data/training_samples.h"
#include "tests/runtime/execution/async_cases.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

constexpr int kMicrobatch = 3, kMicrobatches = 4, kSteps = 12;
constexpr int kSamples = kMicrobatch * kMicrobatches;

// 5 features and a target.
Model fed_model() {
  return load_model("mlp:features=5,hidden=4,classes=7").value();
}

float feature(std::int64_t step, std::int64_t place) {
  return static_cast<float>(1000 * step + place);
}
std::int64_t target(std::int64_t step, std::int64_t sample) {
  return 100 * step + sample;
}

// Answers as training_samples.h says, for the steps before `end`.
class FeedingThread {
 public:
  explicit FeedingThread(std::int64_t end) : end_(end) {
    std::array<int, 2> sockets = {};
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()) == 0);
    file_ = ::memfd_create("fed", 0);
    socket_ = sockets[0];
    const std::string text =
        std::to_string(sockets[1]) + "," + std::to_string(::dup(file_));
    ::setenv("PIPEWRIGHT_FEED", text.c_str(), 1);
    thread_ = std::thread([this] { run(); });
  }
  ~FeedingThread() {
    if (thread_.joinable()) thread_.join();
    ::close(socket_);
    ::close(file_);
    ::unsetenv("PIPEWRIGHT_FEED");
  }

  std::atomic<int> num_asked = 0;

  // Where minibatches were wanted. The other end of the socket is closed.
  std::size_t num_places() {
    thread_.join();
    return places_.size();
  }

 private:
  void run() {
    std::array<std::int64_t, 2> asked = {};
    while (::recv(socket_, asked.data(), sizeof(asked), MSG_WAITALL) ==
           static_cast<ssize_t>(sizeof(asked))) {
      if (asked[0] >= end_) break;
      CHECK(asked[0] == first_ + num_asked);
      ++num_asked;
      places_.insert(asked[1]);
      write(asked[0], asked[1]);
      if (::send(socket_, asked.data(), 8, MSG_NOSIGNAL) != 8) break;
    }
    ::shutdown(socket_, SHUT_RDWR);
  }

  void write(std::int64_t step, std::int64_t offset) const {
    std::array<float, kSamples* 5> features = {};
    for (std::size_t i = 0; i < features.size(); ++i)
      features[i] = feature(step, static_cast<std::int64_t>(i));
    std::array<std::int64_t, kSamples> targets = {};
    for (std::size_t i = 0; i < targets.size(); ++i)
      targets[i] = target(step, static_cast<std::int64_t>(i));
    constexpr std::int64_t kSecond = 256;  // 240 bytes, rounded up to 64
    CHECK(::pwrite(file_, features.data(), sizeof(features), offset) == 240);
    CHECK(::pwrite(file_, targets.data(), sizeof(targets), offset + kSecond) ==
          static_cast<ssize_t>(sizeof(targets)));
  }

  const std::int64_t end_;
  const std::int64_t first_ = 2;
  int socket_ = -1, file_ = -1;
  std::set<std::int64_t> places_;
  std::thread thread_;
};

SampleRequest request_of(std::int64_t reads) {
  SampleRequest request;
  request.microbatch = kMicrobatch;
  request.num_microbatches = kMicrobatches;
  request.first = 2;
  request.end = kSteps;
  request.num_reads = [reads](std::int64_t) { return reads; };
  return request;
}

bool is_right(int input, std::int64_t microbatch, const at::Tensor& samples) {
  const std::int64_t step = microbatch / kMicrobatches;
  const std::int64_t first = microbatch % kMicrobatches * kMicrobatch;
  if (input == 0)
    return samples.equal(
        at::arange(kMicrobatch * 5, at::kFloat).view({kMicrobatch, 5}) +
        feature(step, first * 5));
  return samples.equal(at::arange(kMicrobatch, at::kLong) +
                       target(step, first));
}

TEST_CASE("samples come in order, and few are in memory") {
  FeedingThread feeding(kSteps);
  auto samples = fed_samples(fed_model()).value();
  const MicrobatchSource source =
      samples->microbatches(request_of(2 * kMicrobatches));
  for (std::int64_t m = 2 * kMicrobatches; m < kSteps * kMicrobatches; ++m)
    for (const int input : {0, 1}) {
      CHECK(is_right(input, m, source(input, m)));
      CHECK(feeding.num_asked <= m / kMicrobatches - 2 + 3);  // two ahead
    }
  samples.reset();
  CHECK(feeding.num_places() <= 4);
  CHECK(feeding.num_asked == kSteps - 2);  // none after the last step
}

TEST_CASE("one reader may be far ahead, and a tensor keeps its samples") {
  FeedingThread feeding(kSteps);
  const auto samples = fed_samples(fed_model()).value();
  const MicrobatchSource source =
      samples->microbatches(request_of(2 * kMicrobatches));
  std::vector<at::Tensor> held;
  std::thread ahead([&] {
    for (std::int64_t m = 2 * kMicrobatches; m < kSteps * kMicrobatches; ++m)
      held.push_back(source(0, m));
  });
  ahead.join();
  for (std::int64_t m = 2 * kMicrobatches; m < kSteps * kMicrobatches; ++m) {
    CHECK(is_right(1, m, source(1, m)));
    CHECK(
        is_right(0, m, held[static_cast<std::size_t>(m) - 2 * kMicrobatches]));
  }
}

TEST_CASE("data that ends is an error where it is missing") {
  FeedingThread feeding(5);
  const auto samples = fed_samples(fed_model()).value();
  const MicrobatchSource source = samples->microbatches(request_of(1000));
  CHECK(is_right(0, 5 * kMicrobatches - 1, source(0, 5 * kMicrobatches - 1)));
  CHECK_THROWS_WITH(source(0, 5 * kMicrobatches),
                    "the data ended before the samples of step 6");
}

TEST_CASE("whether a step has samples is known before they are read") {
  FeedingThread feeding(5);
  const auto samples = fed_samples(fed_model()).value();
  const MicrobatchSource source =
      samples->microbatches(request_of(2 * kMicrobatches));
  CHECK(samples->has_step(2));
  std::thread other([&] { CHECK(!samples->has_step(5)); });
  CHECK(!samples->has_step(6));
  other.join();
  CHECK(samples->has_step(4));
  for (std::int64_t m = 2 * kMicrobatches; m < 5 * kMicrobatches; ++m)
    for (const int input : {0, 1}) CHECK(is_right(input, m, source(input, m)));
}

TEST_CASE("without a process that hands samples over there are none") {
  for (const char* text :
       {"", "7", "x,y", "-1,-1", "1,999999", "1,9999999999"}) {
    ::setenv("PIPEWRIGHT_FEED", text, 1);
    CHECK(fed_samples(fed_model()).error().code == ErrorCode::BadConfiguration);
  }
  ::unsetenv("PIPEWRIGHT_FEED");
  CHECK(!fed_samples(fed_model()).ok());
}

// Runs it for some steps.
void check_reads(const Model& model, const Program& program) {
  std::atomic<std::int64_t> count = 0;
  const MicrobatchSource random = random_source(model, program.microbatch);
  Executor executor(model, program, async_settings());
  const int minibatches = program.minibatches_outside + 2;
  const auto run = executor.run(
      [&](int input, std::int64_t microbatch) {
        ++count;
        return random(input, microbatch);
      },
      minibatches);
  CHECK(run.ok());
  CHECK(count == minibatches * sample_reads(model, program));
}

TEST_CASE("every schedule asks for samples as often as its program says") {
  int num_programs = 0;
  const Model model = small_gpt();
  for (const ScheduleGenerator& generator : schedule_generators())
    for (const bool recompute : {false, true}) {
      const auto schedule = generated_if_possible(generator.name, 2, 4);
      if (!schedule || schedule->num_stages() > model.num_layers()) continue;
      if (schedule->is_asynchronous()) continue;
      CAPTURE(generator.name);
      CAPTURE(recompute);
      Plan plan = plan_of(model, *schedule, 2);
      for (Stage& stage : plan.stages) stage.recompute = recompute;
      const auto program = lower(plan, profile_of(model, 2));
      if (!program) continue;  // recomputes where that cannot be
      check_reads(model, *program);
      ++num_programs;
    }
  CHECK(num_programs > 10);
}

TEST_CASE("asynchronous programs do so, too") {
  const Model model = small_mlp();
  for (const Method method : {Method::Stash, Method::TwoBw, Method::PipeMare})
    for (const int workers : {1, 2, 3}) {
      CAPTURE(to_text(method));
      CAPTURE(workers);
      check_reads(model, lowered(model, async_plan(model, method, workers,
                                                   workers, 4)));
    }
}

}  // namespace
}  // namespace pipewright
