// Named tensors in the format of Python's safetensors: the length of a header
// (8 bytes, little-endian), the header as JSON (name -> dtype, shape,
// data_offsets), then the numbers. Format: huggingface/safetensors, README.

#pragma once

#include <map>
#include <string>
#include <string_view>

#include "pipewright/base/result.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

using NamedTensors = std::map<std::string, at::Tensor>;

std::string to_safetensors(const NamedTensors& tensors);

// `file` names the source in errors. Fails with MalformedInput unless the
// header describes the bytes after it, exactly and without gaps.
Result<NamedTensors> parse_safetensors(std::string_view bytes,
                                       const std::string& file);

}  // namespace pipewright
