// Kinds that normalise: batch_norm and layer_norm.
//
// FLOPs per element: forward takes mean (1), variance (3), normalising (2) and
// scale and shift (2); the weights' gradients normalise again (2) and sum twice
// (3); the input's combines gradient, value and the two sums (6).

#include <algorithm>

#include "pipewright/model/kinds/kind_list.h"

namespace pipewright {
namespace {

void norm_flops(const LayerFacts& facts, LayerCost& cost) {
  const auto elements = static_cast<double>(facts.output_elements());
  cost.forward = Flops(8 * elements);
  cost.backward_input = Flops(6 * elements);
  cost.backward_weight = Flops(5 * elements);
  cost.keeps_input[0] = true;
}

LayerForm scaled_form(const Shape& in, std::int64_t features) {
  return {in, {{"weight", {features}}, {"bias", {features}}}};
}

Result<LayerForm> batch_norm_form(const Attributes&, const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  if (in.size() != 1 && in.size() != 3)
    return malformed(
        "needs an input of shape channelsxheightxwidth or features, not " +
        to_text(in));
  return scaled_form(in, in[0]);
}

// Mean and inverse deviation over the microbatch: one pair per channel, at
// least 4 bytes each.
void batch_norm_cost(const LayerFacts& facts, LayerCost& cost) {
  norm_flops(facts, cost);
  const std::int64_t bytes = std::max<std::int64_t>(4, facts.number_bytes());
  cost.keeps_private.fixed = Bytes(2 * facts.output.shape[0] * bytes);
  cost.mixes_samples = true;
}

Result<LayerForm> layer_norm_form(const Attributes&, const Inputs& inputs) {
  const Shape& in = inputs[0].shape;
  if (in.empty())
    return malformed("needs an input of shape ...xfeatures, not a scalar");
  return scaled_form(in, in.back());
}

void layer_norm_cost(const LayerFacts& facts, LayerCost& cost) {
  norm_flops(facts, cost);
  const std::int64_t rows = facts.output_elements() / facts.output.shape.back();
  const std::int64_t bytes = std::max<std::int64_t>(4, facts.number_bytes());
  cost.keeps_private.per_sample = Bytes(2 * rows * bytes);
}

SettingRule epsilon_rule(double fallback) {
  return {.name = "epsilon",
          .type = SettingType::Real,
          .fallback = fallback,
          .min = 0,
          .max = 1};
}

}  // namespace

// Over the microbatch and the pixels of each channel. Keeps its input and the
// batch's mean and inverse deviation. The running statistics are not trained:
// they are runtime state, updated with `momentum`.
KindRule batch_norm_kind() {
  return {.kind = LayerKind::BatchNorm,
          .name = "batch_norm",
          .inputs = {InputType::Floating},
          .attributes = {epsilon_rule(1e-5),
                         {.name = "momentum",
                          .type = SettingType::Real,
                          .fallback = 0.1,
                          .min = 0,
                          .max = 1}},
          .form = batch_norm_form,
          .cost = batch_norm_cost};
}

// Over the last dimension. Keeps its input and each row's mean and inverse
// deviation.
KindRule layer_norm_kind() {
  return {.kind = LayerKind::LayerNorm,
          .name = "layer_norm",
          .inputs = {InputType::Floating},
          .attributes = {epsilon_rule(1e-5)},
          .form = layer_norm_form,
          .cost = layer_norm_cost};
}

}  // namespace pipewright
