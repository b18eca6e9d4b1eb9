// Kinds for images {channels, height, width}: conv2d and pooling.

#include <algorithm>

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

Result<void> check_image(const Shape& in) {
  if (in.size() == 3) return {};
  return malformed("needs an input of shape channelsxheightxwidth, not " +
                   to_text(in));
}

// A window that slides over an image.
struct Window {
  Shape kernel, stride, padding;
  Shape dilation = {1, 1};
  bool ceil = false;
};

Window pool_window(const Attributes& attributes) {
  return {pair(attributes, "kernel"),
          pair(attributes, "stride"),
          pair(attributes, "padding"),
          {1, 1},
          flag(attributes, "ceil")};
}

// The number of window positions along one side. With ceil, a last window may
// reach beyond the image, but must start within the image or its left padding,
// as in ATen.
std::int64_t num_windows(std::int64_t side, const Window& window,
                         std::size_t axis) {
  const std::int64_t stride = window.stride[axis];
  const std::int64_t padding = window.padding[axis];
  const std::int64_t reach =
      window.dilation[axis] * (window.kernel[axis] - 1) + 1;
  const std::int64_t range = side + 2 * padding - reach;
  if (range < 0) return 0;
  std::int64_t windows = range / stride + 1;
  if (window.ceil && range % stride != 0 && windows * stride < side + padding)
    ++windows;
  return windows;
}

Result<Shape> window_output(const Shape& in, const Window& window,
                            std::int64_t out_channels) {
  Shape out{out_channels, num_windows(in[1], window, 0),
            num_windows(in[2], window, 1)};
  if (out[1] < 1 || out[2] < 1)
    return malformed("has a kernel of " + to_text(window.kernel) +
                     ", which does not fit its input of shape " + to_text(in) +
                     " with padding " + to_text(window.padding));
  return out;
}

Result<LayerForm> conv2d_form(const Attributes& attributes,
                              const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  if (auto image = check_image(in); !image) return image.error();
  const std::int64_t groups = integer(attributes, "groups");
  const std::int64_t channels = integer(attributes, "out_channels");
  if (in[0] % groups != 0 || channels % groups != 0)
    return malformed("has " + std::to_string(groups) +
                     " groups, which must divide the channels of its input of "
                     "shape " +
                     to_text(in) + " and its " + std::to_string(channels) +
                     " out_channels");
  const Shape& kernel = pair(attributes, "kernel");
  const Window window{kernel, pair(attributes, "stride"),
                      pair(attributes, "padding"),
                      pair(attributes, "dilation")};
  LayerForm form;
  PIPEWRIGHT_TRY(form.output, window_output(in, window, channels));
  form.parameters = {
      {"weight", {channels, in[0] / groups, kernel[0], kernel[1]}}};
  if (flag(attributes, "bias")) form.parameters.push_back({"bias", {channels}});
  return form;
}

void conv2d_cost(const LayerFacts& facts, LayerCost& cost) {
  const Shape& weight = facts.parameters[0];
  const auto out = static_cast<double>(facts.output_elements());
  const double products =
      out * static_cast<double>(weight[1] * weight[2] * weight[3]);
  const double bias = flag(facts.attributes, "bias") ? out : 0;
  cost.forward = Flops(2 * products + bias);
  cost.backward_input = Flops(2 * products);
  cost.backward_weight = Flops(2 * products + bias);
  cost.keeps_input[0] = true;
}

Result<LayerForm> pool_form(const Attributes& attributes,
                            const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  if (auto image = check_image(in); !image) return image.error();
  const Window window = pool_window(attributes);
  for (std::size_t axis : {0, 1})
    if (2 * window.padding[axis] > window.kernel[axis])
      return malformed("has a padding of " + to_text(window.padding) +
                       ", more than half its kernel of " +
                       to_text(window.kernel));
  LayerForm form;
  PIPEWRIGHT_TRY(form.output, window_output(in, window, in[0]));
  return form;
}

