// Layer by layer; see profiler.h.

#include "pipewright/runtime/profiler.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <thread>

#include "pipewright/base/text.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/initial_parameters.h"
#include "pipewright/runtime/network.h"
#include "pipewright/runtime/training.h"

namespace pipewright {
namespace {

constexpr int kFiguresPerLayer = 4;
constexpr int kTries = 3;  // of a noisy figure
constexpr std::size_t kMostNamed = 12;

// Measures one layer after the other and remembers what was noisy.
class Profiler {
 public:
  Profiler(const Model& model, std::size_t num_sizes,
           const ProfilerOptions& options)
      : network_(model),
        options_(options),
        num_figures_(static_cast<double>(num_sizes) * kFiguresPerLayer *
                     model.num_layers()),
        is_updated_(model.parameters().size(), false) {}

  std::vector<LayerTimes> times(int microbatch) {
    is_updated_.assign(is_updated_.size(), false);
    std::vector<LayerTimes> rows;
    for (int i = 0; i < network_.model.num_layers(); ++i) {
      rows.push_back(layer_times(LayerId(i), microbatch));
      figures_done_ += kFiguresPerLayer;
      if (options_.progress) options_.progress(figures_done_ / num_figures_);
    }
    return rows;
  }

  std::string noise() const {
    if (noisy_.empty()) return "every figure is steady";
    std::string text = "NOT measured reliably (noisy: spread over " +
                       to_text(options_.most_spread * 100) + " %), " +
                       std::to_string(noisy_.size()) + " of " +
                       std::to_string(num_measured_) + " figures: ";
    const std::size_t named = std::min(noisy_.size(), kMostNamed);
    text += join(std::span(noisy_).first(named), ", ");
    if (named < noisy_.size())
      text += " and " + std::to_string(noisy_.size() - named) + " more";
    return text;
  }

 private:
  Seconds figure(const std::string& name, const std::function<void()>& work) {
    const Seconds budget = options_.budget / num_figures_;
    Sample best = measured(work, budget);
    for (int i = 1; i < kTries && best.spread > options_.most_spread; ++i) {
      const Sample again = measured(work, budget / 2);
      if (again.spread < best.spread) best = again;
    }
    ++num_measured_;
    if (best.spread > options_.most_spread)
      noisy_.push_back(name + " (" + to_text(best.spread * 100) + " %)");
    return best.median;
  }

  LayerTimes layer_times(LayerId id, int microbatch) {
    const Layer& layer = network_.model.layer(id);
    const LayerFunction& function = *network_.functions[id.index()];
    const std::string at = layer.name + " at " + std::to_string(microbatch);
    const RandomStream stream(1, layer.name);
    Tensors inputs, weights;
    for (const Source& source : layer.inputs)
      inputs.push_back(
          random_samples(network_.model, source, microbatch, stream));
    for (const ParameterId parameter : layer.parameters)
      weights.push_back(initial_parameter(network_.model, parameter, 1));
    Tensors statistics = function.initial_statistics();
    const ForwardContext context{1, 0, 0, microbatch, true, &statistics};

    LayerTimes times;
    Forwarded done;
    times.forward = figure("forward of " + at, [&] {
      done = function.forward(inputs, weights, context);
    });
    if (!network_.model.needs_gradient(id)) return times;
    measure_backward(id, kept(id, inputs, done), weights, microbatch, times);
    times.update = update(layer, weights, "update of " + at);
    return times;
  }

  KeptTensors kept(LayerId id, const Tensors& inputs,
                   const Forwarded& done) const {
    const LayerCost& cost = network_.costs[id.index()];
    KeptTensors result;
    result.inputs.resize(inputs.size());
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (cost.keeps_input[i]) result.inputs[i] = inputs[i];
    if (cost.keeps_output) result.output = done.output;
    result.kept_private = done.kept_private;
    return result;
  }

  // Halves as a worker runs them: what the first computes for the second is
  // carried over, and gradients are added up.
  void measure_backward(LayerId id, const KeptTensors& kept,
                        const Tensors& weights, int microbatch,
                        LayerTimes& times) {
    const Layer& layer = network_.model.layer(id);
    const LayerFunction& function = *network_.functions[id.index()];
    const std::string at = layer.name + " at " + std::to_string(microbatch);
    at::Tensor gradient = seed_gradient(layer, microbatch, microbatch);
    if (!is_loss(layer))
      gradient = random_tensor(gradient.sizes().vec(), layer.output_type, 1,
                               RandomStream(2, layer.name));
    Tensors carried;
    times.backward_input = figure("input gradient of " + at, [&] {
      carried.clear();
      function.backward_input(kept, weights, gradient, &carried);
    });
    if (layer.parameters.empty()) return;
    Tensors sums = function.backward_weight(kept, gradient, carried);
    times.backward_weight = figure("weight gradient of " + at, [&] {
      const Tensors parts = function.backward_weight(kept, gradient, carried);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add_(parts[i]);
    });
  }

  // A tied parameter is updated once, at its first user.
  Seconds update(const Layer& layer, Tensors& weights,
                 const std::string& name) {
    Tensors updated;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (is_updated_[layer.parameters[i].index()]) continue;
      is_updated_[layer.parameters[i].index()] = true;
      updated.push_back(weights[i]);
    }
    if (updated.empty()) return Seconds(0);
    const auto optimizer = sgd({0.9, 0, false});
    std::vector<Tensors> states;
    Tensors gradients;
    for (const at::Tensor& tensor : updated) {
      states.push_back({at::zeros_like(tensor)});
      gradients.push_back(at::full_like(tensor, 1e-6));
    }
    return figure(name, [&] {
      for (std::size_t i = 0; i < updated.size(); ++i)
        optimizer->update(updated[i], gradients[i], states[i], 1e-6, 0);
    });
  }

  const Network network_;
  const ProfilerOptions& options_;
  const double num_figures_;
  double figures_done_ = 0;
  int num_measured_ = 0;
  std::vector<bool> is_updated_;    // by ParameterId
  std::vector<std::string> noisy_;  // with their spread
};

std::string description(const std::string& noise, const Sample& latency) {
  return "median of repeated runs of each layer alone on one thread of " +
         std::to_string(std::thread::hardware_concurrency()) +
         " cores; update is sgd with momentum; the in-process channel hands "
         "tensors over without a copy in " +
         to_text(latency.median) + "; " + noise;
}

}  // namespace

Result<Profile> measured_profile(const Model& model,
                                 std::span<const int> microbatches,
                                 const ProfilerOptions& options) {
  for (const int size : microbatches)
    if (size < 1 || size > kLargestMicrobatch)
      return bad_configuration("a microbatch of " + std::to_string(size) +
                                   " samples cannot be measured",
                               "sizes are 1 and up");
  const c10::InferenceMode guard;
  const SingleThreaded single;
  Profile profile = profile_graph(model);
  Profiler profiler(model, microbatches.size(), options);
  for (const int size : microbatches) {
    profile.sizes[size] = model_sizes(model, size);
    profile.times["cpu"][size] = profiler.times(size);
  }
  profile.origin.source = "measured";
  profile.origin.description =
      description(profiler.noise(), channel_latency(options.budget / 100));
  if (auto checked = profile.check(profile.model); !checked)
    return checked.error();
  return profile;
}

}  // namespace pipewright
