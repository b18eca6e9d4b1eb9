// A function of an exported model, bound to LibTorch's operators: its calls go
// through the dispatcher, one after the other, and a tensor is freed after its
// last reader.

#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/exported/exported_code.h"
#include "pipewright/runtime/layers/bound_argument.h"
#include "pipewright/runtime/layers/own_operators.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

class OperatorCode {
 public:
  // Fails with BadConfiguration: an operator is unknown, or takes other
  // arguments.
  static Result<OperatorCode> create(const ExportedFunction& function);

  // Without autograd, from any number of threads. Dropout draws by (seed,
  // microbatch, layer, call, element), so that its mask depends on no plan; in
  // evaluation nothing is dropped, and batch norms use their running
  // statistics. Throws what an operator throws, with its name, and
  // UnsupportedOperator.
  Tensors run(const Tensors& arguments, const CallContext& context) const;
  bool draws() const;  // whether it has dropout
  // The first one that draws and is not dropout: cores alone run it. Or "".
  std::string random_operator() const;

 private:
  struct Call {
    c10::OperatorHandle op;
    std::vector<BoundArgument> arguments = {};
    std::vector<int> results = {}, frees = {};  // numbers of tensors
    bool returns_list = false;
    bool is_dropout = false;
    OwnOperator own = nullptr;  // instead of op
    std::uint64_t index = 0;
  };
  using Held = std::vector<at::Tensor>;  // by number

  OperatorCode() = default;
  static Result<Call> bound(const OperatorCall& given);
  void free_after_last_reader();
  static void run_call(const Call& call, const CallContext& context,
                       Held& held);
  static void drop(const Call& call, const CallContext& context, Held& held);

  std::size_t num_arguments_ = 0, num_tensors_ = 0;
  std::vector<Call> calls_;
  std::vector<int> results_;
};

}  // namespace pipewright
