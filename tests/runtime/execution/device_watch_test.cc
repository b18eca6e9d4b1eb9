// Devices that hang, and those that wait for them.

#include "pipewright/runtime/execution/device_watch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <future>
#include <memory>

#include "pipewright/runtime/devices/cpu_device.h"
#include "pipewright/runtime/devices/work_log.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/ranks/progress.h"
#include "pipewright/runtime/ranks/watched_transport.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

class SetMoment final : public Moment {
 public:
  bool has_passed() const override { return has_passed_; }
  void wait() const override {}
  void pass() { has_passed_ = true; }

 private:
  std::atomic<bool> has_passed_ = false;
};

Place at_step(int step) {
  return {WorkerId(2), StageId(1), ActionKind::Backward, step, 3};
}

struct Steps {
  WorkLog log;
  std::vector<std::shared_ptr<SetMoment>> moments;

  std::shared_ptr<SetMoment> added() {
    return moments.emplace_back(std::make_shared<SetMoment>());
  }
};

TEST_CASE("a log knows what a device is at, and whether it waits") {
  Steps steps;
  WorkLog& log = steps.log;
  CHECK(log.state().is_done);
  log.begin(at_step(7));
  log.add_point(steps.added());
  log.begin(at_step(8));
  log.add_wait(steps.added());
  log.add_point(steps.added());

  DeviceState state = log.state();
  CHECK(!state.is_done);
  CHECK(!state.waits);
  CHECK(state.place.step == 7);
  CHECK(state.num_passed == 0);

  steps.moments[0]->pass();
  state = log.state();
  CHECK(state.waits);
  CHECK(state.place.step == 8);
  CHECK(state.num_passed == 1);

  steps.moments[1]->pass();
  state = log.state();
  CHECK(!state.waits);
  CHECK(!state.is_done);
  steps.moments[2]->pass();
  CHECK(log.state().is_done);
  CHECK(log.state().num_passed == 3);
}

TEST_CASE("a log keeps no more than a device can be behind") {
  Steps steps;
  const auto first = steps.added();
  steps.log.add_point(first);
  for (std::size_t i = 0; i < WorkLog::kMaxEntries; ++i)
    steps.log.add_point(steps.added());
  CHECK(first.use_count() == 2);  // ours alone
  CHECK(steps.log.state().num_passed == 1);
}

// A core that keeps a log. It hangs where it is told to, until it is released.
class LoggedDevice final : public WorkerDevice {
 public:
  WorkLog* log() override { return &log_; }
  void suffer(DeviceFault) override {
    hang_ = std::make_shared<SetMoment>();
    log_.add_point(hang_);
  }
  void release() { hang_->pass(); }

  const std::string& kind() const override { return core_.kind(); }
  at::Device place() const override { return core_.place(); }
  void serve_this_thread() override { core_.serve_this_thread(); }
  bool computes_at_once() const override { return false; }
  bool reads_memory_of(const WorkerDevice&) const override { return true; }
  at::Tensor copy(const at::Tensor& tensor) override {
    return core_.copy(tensor);
  }
  MomentPointer moment() override { return nullptr; }
  void wait_for(const MomentPointer&) override {}
  void finish() override {
    while (hang_ && !hang_->has_passed()) std::this_thread::yield();
  }
  void start_clock(Clock::time_point start) override {
    core_.start_clock(start);
  }
  void stamp(Seconds& time) override { core_.stamp(time); }
  void take_over(const at::Tensor& tensor) override { core_.take_over(tensor); }
  Bytes held() const override { return core_.held(); }
  Bytes peak() const override { return core_.peak(); }
  Bytes reserved() const override { return core_.reserved(); }
  void restart_peak() override { core_.restart_peak(); }

 private:
  CpuDevice core_;
  WorkLog log_;
  std::shared_ptr<SetMoment> hang_;
};

TEST_CASE("of two devices that stand still the one that waits is not named") {
  LoggedDevice waiting, hanging;
  CpuDevice core;
  waiting.log()->begin(at_step(3));
  waiting.log()->add_wait(std::make_shared<SetMoment>());
  hanging.log()->begin(at_step(5));
  hanging.log()->add_point(std::make_shared<SetMoment>());
  std::promise<Error> named;
  std::atomic<bool> is_named = false, is_busy = false;
  const StallHooks stalls{[] { return Seconds(0.3); },
                          [&](bool busy) { is_busy = busy; },
                          [&](const Error& error) {
                            if (!is_named.exchange(true))
                              named.set_value(error);
                          }};
  {
    const DeviceWatch watch({{WorkerId(0), &waiting},
                             {WorkerId(1), &core},
                             {WorkerId(2), &hanging}},
                            stalls);
    const Error error = named.get_future().get();
    CHECK(error.code == ErrorCode::WorkerLost);
    CHECK(error.message.find("worker 2 on cpu has made no progress") == 0);
    CHECK(error.message.find("(limit 300 ms)") != std::string::npos);
    CHECK(error.where == text_with_worker(at_step(5)));
  }
  CHECK(!is_busy);
}

