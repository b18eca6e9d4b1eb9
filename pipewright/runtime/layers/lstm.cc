// lstm: layers and directions of cells over a sequence, laid out as in ATen
// (gates in the order input, forget, cell, output; two biases; first states
// zero). Keeps input and output, and privately each cell's gates and state and
// the outputs of the inner layers.
//
// Backward goes through time once for the gates' gradients; both halves are
// computed from those.

#include "pipewright/runtime/layers/layer_description.h"

namespace pipewright {
namespace {

at::Tensor as_rows(const at::Tensor& sequence) {
  return sequence.reshape({-1, sequence.size(-1)});
}

// What one direction of one layer computes; all samples x positions x features.
struct Track {
  at::Tensor output, gates, states;
};

struct CellWeights {
  const at::Tensor &input, &hidden, &input_bias, &hidden_bias;
};

Track run_forward(const at::Tensor& input, const CellWeights& weights,
                  bool reverse) {
  const std::int64_t samples = input.size(0), steps = input.size(1);
  const std::int64_t hidden = weights.hidden.size(1);
  Track track;
  track.gates = at::addmm(weights.input_bias.add(weights.hidden_bias),
                          as_rows(input), weights.input.t())
                    .view({samples, steps, 4 * hidden});
  track.output = at::empty({samples, steps, hidden}, input.options());
  track.states = at::empty_like(track.output);
  const at::Tensor recurrent = weights.hidden.t();
  at::Tensor last, state;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t t = reverse ? steps - 1 - step : step;
    at::Tensor gates = track.gates.select(1, t);
    if (last.defined()) gates.add_(at::mm(last, recurrent));
    const auto part = gates.chunk(4, 1);
    part[0].sigmoid_();
    part[1].sigmoid_();
    part[2].tanh_();
    part[3].sigmoid_();
    const at::Tensor input_part = part[0].mul(part[2]);
    state = state.defined() ? part[1].mul(state).add_(input_part) : input_part;
    last = part[3].mul(state.tanh());
    track.states.select(1, t).copy_(state);
    track.output.select(1, t).copy_(last);
  }
  return track;
}

// The gradients of the gates before their sigmoid or tanh.
at::Tensor gate_gradients(const Track& track, const at::Tensor& recurrent,
                          const at::Tensor& gradient, bool reverse) {
  const std::int64_t steps = gradient.size(1);
  at::Tensor result = at::empty_like(track.gates);
  at::Tensor later, of_state;  // gradients that come back through time
  for (std::int64_t step = steps - 1; step >= 0; --step) {
    const std::int64_t t = reverse ? steps - 1 - step : step;
    const auto gate = track.gates.select(1, t).chunk(4, 1);
    const auto out = result.select(1, t).chunk(4, 1);
    const at::Tensor tanh_state = track.states.select(1, t).tanh();
    at::Tensor of_output = gradient.select(1, t);
    if (later.defined()) of_output = of_output.add(later);
    at::Tensor through = at::tanh_backward(of_output.mul(gate[3]), tanh_state);
    if (of_state.defined()) through.add_(of_state);
    out[0].copy_(at::sigmoid_backward(through.mul(gate[2]), gate[0]));
    out[2].copy_(at::tanh_backward(through.mul(gate[0]), gate[2]));
    out[3].copy_(at::sigmoid_backward(of_output.mul(tanh_state), gate[3]));
    if (step == 0) {
      out[1].zero_();  // the state before the first is zero
      break;
    }
    const at::Tensor before = track.states.select(1, reverse ? t + 1 : t - 1);
    out[1].copy_(at::sigmoid_backward(through.mul(before), gate[1]));
    of_state = through.mul(gate[1]);
    later = at::mm(result.select(1, t), recurrent);
  }
  return result;
}

// The outputs one step earlier, zero at the start.
at::Tensor shifted(const at::Tensor& output, bool reverse) {
  const std::int64_t steps = output.size(1);
  at::Tensor earlier = at::zeros(output.sizes(), output.options());
  if (steps > 1)
    earlier.narrow(1, reverse ? 0 : 1, steps - 1)
        .copy_(output.narrow(1, reverse ? 1 : 0, steps - 1));
  return earlier;
}

class Lstm final : public LayerFunction {
 public:
  explicit Lstm(const LayerDescription& description)
      : wants_gradient_(description.wants_gradient(0)),
        hidden_(integer(description.attributes(), "hidden")),
        layers_(integer(description.attributes(), "num_layers")),
        directions_(flag(description.attributes(), "bidirectional") ? 2 : 1) {}

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext&) const override {
    Tensors kept;
    at::Tensor sequence = inputs[0];
    for (std::size_t layer = 0; layer < layers_; ++layer) {
      Tensors outputs, gates, states;
      for (std::size_t d = 0; d < directions_; ++d) {
        const Track track =
            run_forward(sequence, cell_weights(weights, layer, d), d == 1);
        outputs.push_back(track.output);
        gates.push_back(track.gates);
        states.push_back(track.states);
      }
      if (layer > 0) kept.push_back(sequence);
      sequence = side_by_side(outputs);
      kept.push_back(side_by_side(gates));
      kept.push_back(side_by_side(states));
    }
    return {sequence, kept};
  }

