// Times from runs of a pipeline; see profiler.h.

#include "pipewright/runtime/profiling/profiler.h"

#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <tuple>
#include <vector>

#include "pipewright/base/text.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/profiling/profiling_pipeline.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;
using Part = LayerStopwatch::Part;

// A GPU's clock is steadier than a core's.
constexpr std::size_t kMinSamples = 5, kEnoughSamples = 100, kEnoughOnGpu = 24;
constexpr std::size_t kMaxNamed = 12;

Seconds since(Clock::time_point start) {
  return Seconds(std::chrono::duration<double>(Clock::now() - start).count());
}

// Whether two layers do the same work and share their samples. Otherwise each
// of a deep network's equal blocks would have its own noise, and planners would
// cut by that.
bool are_alike(const Model& model, LayerId a, LayerId b) {
  const Layer &one = model.layer(a), &other = model.layer(b);
  const auto work = [&](LayerId layer) {
    const LayerCost cost = layer_cost(model, layer);
    return std::tuple(cost.forward, cost.backward_input, cost.backward_weight,
                      cost.memory_traffic, cost.parameters, cost.keeps_input);
  };
  return one.kind == other.kind && one.attributes == other.attributes &&
         one.output == other.output && one.output_type == other.output_type &&
         model.needs_gradient(a) == model.needs_gradient(b) &&
         work(a) == work(b);
}

// For each layer, the first that does the same work.
std::vector<LayerId> first_alike(const Model& model) {
  std::vector<LayerId> first;
  for (int l = 0; l < model.num_layers(); ++l) {
    LayerId alike(l);
    for (int other = 0; other < l && alike == LayerId(l); ++other)
      if (first[LayerId(other).index()] == LayerId(other) &&
          are_alike(model, LayerId(other), LayerId(l)))
        alike = LayerId(other);
    first.push_back(alike);
  }
  return first;
}

ProfilingSettings settings_of(const ProfilerOptions& options) {
  return {options.device, options.may_record, options.optimizer, nullptr,
          options.stages};
}

// Measures one size after the other and keeps the names of noisy times.
class Profiler {
 public:
  Profiler(const Model& model, std::size_t num_sizes,
           const ProfilerOptions& options)
      : model_(model),
        first_(first_alike(model)),
        options_(options),
        enough_(options.device == "cpu" ? kEnoughSamples : kEnoughOnGpu),
        budget_(options.budget / static_cast<double>(num_sizes)),
        share_(1 / static_cast<double>(num_sizes)) {}

  // Also sets workspace and carried bytes in `sizes`.
  Result<std::vector<LayerTimes>> times(int microbatch,
                                        std::vector<LayerSizes>& sizes) {
    PIPEWRIGHT_TRY(
        ProfilingPipeline pipeline,
        ProfilingPipeline::create(model_, microbatch, options_.workers,
                                  settings_of(options_)));
    if (auto measured = measure(pipeline); !measured) return measured.error();
    std::vector<LayerTimes> rows;
    for (int l = 0; l < model_.num_layers(); ++l) {
      const LayerId first = first_[LayerId(l).index()];
      rows.push_back(first == LayerId(l) ? row(first, pipeline, microbatch)
                                         : rows[first.index()]);
    }
    for (int l = 0; l < model_.num_layers(); ++l) {
      // Tied weights are updated once.
      if (pipeline.updates(LayerId(l)).empty())
        rows[LayerId(l).index()].update = Seconds(0);
      sizes[LayerId(l).index()].workspace =
          pipeline.layers().workspace(LayerId(l));
      sizes[LayerId(l).index()].carried = pipeline.layers().carried(LayerId(l));
    }
    done_ += share_;
    return rows;
  }

  std::string noise() const {
    if (noisy_.empty()) return "no time is noisy";
    std::string text = "NOT measured reliably (noisy: spread over " +
                       to_text(options_.max_spread * 100) + " %), " +
                       std::to_string(noisy_.size()) + " of " +
                       std::to_string(num_measured_) + " times: ";
    const std::size_t named = std::min(noisy_.size(), kMaxNamed);
    text += join(std::span(noisy_).first(named), ", ");
    if (named < noisy_.size())
      text += " and " + std::to_string(noisy_.size() - named) + " more";
    return text;
  }

 private:
  // The first run warms up allocators, caches and pages, some more where the
  // device records. If that takes most of the budget it is all.
  Result<void> measure(ProfilingPipeline& pipeline) {
    const Clock::time_point start = Clock::now();
    do {
      pipeline.clear();
      if (auto warmed = pipeline.run(); !warmed) return warmed;
    } while (!pipeline.is_settled());
    if (since(start) * 2.0 < budget_) {
      pipeline.clear();
      do {
        if (auto ran = pipeline.run(); !ran) return ran;
        report_progress(std::min(since(start) / budget_, 1.0));
      } while (pipeline.num_samples() < kMinSamples ||
               (pipeline.num_samples() < enough_ && since(start) < budget_));
    }
    report_progress(1);
    return {};
  }

