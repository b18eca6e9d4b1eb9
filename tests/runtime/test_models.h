// Small models, their profiles and their data, for the tests of the runtime.

#pragma once

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipewright/model/builder.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/plan.h"
#include "pipewright/profile/profile.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/random_stream.h"
#include "pipewright/runtime/training/training.h"
#include "pipewright/schedules/generator.h"

namespace pipewright::testing {

// Adds layers one after the other; throws on what the builder refuses.
class Sketch {
 public:
  explicit Sketch(const std::string& name,
                  NumberType type = NumberType::Float32)
      : builder_(name, type), type_(type) {}

  Source input(const std::string& name, Shape shape) {
    return builder_.add_input({name, std::move(shape), type_}).value();
  }
  Source indices(const std::string& name, Shape shape) {
    return builder_.add_input({name, std::move(shape), NumberType::Int64})
        .value();
  }
  Source add(LayerKind kind, std::vector<Source> inputs,
             Attributes attributes = {},
             std::map<std::string, std::string> shares = {}) {
    LayerRequest request{to_text(kind) + std::to_string(count_++), kind,
                         std::move(inputs), std::move(attributes),
                         std::move(shares)};
    return builder_.add_layer(request).value();
  }
  Source linear(Source from, std::int64_t features, bool bias = true) {
    return add(LayerKind::Linear, {from},
               {{"out_features", features}, {"bias", bias}});
  }
  Model build() { return std::move(builder_).build().value(); }

 private:
  ModelBuilder builder_;
  NumberType type_;
  int count_ = 0;
};

inline Model small_mlp() {
  Sketch sketch("mlp");
  Source x = sketch.input("image", {2, 6});
  const Source target = sketch.indices("target", {});
  x = sketch.add(LayerKind::Flatten, {x});
  for (int i = 0; i < 4; ++i)
    x = sketch.add(i % 2 == 0 ? LayerKind::Relu : LayerKind::Gelu,
                   {sketch.linear(x, 16)});
  x = sketch.linear(x, 5);
  sketch.add(LayerKind::CrossEntropy, {x, target});
  return sketch.build();
}

// With skips over a cut, batch-norm, dropout, a view in the middle and pools.
inline Model small_cnn() {
  Sketch sketch("cnn");
  Source x = sketch.input("image", {3, 8, 8});
  const Source target = sketch.indices("target", {});
  const auto conv = [&](Source from, std::int64_t channels) {
    return sketch.add(LayerKind::Conv2d, {from},
                      {{"out_channels", channels},
                       {"kernel", Shape{3, 3}},
                       {"padding", Shape{1, 1}},
                       {"bias", false}});
  };
  x = sketch.add(LayerKind::Relu,
                 {sketch.add(LayerKind::BatchNorm, {conv(x, 4)})});
  for (int block = 0; block < 2; ++block) {
    Source y = sketch.add(LayerKind::BatchNorm, {conv(x, 4)});
    y = sketch.add(LayerKind::Relu, {y});
    y = sketch.add(LayerKind::BatchNorm, {conv(y, 4)});
    x = sketch.add(LayerKind::Relu, {sketch.add(LayerKind::Add, {y, x})});
  }
  const Source pooled =
      sketch.add(LayerKind::MaxPool, {x}, {{"kernel", Shape{2, 2}}});
  const Source mean =
      sketch.add(LayerKind::AvgPool, {x}, {{"kernel", Shape{2, 2}}});
  x = sketch.add(LayerKind::Concat, {pooled, mean});
  x = sketch.add(LayerKind::Flatten, {x});
  x = sketch.add(LayerKind::Dropout, {x}, {{"rate", 0.2}});
  x = sketch.linear(x, 5);
  sketch.add(LayerKind::CrossEntropy, {x, target});
  return sketch.build();
}

// Decoder blocks with the output layer tied to the embedding.
inline Model small_gpt(NumberType type = NumberType::Float32,
                       bool flash = false) {
  constexpr std::int64_t kPositions = 6, kFeatures = 8, kEntries = 11;
  Sketch sketch("gpt", type);
  const Source tokens = sketch.indices("tokens", {kPositions});
  const Source target = sketch.indices("target", {kPositions});
  Source x = sketch.add(LayerKind::Embedding, {tokens},
                        {{"entries", kEntries}, {"features", kFeatures}});
  x = sketch.add(LayerKind::Positional, {x}, {{"positions", kPositions}});
  for (int block = 0; block < 2; ++block) {
    Source y =
        sketch.linear(sketch.add(LayerKind::LayerNorm, {x}), 3 * kFeatures);
    y = sketch.add(
        LayerKind::Attention, {y},
        {{"heads", std::int64_t{2}}, {"causal", true}, {"flash", flash}});
    x = sketch.add(LayerKind::Add, {x, sketch.linear(y, kFeatures)});
    y = sketch.linear(sketch.add(LayerKind::LayerNorm, {x}), 2 * kFeatures);
    y = sketch.linear(sketch.add(LayerKind::Gelu, {y}), kFeatures);
    x = sketch.add(LayerKind::Add, {x, y});
  }
  x = sketch.add(LayerKind::LayerNorm, {x});
  x = sketch.add(LayerKind::Linear, {x},
                 {{"out_features", kEntries}, {"bias", false}},
                 {{"weight", "embedding0.weight"}});
  sketch.add(LayerKind::CrossEntropy, {x, target});
  return sketch.build();
}

inline Model small_lstm() {
  Sketch sketch("lstm");
  const Source tokens = sketch.indices("tokens", {5});
  const Source target = sketch.indices("target", {5});
  Source x =
      sketch.add(LayerKind::Embedding, {tokens},
                 {{"entries", std::int64_t{9}}, {"features", std::int64_t{6}}});
  x = sketch.add(LayerKind::Lstm, {x},
                 {{"hidden", std::int64_t{4}}, {"bidirectional", true}});
  for (int i = 0; i < 3; ++i) {
    const Source y =
        sketch.add(LayerKind::Lstm, {x}, {{"hidden", std::int64_t{8}}});
    x = sketch.add(LayerKind::Add, {x, y});
  }
  x = sketch.linear(x, 9);
  sketch.add(LayerKind::CrossEntropy, {x, target});
  return sketch.build();
}

// What lowering needs to know of a model; times are nobody's business here.
inline Profile profile_of(const Model& model, int microbatch) {
  Profile profile;
  profile.model = model.name();
  auto& sizes = profile.sizes[microbatch];
  for (int l = 0; l < model.num_layers(); ++l) {
    const Layer& layer = model.layer(LayerId(l));
    const LayerCost cost = layer_cost(model, LayerId(l));
    ProfileLayer row;
    row.name = layer.name;
    row.kind = to_text(layer.kind);
    Bytes kept = cost.keeps_private.at(microbatch);
    for (std::size_t i = 0; i < layer.inputs.size(); ++i) {
      const Source& source = layer.inputs[i];
      if (!source.is_model_input()) {
        row.inputs.push_back(source.layer);
        row.keeps_input.push_back(cost.keeps_input[i]);
      } else if (cost.keeps_input[i]) {
        const ModelInput& input =
            model.inputs()[static_cast<std::size_t>(source.input)];
        kept += size_of(input.type) * num_elements(input.shape) *
                std::int64_t{microbatch};
        row.keeps_model_input = true;
      }
    }
    row.keeps_output = cost.keeps_output;
    row.output_is_view = cost.output_is_view;
    row.passes_gradient = cost.passes_gradient;
    row.mixes_samples = cost.mixes_samples;
    row.parameters = layer.parameters;
    profile.layers.push_back(row);
    sizes.push_back({cost.output.at(microbatch), kept, Bytes(0)});
  }
  for (const Parameter& parameter : model.parameters())
    profile.parameters.push_back(
        {parameter.name,
         size_of(parameter.type) * num_elements(parameter.shape)});
  return profile;
}

inline Result<Schedule> generated_if_possible(const std::string& name,
                                              int workers, int microbatches) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  return generate_schedule(name, request);
}
inline Schedule generated(const std::string& name, int workers,
                          int microbatches) {
  return generated_if_possible(name, workers, microbatches).value();
}

