// Operators logged by a fallback of the dispatcher; see logging_device.h.

#include "tests/runtime/devices/logging_device.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <random>

namespace pipewright::testing {

using c10::DispatchKey;

struct LoggedCalls {
  struct Call {
    c10::OperatorHandle op;
    torch::jit::Stack arguments;
    std::vector<at::Tensor> made;  // by return; undefined: it is an argument's
  };
  std::vector<Call> calls;
};

namespace {

thread_local LoggedCalls* log_in_progress = nullptr;

// native_batch_norm does not say that it writes to its statistics.
bool is_written(const c10::Argument& argument) {
  return (argument.alias_info() && argument.alias_info()->isWrite()) ||
         argument.name().starts_with("running_");
}

// Calls the operator on copies of what it would write to.
void log_call(const c10::OperatorHandle& op, c10::DispatchKeySet,
              torch::jit::Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard guard(
      DispatchKey::TESTING_ONLY_GenericMode);
  const auto& wanted = op.schema().arguments();
  const std::size_t first = stack->size() - wanted.size();
  const torch::jit::Stack given(
      stack->begin() + static_cast<std::ptrdiff_t>(first), stack->end());
  c10::IValue written;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (is_written(wanted[i]) && given[i].isTensor() &&
        given[i].toTensor().defined()) {
      written = given[i];
      (*stack)[first + i] = given[i].toTensor().clone();
    }
  op.callBoxed(stack);
  LoggedCalls::Call call{op, given, {}};
  const auto& returned = op.schema().returns();
  const std::size_t base = stack->size() - returned.size();
  for (std::size_t i = 0; i < returned.size(); ++i) {
    c10::IValue& value = (*stack)[base + i];
    if (is_written(returned[i])) value = written;
    const bool is_new = !returned[i].alias_info() && value.isTensor();
    call.made.push_back(is_new ? value.toTensor() : at::Tensor());
  }
  // Memory that is only asked for is no work; here it has numbers that any
  // operator takes. Nor is a view.
  const bool is_work =
      !written.isNone() ||
      std::any_of(call.made.begin(), call.made.end(),
                  [](const at::Tensor& made) { return made.defined(); });
  if (op.schema().name().find("empty") != std::string::npos)
    stack->back().toTensor().zero_();
  else if (is_work)
    log_in_progress->calls.push_back(std::move(call));
}

void call_again(const LoggedCalls::Call& call) {
  torch::jit::Stack stack = call.arguments;
  call.op.callBoxed(&stack);
  for (std::size_t i = 0; i < call.made.size(); ++i) {
    if (!call.made[i].defined()) continue;
    const at::Tensor made = stack[i].toTensor();
    at::Tensor to = call.made[i];
    if (made.defined() && made.data_ptr() != to.data_ptr()) to.copy_(made);
  }
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericMode, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&log_call>());
}

}  // namespace

class LoggingDevice::Replayed final : public Recording {
 public:
  explicit Replayed(LoggingDevice& device) : device_(device) {
    if (device.shares_) shared_ = device.shared_;
    if (shared_) ++*shared_;
  }
  ~Replayed() override {
    if (shared_) --*shared_;
  }
  LoggedCalls log;

  void replay(std::span<Seconds* const>) override {
    ++device_.num_replays_;
    for (const LoggedCalls::Call& call : log.calls) call_again(call);
  }
  std::size_t num_kernels() const override { return log.calls.size(); }

 private:
  LoggingDevice& device_;
  std::shared_ptr<int> shared_;  // outlives the device; null: its own memory
};

class LoggingDevice::Joined final : public JointRecording {
 public:
  Node add(const Recording& recording, std::span<const Node> after) override {
    TORCH_CHECK(recording.num_kernels() > 0);
    work_.push_back({&dynamic_cast<const Replayed&>(recording),
                     {after.begin(), after.end()}});
    return work_.size() - 1;
  }
  void add_stamp(WorkerDevice& device, std::span<const Node>) override {
    ++num_stamps_[&device];
  }
  void end() override { is_ended_ = true; }

  void replay(WorkerDevice& device) override {
    TORCH_CHECK(is_ended_);
    ++dynamic_cast<LoggingDevice&>(device).num_joint_replays_;
    std::vector<bool> is_done(work_.size(), false);
    for (std::size_t count = 0; count < work_.size(); ++count) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < work_.size(); ++i)
        if (!is_done[i] &&
            std::all_of(work_[i].after.begin(), work_[i].after.end(),
                        [&](Node each) { return is_done[each]; }))
          ready.push_back(i);
      const std::size_t next = ready.at(chance_() % ready.size());
      for (const LoggedCalls::Call& call : work_[next].recording->log.calls)
        call_again(call);
      is_done[next] = true;
    }
  }

  // One after the other, so that none takes time.
  void write_stamps(WorkerDevice& device,
                    std::span<Seconds* const> times) override {
    TORCH_CHECK(times.size() == num_stamps_[&device]);
    for (Seconds* time : times) device.stamp(*time);
  }

 private:
  struct Work {
    const Replayed* recording;
    std::vector<Node> after;
  };
  std::vector<Work> work_;
  std::map<WorkerDevice*, std::size_t> num_stamps_;
  bool is_ended_ = false;
  std::mt19937 chance_{7};
};

std::unique_ptr<JointRecording> LoggingDevice::joint_recording() {
  return std::make_unique<Joined>();
}

std::unique_ptr<Recording> LoggingDevice::record(
    const std::function<void()>& work) {
  if (shares_ && !is_shared_memory_new_ && *shared_ == 0)
    throw std::logic_error("the memory of recordings is gone");
  is_shared_memory_new_ = false;
  auto result = std::make_unique<Replayed>(*this);
  const bool fails = num_recordings_++ >= first_failure_;
  log_in_progress = &result->log;
  {
    const c10::impl::IncludeDispatchKeyGuard guard(
        DispatchKey::TESTING_ONLY_GenericMode);
    work();
  }
  log_in_progress = nullptr;
  if (fails) throw std::runtime_error("not recorded\nstack");
  return result;
}

}  // namespace pipewright::testing
