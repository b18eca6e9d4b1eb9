// Layouts of messages; see message_layout.h.

#include "pipewright/runtime/channels/message_layout.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <optional>

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

at::Tensor pinned(at::IntArrayRef sizes, at::IntArrayRef strides,
                  at::ScalarType type) {
  return at::empty_strided(
      sizes, strides, at::dtype(type).device(at::kCPU).pinned_memory(true));
}

at::Tensor without_gaps(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor : tensor.contiguous();
}

// In memory of the host, where its device may put it later.
at::Tensor on_host(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  const at::Tensor dense = without_gaps(tensor);
  if (dense.is_cpu()) return dense;
  const at::Tensor host =
      pinned(dense.sizes(), dense.strides(), dense.scalar_type());
  host.copy_(dense, /*non_blocking=*/true);
  return host;
}

// After all that this thread has given to the device.
CopiesEvent event_of(at::Device device) {
  const c10::impl::VirtualGuardImpl devices(device.type());
  auto event = std::make_shared<c10::Event>(device.type());
  event->record(devices.getStream(device));
  return event;
}

TensorLayout tensor_layout(const at::Tensor& sent) {
  if (!sent.defined()) return {};
  return {true, sent.scalar_type(), sent.sizes().vec(), sent.strides().vec(),
          sent.nbytes()};
}

// Allocates nothing: it is asked for every message.
bool has_layout(const at::Tensor& sent, const TensorLayout& layout) {
  if (!sent.defined()) return !layout.is_defined;
  return layout.is_defined && sent.scalar_type() == layout.type &&
         sent.sizes() == at::IntArrayRef(layout.sizes) &&
         sent.strides() == at::IntArrayRef(layout.strides);
}

}  // namespace

CopiesEvent as_sent(const Values& values, Values& sent) {
  std::optional<at::Device> device;  // that copies
  sent.resize(values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    sent[v].clear();
    for (const at::Tensor& tensor : values[v]) {
      sent[v].push_back(on_host(tensor));
      if (tensor.defined() && !tensor.is_cpu()) device = tensor.device();
    }
  }
  return device ? event_of(*device) : nullptr;
}

void on_device(const Values& values, at::Device place, Values& sent) {
  sent.resize(values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    sent[v].clear();
    for (const at::Tensor& tensor : values[v])
      sent[v].push_back(tensor.defined() ? without_gaps(tensor).to(place)
                                         : tensor);
  }
}

MessageLayout layout_of(const Values& sent) {
  MessageLayout layout(sent.size());
  for (std::size_t v = 0; v < sent.size(); ++v)
    for (const at::Tensor& tensor : sent[v])
      layout[v].push_back(tensor_layout(tensor));
  return layout;
}

bool has_layout(const Values& sent, const MessageLayout& layout) {
  if (sent.size() != layout.size()) return false;
  for (std::size_t v = 0; v < sent.size(); ++v) {
    if (sent[v].size() != layout[v].size()) return false;
    for (std::size_t i = 0; i < sent[v].size(); ++i)
      if (!has_layout(sent[v][i], layout[v][i])) return false;
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

std::string packed(const MessageForm& form) {
  Packer packer;
  packer.text(packed(form.layout));
  packer.numbers(form.uses);
  return packer.take();
}

MessageForm unpacked_form(std::string_view bytes) {
  Unpacker unpacker(bytes);
  MessageForm form;
  form.layout = unpacked_layout(unpacker.text());
  form.uses = unpacker.numbers<ParameterUse>();
  return form;
}

at::Tensor buffer_of(const TensorLayout& layout, at::Device place) {
  if (!layout.is_defined) return {};
  if (!place.is_cpu()) return pinned(layout.sizes, layout.strides, layout.type);
  return at::empty_strided(layout.sizes, layout.strides,
                           at::dtype(layout.type));
}

// Pinned memory is kept until the device has read it.
at::Tensor as_received(at::Tensor buffer, at::Device place) {
  if (!buffer.defined() || place.is_cpu()) return buffer;
  return buffer.to(place, /*non_blocking=*/true);
}

}  // namespace pipewright
