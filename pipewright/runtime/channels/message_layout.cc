// Forms of messages; see message_layout.h.

#include "pipewright/runtime/channels/message_layout.h"

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {

at::Tensor without_gaps(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return tensor;
  return tensor.contiguous();
}

TensorLayout layout_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return {};
  return {true, tensor.scalar_type(), tensor.sizes().vec(),
          tensor.strides().vec(), tensor.nbytes()};
}

MessageLayout layout_of(const std::vector<std::vector<at::Tensor>>& values) {
  MessageLayout layout;
  for (const auto& tensors : values) {
    auto& of_value = layout.emplace_back();
    for (const at::Tensor& tensor : tensors)
      of_value.push_back(layout_of(tensor));
  }
  return layout;
}

std::string packed(const MessageLayout& layout) {
  Packer packer;
  packer.number(layout.size());
  for (const auto& of_value : layout) {
    packer.number(of_value.size());
    for (const TensorLayout& tensor : of_value) {
      packer.number(tensor.is_defined);
      packer.number(tensor.type);
      packer.numbers(tensor.sizes);
      packer.numbers(tensor.strides);
      packer.number(tensor.bytes);
    }
  }
  return packer.take();
}

MessageLayout unpacked_layout(std::string_view bytes) {
  Unpacker unpacker(bytes);
  MessageLayout layout(unpacker.number<std::size_t>());
  for (auto& of_value : layout) {
    of_value.resize(unpacker.number<std::size_t>());
    for (TensorLayout& tensor : of_value) {
      tensor.is_defined = unpacker.number<bool>();
      tensor.type = unpacker.number<at::ScalarType>();
      tensor.sizes = unpacker.numbers<std::int64_t>();
      tensor.strides = unpacker.numbers<std::int64_t>();
      tensor.bytes = unpacker.number<std::size_t>();
    }
  }
  return layout;
}

at::Tensor buffer_of(const TensorLayout& layout) {
  if (!layout.is_defined) return {};
  return at::empty_strided(layout.sizes, layout.strides,
                           at::dtype(layout.type));
}

}  // namespace pipewright