inline MicrobatchSource random_source(const Model& model, int microbatch) {
  return [&model, microbatch](int input, std::int64_t m) {
    const ModelInput& form = model.inputs()[static_cast<std::size_t>(input)];
    Shape sizes = {microbatch};
    sizes.insert(sizes.end(), form.shape.begin(), form.shape.end());
    const RandomStream stream(7, static_cast<std::uint64_t>(input),
                              static_cast<std::uint64_t>(m));
    at::Tensor tensor = at::empty(sizes, at::kDouble);
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
      tensor.data_ptr<double>()[i] =
          form.type == NumberType::Int64
              ? static_cast<double>(
                    stream.bits(static_cast<std::uint64_t>(i)) %
                    static_cast<std::uint64_t>(index_bound(model, input)))
              : stream.normal(static_cast<std::uint64_t>(i));
    return tensor.to(scalar_type(form.type));
  };
}

inline TrainingSettings settings_for_tests() {
  TrainingSettings settings;
  settings.seed = 3;
  settings.optimizer = sgd({0.9, 1e-3, false});
  settings.learning_rate = [](std::int64_t) { return 0.05; };
  return settings;
}

// Whether workers that share a stage split each microbatch or take turns.
inline Replication replication_of(const Schedule& schedule) {
  std::map<std::pair<StageId, MicrobatchId>, int> runs;
  std::map<StageId, std::set<int>> workers;
  for (int w = 0; w < schedule.num_workers(); ++w)
    for (const ComputeAction& action :
         schedule.sections().body[static_cast<std::size_t>(w)]) {
      if (action.kind != ComputeKind::Forward) continue;
      ++runs[{action.stage, action.microbatch}];
      workers[action.stage].insert(w);
    }
  for (const auto& [key, count] : runs)
    if (count < static_cast<int>(workers[key.first].size()))
      return Replication::Rotate;
  return Replication::Split;
}

// Layers in equal runs over the schedule's stages; a stage is on the workers
// that run it.
inline Plan plan_of(const Model& model, const Schedule& schedule,
                    int microbatch, Method method = Method::Sync) {
  Plan plan;
  plan.model = model.name();
  plan.method = method;
  plan.microbatch = microbatch;
  plan.minibatch = microbatch * schedule.num_microbatches();
  plan.schedule = schedule;
  plan.replication = replication_of(schedule);
  const int stages = schedule.num_stages();
  for (int s = 0; s < stages; ++s) {
    Stage stage;
    for (int l = model.num_layers() * s / stages;
         l < model.num_layers() * (s + 1) / stages; ++l)
      stage.forward.push_back(LayerId(l));
    stage.backward = stage.forward;
    for (int w = 0; w < schedule.num_workers(); ++w) {
      const auto& body = schedule.sections().body[static_cast<std::size_t>(w)];
      if (std::any_of(body.begin(), body.end(), [&](const ComputeAction& a) {
            return a.stage == StageId(s);
          }))
        stage.workers.push_back(WorkerId(w));
    }
    plan.stages.push_back(stage);
  }
  for (int w = 0; w < schedule.num_workers(); ++w)
    plan.devices.push_back(DeviceId(w));
  return plan;
}

}  // namespace pipewright::testing
