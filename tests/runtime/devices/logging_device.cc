// Operators logged by a fallback of the dispatcher; see logging_device.h.

#include "tests/runtime/devices/logging_device.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

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
  // operator takes.
  if (op.schema().name().find("empty") == std::string::npos)
    log_in_progress->calls.push_back(std::move(call));
  else
    stack->back().toTensor().zero_();
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
  explicit Replayed(LoggingDevice& device) : device_(device) {}
  LoggedCalls log;

  void replay(std::span<Seconds* const>) override {
    ++device_.num_replays_;
    for (const LoggedCalls::Call& call : log.calls) call_again(call);
  }

 private:
  LoggingDevice& device_;
};

std::unique_ptr<Recording> LoggingDevice::record(
    const std::function<void()>& work) {
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
