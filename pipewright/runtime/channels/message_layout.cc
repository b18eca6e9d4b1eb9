// Layouts of messages; see message_layout.h.

#include "pipewright/runtime/channels/message_layout.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

// MPI knows no CUDA streams: kernels that write a buffer, or still read it, end
// first.
void finish_work_on(at::Device device) {
  const c10::impl::VirtualGuardImpl devices(device.type());
  devices.getStream(device.has_index() ? device : devices.getDevice())
      .synchronize();
}

at::Tensor pinned(at::IntArrayRef sizes, at::IntArrayRef strides,
                  at::ScalarType type) {
  return at::empty_strided(
      sizes, strides, at::dtype(type).device(at::kCPU).pinned_memory(true));
}

TensorLayout tensor_layout(const at::Tensor& tensor, const at::Tensor& sent) {
  if (!tensor.defined()) return {};
  return {true,
          sent.scalar_type(),
          sent.sizes().vec(),
          sent.strides().vec(),
          sent.nbytes(),
          tensor.device().type()};
}

// Allocates nothing: it is asked for every message.
bool has_layout(const at::Tensor& tensor, const at::Tensor& sent,
                const TensorLayout& layout) {
  if (!tensor.defined()) return !layout.is_defined;
  return layout.is_defined && sent.scalar_type() == layout.type &&
         tensor.device().type() == layout.device &&
         sent.sizes() == at::IntArrayRef(layout.sizes) &&
         sent.strides() == at::IntArrayRef(layout.strides);
}

}  // namespace

at::Tensor as_sent(const at::Tensor& tensor, bool directly) {
  if (!tensor.defined()) return tensor;
  const at::Tensor dense =
      tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
  if (dense.is_cpu()) return dense;
  if (directly) {
    finish_work_on(dense.device());
    return dense;
  }
  const at::Tensor host =
      pinned(dense.sizes(), dense.strides(), dense.scalar_type());
  host.copy_(dense);
  return host;
}

void as_sent(const Values& values, bool directly, Values& sent) {
  sent.resize(values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    sent[v].clear();
    for (const at::Tensor& tensor : values[v])
      sent[v].push_back(as_sent(tensor, directly));
  }
}

MessageLayout layout_of(const Values& values, const Values& sent) {
  MessageLayout layout(values.size());
  for (std::size_t v = 0; v < values.size(); ++v)
    for (std::size_t i = 0; i < values[v].size(); ++i)
      layout[v].push_back(tensor_layout(values[v][i], sent[v][i]));
  return layout;
}

bool has_layout(const Values& values, const Values& sent,
                const MessageLayout& layout) {
  if (values.size() != layout.size()) return false;
  for (std::size_t v = 0; v < values.size(); ++v) {
    if (values[v].size() != layout[v].size()) return false;
    for (std::size_t i = 0; i < values[v].size(); ++i)
      if (!has_layout(values[v][i], sent[v][i], layout[v][i])) return false;
  }
  return true;
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
      packer.number(tensor.device);
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
      tensor.device = unpacker.number<at::DeviceType>();
    }
  }
  return layout;
}

at::Tensor buffer_of(const TensorLayout& layout, bool directly) {
  if (!layout.is_defined) return {};
  if (layout.device == at::kCPU)
    return at::empty_strided(layout.sizes, layout.strides,
                             at::dtype(layout.type));
  if (!directly) return pinned(layout.sizes, layout.strides, layout.type);
  const at::Tensor buffer =
      at::empty_strided(layout.sizes, layout.strides,
                        at::dtype(layout.type).device(layout.device));
  finish_work_on(buffer.device());
  return buffer;
}

at::Tensor as_received(at::Tensor buffer, at::DeviceType device) {
  if (!buffer.defined() || buffer.device().type() == device) return buffer;
  return buffer.to(at::Device(device));
}

}  // namespace pipewright
