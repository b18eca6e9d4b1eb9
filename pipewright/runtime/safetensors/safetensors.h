// Named tensors in the format of Python's safetensors: the length of a header
// (8 bytes, little-endian), the header as JSON (name -> dtype, shape,
// data_offsets), then the numbers. Format: huggingface/safetensors, README.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright {

using NamedTensors = std::map<std::string, at::Tensor>;

std::string to_safetensors(const NamedTensors& tensors);

// `file` names the source in errors. Fails with MalformedInput unless the
// header describes the bytes after it, exactly and without gaps, in types that
// we have.
Result<NamedTensors> parse_safetensors(std::string_view bytes,
                                       const std::string& file);

// What a header says of one tensor.
struct StoredTensor {
  std::string type_name;               // "F32"
  std::optional<at::ScalarType> type;  // none: not supported
  std::vector<std::int64_t> sizes;
  std::size_t begin = 0, end = 0;  // bytes after the header
};
using StoredTensors = std::map<std::string, StoredTensor>;

// "F32"; fails a check for a type that safetensors does not have.
std::string stored_type(at::ScalarType type);

// The length of the header, from the first kLengthBytes of a file.
inline constexpr std::size_t kLengthBytes = 8;
std::uint64_t header_length(std::string_view bytes);

// Fails with MalformedInput unless the header describes `num_bytes` bytes,
// exactly and without gaps. Types that are not supported are let through.
Result<StoredTensors> parse_safetensors_header(std::string_view header,
                                               std::size_t num_bytes,
                                               const std::string& file);

}  // namespace pipewright
