#include "pipewright/runtime/ranks/packing.h"

#include <cstring>

#include "pipewright/base/check.h"

namespace pipewright {

void Packer::text(std::string_view text) {
  number(text.size());
  bytes_.append(text);
}

void Packer::tensor(const at::Tensor& tensor) {
  number(tensor.defined());
  if (!tensor.defined()) return;
  const at::Tensor dense = tensor.contiguous();
  number(dense.scalar_type());
  numbers(dense.sizes().vec());
  bytes_.append(static_cast<const char*>(dense.const_data_ptr()),
                dense.nbytes());
}

void Packer::tensors(const Tensors& tensors) {
  number(tensors.size());
  for (const at::Tensor& each : tensors) tensor(each);
}

void Unpacker::copy(void* to, std::size_t size) {
  PIPEWRIGHT_CHECK(size <= rest_.size(),
                   "a message of another rank ends too early");
  if (size > 0) std::memcpy(to, rest_.data(), size);
  rest_.remove_prefix(size);
}

std::string Unpacker::text() {
  std::string text(number<std::size_t>(), '\0');
  copy(text.data(), text.size());
  return text;
}

at::Tensor Unpacker::tensor() {
  if (!number<bool>()) return {};
  const auto type = number<at::ScalarType>();
  at::Tensor tensor = at::empty(numbers<std::int64_t>(), type);
  copy(tensor.mutable_data_ptr(), tensor.nbytes());
  return tensor;
}

Tensors Unpacker::tensors() {
  Tensors all(number<std::size_t>());
  for (at::Tensor& each : all) each = tensor();
  return all;
}

}  // namespace pipewright