  void report_progress(double of_size) const {
    if (options_.progress)
      options_.progress(std::min(done_ + share_ * of_size, 1.0));
  }

  // Of all layers that do the same work; `id` is the first of them.
  LayerTimes row(LayerId id, const ProfilingPipeline& pipeline,
                 int microbatch) {
    const Layer& layer = model_.layer(id);
    const std::string at = layer.name + " at " + std::to_string(microbatch);
    const auto pooled = [&](auto samples_of) {
      std::vector<Seconds> all;
      for (int l = id.value; l < model_.num_layers(); ++l) {
        if (first_[LayerId(l).index()] != id) continue;
        const std::vector<Seconds> samples = samples_of(LayerId(l));
        all.insert(all.end(), samples.begin(), samples.end());
      }
      return all;
    };
    const auto of = [&](Part part, const std::string& name) {
      return mean_of(name + " of " + at, pooled([&](LayerId l) {
                       return pipeline.layers().samples(part, l);
                     }));
    };
    LayerTimes times;
    times.forward = of(Part::Forward, "forward");
    if (!model_.needs_gradient(id)) return times;
    times.backward_input = of(Part::BackwardInput, "input gradient");
    if (layer.parameters.empty()) return times;
    times.backward_weight = of(Part::BackwardWeight, "weight gradient");
    times.update =
        mean_of("update of " + at,
                pooled([&](LayerId l) { return pipeline.updates(l); }));
    return times;
  }

  Seconds mean_of(const std::string& name,
                  const std::vector<Seconds>& samples) {
    if (samples.empty()) return Seconds(0);
    const Sample sample = summary(samples);
    ++num_measured_;
    if (sample.spread > options_.max_spread)
      noisy_.push_back(name + " (" + to_text(sample.spread * 100) + " %)");
    return sample.mean;
  }

  const Model& model_;
  const std::vector<LayerId> first_;  // see first_alike()
  const ProfilerOptions& options_;
  const std::size_t enough_;
  const Seconds budget_;
  const double share_;  // of the work per size
  double done_ = 0;
  int num_measured_ = 0;
  std::vector<std::string> noisy_;  // with their spread
};

std::string update_name(const OptimizerChoice& optimizer) {
  const bool has_momentum = optimizer.name == "sgd" && optimizer.momentum > 0;
  return optimizer.name + (has_momentum ? " with momentum" : "");
}

// "cuda/4 of NVIDIA H200": kinds do not name the GPU.
std::string device_text(const std::string& kind) {
  const std::vector<Gpu> gpus = gpu_report().gpus;
  return gpus.empty() ? kind : kind + " of " + gpus.front().name;
}

std::string description(const ProfilerOptions& options,
                        const std::string& noise) {
  std::string text =
      "means over training steps and over layers that do the same work, "
      "without times above twice the median; " +
      std::to_string(options.workers) +
      (options.workers == 1 ? " worker" : " workers at once") + " on ";
  if (options.device == "cpu")
    text += std::to_string(std::thread::hardware_concurrency()) +
            " cores, one thread each; update is " +
            update_name(options.optimizer) +
            "; the in-process channel hands tensors over without a copy in " +
            to_text(channel_latency(options.budget / 100).median);
  else
    text += device_text(options.device) + "; update is " +
            update_name(options.optimizer);
  return text + "; " + noise;
}

Result<void> check_measured(int workers, std::span<const int> microbatches) {
  if (workers < 1)
    return bad_configuration(
        "cannot measure with " + std::to_string(workers) + " workers",
        "use at least 1");
  for (const int size : microbatches)
    if (size < 1 || size > kMaxMicrobatch)
      return bad_configuration(
          "cannot measure a microbatch of " + std::to_string(size) + " samples",
          "use 1 to " + std::to_string(kMaxMicrobatch));
  return {};
}

}  // namespace

Result<PipelineRun> measured_pipeline(const Model& model, int microbatch,
                                      const ProfilerOptions& options) {
  if (auto fine = check_measured(options.workers, {&microbatch, 1}); !fine)
    return fine.error();
  PIPEWRIGHT_TRY(ProfilingPipeline pipeline,
                 ProfilingPipeline::create(model, microbatch, options.workers,
                                           settings_of(options)));
  return pipeline.measured_run();
}

Result<Profile> measured_profile(const Model& model,
                                 std::span<const int> microbatches,
                                 const ProfilerOptions& options) {
  if (auto fine = check_measured(options.workers, microbatches); !fine)
    return fine.error();
  Profile profile = profile_graph(model);
  Profiler profiler(model, microbatches.size(), options);
  for (const int size : microbatches) {
    profile.sizes[size] = model_sizes(model, size);
    PIPEWRIGHT_TRY(profile.times[options.device][size],
                   profiler.times(size, profile.sizes[size]));
  }
  profile.origin.source = "measured";
  profile.origin.description = description(options, profiler.noise());
  if (auto checked = profile.check(profile.model); !checked)
    return checked.error();
  return profile;
}

}  // namespace pipewright