double window_elements(const LayerFacts& facts) {
  return static_cast<double>(num_elements(pair(facts.attributes, "kernel")));
}

void max_pool_cost(const LayerFacts& facts, LayerCost& cost) {
  const auto out = static_cast<double>(facts.output_elements());
  const Bytes indices = facts.output_elements() * size_of(NumberType::Int64);
  cost.forward = Flops(out * window_elements(facts));
  cost.backward_input = Flops(out);
  cost.memory_traffic.per_sample += indices;
  cost.keeps_private.per_sample = indices;
}

void avg_pool_cost(const LayerFacts& facts, LayerCost& cost) {
  const auto out = static_cast<double>(facts.output_elements());
  cost.forward = Flops(out * (window_elements(facts) + 1));
  cost.backward_input = cost.forward;
}

Result<LayerForm> adaptive_form(const Attributes& attributes,
                                const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  if (auto image = check_image(in); !image) return image.error();
  const Shape& size = pair(attributes, "size");
  return LayerForm{{in[0], size[0], size[1]}, {}};
}

// As if the windows did not overlap, which they do if the sizes do not divide.
void adaptive_cost(const LayerFacts& facts, LayerCost& cost) {
  const auto larger = std::max(facts.input_elements(), facts.output_elements());
  cost.forward = Flops(static_cast<double>(larger) +
                       static_cast<double>(facts.output_elements()));
  cost.backward_input = cost.forward;
}

SettingRule kernel_rule() {
  return {.name = "kernel", .type = SettingType::Pair, .min = 1};
}

SettingRule padding_rule() {
  return {
      .name = "padding", .type = SettingType::Pair, .fallback = Shape{0, 0}};
}

SettingRule ones_rule(const std::string& name) {
  return {.name = name,
          .type = SettingType::Pair,
          .fallback = Shape{1, 1},
          .min = 1};
}

std::vector<SettingRule> pool_attributes() {
  return {kernel_rule(),
          {.name = "stride",
           .type = SettingType::Pair,
           .same_as = "kernel",
           .min = 1},
          padding_rule(),
          {.name = "ceil", .type = SettingType::Flag, .fallback = false}};
}

}  // namespace

// Keeps its input.
KindRule conv2d_kind() {
  return {.kind = LayerKind::Conv2d,
          .name = "conv2d",
          .inputs = {InputType::Floating},
          .attributes =
              {{.name = "out_channels", .min = 1},
               kernel_rule(),
               ones_rule("stride"),
               padding_rule(),
               ones_rule("dilation"),
               {.name = "groups", .fallback = std::int64_t{1}, .min = 1},
               {.name = "bias", .type = SettingType::Flag, .fallback = true},
               part_of_rule(),
               first_output_rule()},
          .form = conv2d_form,
          .cost = conv2d_cost};
}

// Keeps the index of each maximum (int64); of the input, backward needs only
// the shape.
KindRule max_pool_kind() {
  return {.kind = LayerKind::MaxPool,
          .name = "max_pool",
          .inputs = {InputType::Floating},
          .attributes = pool_attributes(),
          .form = pool_form,
          .cost = max_pool_cost};
}

// Padding counts in the mean. Keeps nothing: backward needs only the input's
// shape.
KindRule avg_pool_kind() {
  return {.kind = LayerKind::AvgPool,
          .name = "avg_pool",
          .inputs = {InputType::Floating},
          .attributes = pool_attributes(),
          .form = pool_form,
          .cost = avg_pool_cost};
}

// The output has `size`, whatever the input has. Keeps nothing, like avg_pool.
KindRule adaptive_avg_pool_kind() {
  return {.kind = LayerKind::AdaptiveAvgPool,
          .name = "adaptive_avg_pool",
          .inputs = {InputType::Floating},
          .attributes = {ones_rule("size")},
          .form = adaptive_form,
          .cost = adaptive_cost};
}

}  // namespace pipewright
