// flatten, add, concat and select: layers that join or reshape tensors. They
// keep nothing.

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

class Flatten final : public LayerFunction {
 public:
  explicit Flatten(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        input_(description.input_shapes[0]) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {inputs[0].flatten(1), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    return {gradient.reshape(sizes_of(gradient.size(0), input_))};
  }

 private:
  bool wants_gradient_;
  Shape input_;
};

class Add final : public LayerFunction {
 public:
  explicit Add(LayerDescription description)
      : description_(std::move(description)) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    at::Tensor sum = at::add(inputs[0], inputs[1]);
    for (std::size_t i = 2; i < inputs.size(); ++i) sum.add_(inputs[i]);
    return {std::move(sum), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    Tensors gradients(description_.input_shapes.size());
    for (std::size_t i = 0; i < gradients.size(); ++i)
      if (description_.wants_gradient(i)) gradients[i] = gradient;
    return gradients;
  }

 private:
  LayerDescription description_;
};

class Concat final : public LayerFunction {
 public:
  explicit Concat(LayerDescription description)
      : description_(std::move(description)),
        axis_(integer(description_.attributes(), "axis")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {at::cat(inputs, 1 + axis_), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    Tensors gradients(description_.input_shapes.size());
    std::int64_t start = 0;
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const std::int64_t length = description_.input_shapes[i][axis_];
      if (description_.wants_gradient(i))
        gradients[i] = gradient.narrow(1 + axis_, start, length).contiguous();
      start += length;
    }
    return gradients;
  }

 private:
  LayerDescription description_;
  std::int64_t axis_;  // without the samples
};

// Copies, so that the rest of its input can be freed.
class Select final : public LayerFunction {
 public:
  explicit Select(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        input_(description.input_shapes[0]),
        index_(integer(description.attributes(), "index")) {}

  Forwarded forward(const Tensors& inputs, const Tensors&,
                    const ForwardContext&) const override {
    return {inputs[0].select(1, index_).clone(), {}};
  }
  Tensors backward_input(const KeptTensors&, const Tensors&,
                         const at::Tensor& gradient, Tensors*) const override {
    if (!wants_gradient_) return {at::Tensor()};
    at::Tensor whole =
        at::zeros(sizes_of(gradient.size(0), input_), gradient.options());
    whole.select(1, index_).copy_(gradient);
    return {whole};
  }

 private:
  bool wants_gradient_;
  Shape input_;
  std::int64_t index_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_flatten(
    LayerDescription description) {
  return std::make_unique<Flatten>(description);
}
std::unique_ptr<const LayerFunction> make_add(LayerDescription description) {
  return std::make_unique<Add>(std::move(description));
}
std::unique_ptr<const LayerFunction> make_concat(LayerDescription description) {
  return std::make_unique<Concat>(std::move(description));
}

std::unique_ptr<const LayerFunction> make_select(LayerDescription description) {
  return std::make_unique<Select>(description);
}

}  // namespace pipewright