TEST_CASE("devices that get on or are done are not named") {
  LoggedDevice working, done;
  std::atomic<int> num_named = 0, num_busy = 0;
  const StallHooks stalls{[] { return Seconds(0.5); },
                          [&](bool busy) { num_busy += busy; },
                          [&](const Error&) { ++num_named; }};
  const DeviceWatch watch({{WorkerId(0), &working}, {WorkerId(1), &done}},
                          stalls);
  auto last = std::make_shared<SetMoment>();
  working.log()->add_point(last);
  for (int i = 0; i < 12; ++i) {  // 1.2 s, more than two limits
    auto next = std::make_shared<SetMoment>();
    working.log()->add_point(next);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    last->pass();
    last = next;
  }
  CHECK(num_named == 0);
  CHECK(num_busy > 0);
}

TEST_CASE("a training names the worker whose device hangs, and the action") {
  const Model model = small_mlp();
  const Program program =
      lower(plan_of(model, generated("1f1b", 2, 4), 4), profile_of(model, 4))
          .value();
  Executor::Devices devices;
  std::vector<LoggedDevice*> logged;
  for (int w = 0; w < 2; ++w) {
    auto device = std::make_unique<LoggedDevice>();
    logged.push_back(device.get());
    devices.push_back(std::move(device));
  }
  Progress progress;
  std::vector<Error> named;
  const auto transport = watched_transport(
      in_process_transport(), progress,
      parse_injection("hang:rank=1,step=2,action=B1").value(), {},
      {[] { return Seconds(0.3); },
       [&](bool busy) { progress.set_device_busy(busy); },
       [&](const Error& error) {
         named.push_back(error);
         logged[1]->release();
       }});
  Executor executor(model, program, settings_for_tests(), transport.get(),
                    std::move(devices));
  REQUIRE(executor.run(random_source(model, 4), 3).ok());
  REQUIRE(named.size() == 1);
  CHECK(named[0].message.find("worker 1 on cpu has made no progress") == 0);
  CHECK(named[0].where ==
        "step 2, worker 1, stage 1, backward of microbatch 1");
}

TEST_CASE("time between runs is no part of a step") {
  const Model model = small_mlp();
  const Program program =
      lower(plan_of(model, generated("1f1b", 2, 4), 4), profile_of(model, 4))
          .value();
  Progress progress;
  const auto transport =
      watched_transport(in_process_transport(), progress, std::nullopt, {}, {});
  Executor executor(model, program, settings_for_tests(), transport.get());
  REQUIRE(executor.run(random_source(model, 4), 2).ok());
  CHECK(progress.snapshot().phase == Phase::Between);
  const Seconds longest = progress.snapshot().longest_step;
  CHECK(longest > Seconds(0));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  progress.enter(Phase::Between);  // as the next run does
  CHECK(progress.snapshot().longest_step == longest);
}

TEST_CASE("the last step of a run counts as the mean of its steps") {
  Progress progress;
  const auto begin = [&](int step) {
    Action forward;
    forward.stage = StageId(0);
    progress.begin(WorkerId(0), forward, step, 1);
  };
  for (int step = 0; step < 10; ++step) begin(step);            // given ahead
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // and done
  progress.enter(Phase::Between);
  CHECK(progress.snapshot().longest_step >= Seconds(0.02));
  CHECK(progress.snapshot().longest_step < Seconds(0.1));
}

TEST_CASE("a worker whose device is busy waits") {
  Progress progress;
  progress.enter(Phase::Computes);
  CHECK(progress.snapshot().phase == Phase::Computes);
  progress.set_device_busy(true);
  CHECK(progress.snapshot().phase == Phase::Waits);
  progress.enter(Phase::Between);
  CHECK(progress.snapshot().phase == Phase::Between);
  progress.set_device_busy(false);
  progress.enter(Phase::Computes);
  CHECK(progress.snapshot().phase == Phase::Computes);
}

}  // namespace
}  // namespace pipewright
