// An argument of an operator of an exported model, made ready for LibTorch's
// dispatcher: what is known before a run is a value already; tensors, sizes
// that follow from the batch, devices and generators are filled in per call.

#pragma once

#include <ATen/core/function_schema.h>

#include <cstdint>
#include <span>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/exported/exported_code.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// What the calls of one run depend on besides tensors.
struct CallContext {
  std::int64_t batch = 1;
  at::Device device = at::kCPU;
  bool training = true;
  // Of dropout and other random operators.
  std::uint64_t seed = 0, microbatch = 0, layer = 0;
  std::int64_t first_sample = 0;
  at::Tensor number = {};  // as in ForwardContext
  bool* draws = nullptr;   // likewise
};

class BoundArgument {
 public:
  // Fails with BadConfiguration where the operator does not take it.
  static Result<BoundArgument> create(const OperatorArgument& given,
                                      const c10::Argument& wanted);

  // `held` are the tensors of the run by number; `call` tells the generators of
  // a function's calls apart. Throws UnsupportedOperator for a generator that
  // is not wanted on a core.
  c10::IValue value(std::span<const at::Tensor> held,
                    const CallContext& context, std::uint64_t call) const;

  const std::vector<int>& tensors() const { return tensors_; }  // -1: none
  const c10::IValue& constant() const { return constant_; }
  bool is_generator() const { return kind_ == Kind::Generator; }

 private:
  enum class Kind : std::uint8_t {
    Constant,
    Tensor,
    Integer,
    Integers,
    TensorList,
    OptionalTensorList,
    Device,
    Generator,
  };

  BoundArgument() = default;
  Result<void> bind(const OperatorArgument& given, const c10::TypePtr& type);
  Result<void> bind_list(const OperatorArgument& given,
                         const c10::TypePtr& element);
  bool fits(const c10::Argument& wanted) const;
  void set_evaluation(const c10::Argument& wanted);

  Kind kind_ = Kind::Constant;
  c10::TypeKind type_ = c10::TypeKind::AnyType;  // that the operator takes
  c10::IValue constant_, in_evaluation_;
  std::vector<int> tensors_;
  std::vector<BatchExpression> integers_;
};

}  // namespace pipewright
