#include "pipewright/runtime/layers/operator_code.h"

#include <stdexcept>

#include "pipewright/base/check.h"
#include "pipewright/runtime/error_text.h"
#include "pipewright/runtime/layers/dropout_mask.h"
#include "pipewright/runtime/out_of_memory.h"
#include "pipewright/runtime/unsupported_operator.h"

namespace pipewright {
namespace {

at::Tensor& numbered_tensor(std::vector<at::Tensor>& held, int number) {
  return held[static_cast<std::size_t>(number)];
}

}  // namespace

Result<OperatorCode::Call> OperatorCode::bound(const OperatorCall& given) {
  const std::string name =
      given.name + (given.overload.empty() ? "" : "." + given.overload);
  const auto op =
      c10::Dispatcher::singleton().findSchema({given.name, given.overload});
  if (!op) return bad_configuration("this LibTorch has no operator " + name);
  if (op->schema().is_mutable())
    return bad_configuration(name +
                             " writes into its arguments, which belong to "
                             "other layers and workers, too");
  Call call{*op};
  call.results = given.results;
  call.returns_list = given.returns_list;
  const auto& wanted = op->schema().arguments();
  if (given.arguments.size() > wanted.size())
    return bad_configuration(name + " takes " + std::to_string(wanted.size()) +
                             " arguments, not " +
                             std::to_string(given.arguments.size()));
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    auto argument = BoundArgument::create(
        i < given.arguments.size() ? given.arguments[i] : OperatorArgument{},
        wanted[i]);
    if (!argument)
      return bad_configuration(name + ": " + argument.error().message);
    call.arguments.push_back(*std::move(argument));
  }
  const std::size_t returned = op->schema().returns().size();
  if (returned != (given.returns_list ? 1 : given.results.size()))
    return bad_configuration(name + " returns " + std::to_string(returned) +
                             " values, not " +
                             std::to_string(given.results.size()));
  call.own = own_operator(given.name);
  call.is_dropout = given.name == "aten::native_dropout" &&
                    !(call.arguments[2].constant().isBool() &&
                      !call.arguments[2].constant().toBool());
  return call;
}

Result<OperatorCode> OperatorCode::create(const ExportedFunction& function) {
  OperatorCode code;
  code.num_arguments_ = static_cast<std::size_t>(function.num_arguments);
  code.num_tensors_ = static_cast<std::size_t>(function.num_tensors);
  code.results_ = function.results;
  for (const OperatorCall& given : function.calls) {
    PIPEWRIGHT_TRY(Call call, bound(given));
    call.index = code.calls_.size();
    code.calls_.push_back(std::move(call));
  }
  code.free_after_last_reader();
  return code;
}

void OperatorCode::free_after_last_reader() {
  std::vector<bool> is_read(num_tensors_, false);
  for (const int result : results_)
    is_read[static_cast<std::size_t>(result)] = true;
  for (auto call = calls_.rbegin(); call != calls_.rend(); ++call) {
    const auto see = [&](int tensor) {
      if (tensor < 0 || is_read[static_cast<std::size_t>(tensor)]) return;
      is_read[static_cast<std::size_t>(tensor)] = true;
      call->frees.push_back(tensor);
    };
    for (const BoundArgument& argument : call->arguments)
      for (const int tensor : argument.tensors()) see(tensor);
    for (const int tensor : call->results) see(tensor);
  }
}

void OperatorCode::run_call(const Call& call, const CallContext& context,
                            Held& held) {
  thread_local std::vector<c10::IValue> stack;  // kept for its memory
  stack.clear();
  try {
    for (const BoundArgument& argument : call.arguments)
      stack.push_back(argument.value(held, context, call.index));
    if (call.own) {
      Tensors made = call.own(stack);
      stack.clear();
      for (at::Tensor& one : made) stack.emplace_back(std::move(one));
    } else {
      call.op.callBoxed(stack);
    }
  } catch (const std::exception& error) {
    stack.clear();
    if (out_of_memory(error)) throw;
    const std::string name = toString(call.op.schema().operator_name()) + ": ";
    if (const auto unsupported = unsupported_operator(error))
      throw UnsupportedOperator(name + unsupported->message, unsupported->hint);
    throw std::runtime_error(name + first_line(error));
  }
  if (call.returns_list) {
    const auto list = stack.at(0).toTensorVector();
    PIPEWRIGHT_CHECK(list.size() == call.results.size(),
                     "an operator returns another number of tensors");
    for (std::size_t i = 0; i < list.size(); ++i)
      numbered_tensor(held, call.results[i]) = list[i];
  } else {
    for (std::size_t i = 0; i < call.results.size(); ++i)
      numbered_tensor(held, call.results[i]) =
          std::move(stack.at(i)).toTensor();
  }
  stack.clear();
}

// native_dropout takes no generator, and its mask would depend on how the
// microbatch is split.
void OperatorCode::drop(const Call& call, const CallContext& context,
                        Held& held) {
  const at::Tensor input =
      numbered_tensor(held, call.arguments[0].tensors()[0]);
  const double rate = call.arguments[1].constant().toScalar().toDouble();
  const std::int64_t first =
      context.first_sample * (input.numel() / context.batch);
  at::Tensor mask = dropout_mask(input,
                                 {{context.seed, context.layer, call.index},
                                  static_cast<std::int64_t>(context.microbatch),
                                  context.number,
                                  first,
                                  context.draws},
                                 rate);
  const double scale = rate < 1 ? 1 / (1 - rate) : 0;
  numbered_tensor(held, call.results[0]) =
      at::native_dropout_backward(input, mask, scale);
  numbered_tensor(held, call.results[1]) = std::move(mask);
}

bool OperatorCode::draws() const {
  return std::any_of(calls_.begin(), calls_.end(),
                     [](const Call& call) { return call.is_dropout; });
}

std::string OperatorCode::random_operator() const {
  for (const Call& call : calls_)
    for (const BoundArgument& argument : call.arguments)
      if (argument.is_generator())
        return toString(call.op.schema().operator_name());
  return {};
}

Tensors OperatorCode::run(const Tensors& arguments,
                          const CallContext& context) const {
  PIPEWRIGHT_CHECK(arguments.size() == num_arguments_,
                   "an exported function gets another number of tensors");
  Held held(num_tensors_);
  std::copy(arguments.begin(), arguments.end(), held.begin());
  for (const Call& call : calls_) {
    if (call.is_dropout && context.training)
      drop(call, context, held);
    else
      run_call(call, context, held);
    for (const int tensor : call.frees)
      numbered_tensor(held, tensor) = at::Tensor();
  }
  Tensors results;
  for (const int result : results_)
    results.push_back(numbered_tensor(held, result));
  return results;
}

}  // namespace pipewright