  // Carries the gates' gradients: going through time needs the weights, which
  // the other half does not get.
  Tensors backward_input(const KeptTensors& kept, const Tensors& weights,
                         const at::Tensor& gradient,
                         Tensors* carried) const override {
    Walk walked = walk(kept, weights, gradient);
    if (carried) *carried = std::move(walked.of_gates);
    return {walked.of_input};
  }
  Tensors backward_weight(const KeptTensors& kept, const at::Tensor&,
                          const Tensors& of_gates) const override {
    Tensors gradients;
    for (std::size_t layer = 0; layer < layers_; ++layer)
      for (std::size_t d = 0; d < directions_; ++d) {
        const at::Tensor rows = as_rows(of_gates[layer * directions_ + d]);
        const at::Tensor earlier =
            shifted(track(kept, layer, d).output, d == 1);
        const at::Tensor bias = rows.sum(0);
        gradients.push_back(
            at::mm(rows.t(), as_rows(layer_input(kept, layer))));
        gradients.push_back(at::mm(rows.t(), as_rows(earlier)));
        gradients.insert(gradients.end(), {bias, bias.clone()});
      }
    return gradients;
  }

 private:
  struct Walk {
    at::Tensor of_input;  // undefined where not wanted
    Tensors of_gates;     // by layer and direction
  };

  static at::Tensor side_by_side(const Tensors& parts) {
    return parts.size() == 1 ? parts[0] : at::cat(parts, 2);
  }
  CellWeights cell_weights(const Tensors& weights, std::size_t layer,
                           std::size_t direction) const {
    const std::size_t first = 4 * (layer * directions_ + direction);
    return {weights[first], weights[first + 1], weights[first + 2],
            weights[first + 3]};
  }
  // Private tensors are [input unless layer 0], gates, states for each layer.
  const at::Tensor& layer_input(const KeptTensors& kept,
                                std::size_t layer) const {
    return layer == 0 ? kept.inputs[0] : kept.kept_private[3 * layer - 1];
  }
  const at::Tensor& layer_output(const KeptTensors& kept,
                                 std::size_t layer) const {
    return layer + 1 == layers_ ? kept.output : layer_input(kept, layer + 1);
  }
  Track track(const KeptTensors& kept, std::size_t layer, std::size_t d) const {
    const auto at = static_cast<std::int64_t>(d) * hidden_;
    return {layer_output(kept, layer).narrow(2, at, hidden_),
            kept.kept_private[3 * layer].narrow(2, 4 * at, 4 * hidden_),
            kept.kept_private[3 * layer + 1].narrow(2, at, hidden_)};
  }

  Walk walk(const KeptTensors& kept, const Tensors& weights,
            const at::Tensor& gradient) const {
    Walk walked{{}, Tensors(layers_ * directions_)};
    at::Tensor of_output = gradient;
    for (std::size_t layer = layers_; layer-- > 0;) {
      at::Tensor of_input;
      for (std::size_t d = 0; d < directions_; ++d) {
        const CellWeights cell = cell_weights(weights, layer, d);
        at::Tensor& of_gates = walked.of_gates[layer * directions_ + d];
        of_gates = gate_gradients(
            track(kept, layer, d), cell.hidden,
            of_output.narrow(2, static_cast<std::int64_t>(d) * hidden_,
                             hidden_),
            d == 1);
        if (layer == 0 && !wants_gradient_) continue;
        at::Tensor part = at::mm(as_rows(of_gates), cell.input);
        of_input = of_input.defined() ? of_input.add_(part) : part;
      }
      if (of_input.defined())
        of_output = of_input.view(layer_input(kept, layer).sizes());
    }
    if (wants_gradient_) walked.of_input = of_output;
    return walked;
  }

  bool wants_gradient_;
  std::int64_t hidden_;
  std::size_t layers_, directions_;
};

}  // namespace

std::unique_ptr<const LayerFunction> make_lstm(LayerDescription description) {
  return std::make_unique<Lstm>(description);
}

}  // namespace pipewright
