// Operators of exported models that run by a function of ours instead of
// ATen's: because that is much faster on some processors, or because ATen's
// runs on cores only, or not with the same bits twice on a GPU. Their results
// may differ from ATen's in the last digit.

#pragma once

#include <ATen/core/ivalue.h>

#include <string_view>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {

// All arguments that the operator's schema has.
using OwnOperator = Tensors (*)(const std::vector<c10::IValue>& arguments);

// By its name, such as "aten::gelu"; null where ATen's runs.
OwnOperator own_operator(std::string_view name);

}  // namespace pipewright
