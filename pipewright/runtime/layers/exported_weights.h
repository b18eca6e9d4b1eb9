// The tensors of an exported model: parameters before the first step, frozen
// parameters and buffers, from the file that the model names.

#pragma once

#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

class TensorFile;

// Fails with MissingInput or MalformedInput unless the file has every tensor of
// the model, or with BadConfiguration if this LibTorch lacks an operator. Call
// it before the model is used; the functions below throw where it would fail.
// Any other model is good.
Result<void> check_exported(const Model& model);

// A hash of the numbers that training starts with, for ranks to compare: names
// of files may differ from host to host. "" for a model that is not exported.
// Fails with MalformedInput if the file is cut off.
Result<std::string> weights_hash(const Model& model);

// Keeps the file open as long as it is held, so that what follows is fast. Null
// for a model that is not exported.
std::shared_ptr<const TensorFile> open_weights(const Model& model);

at::Tensor exported_parameter(const Model& model, ParameterId parameter);
at::Tensor exported_buffer(const Model& model, const std::string& name);

}  // namespace pipewright
