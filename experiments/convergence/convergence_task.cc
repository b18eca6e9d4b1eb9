#include "experiments/convergence/convergence_task.h"

#include <c10/core/InferenceMode.h>

#include "pipewright/model/zoo/sketch.h"

namespace pipewright {
namespace {

Source conv_norm(Sketch& sketch, const std::string& name, Source x,
                 int channels) {
  x = sketch.conv(name, x, channels, square(3, 1, 1), /*bias=*/false);
  return sketch.add(name + "_norm", LayerKind::BatchNorm, {x});
}

// Residual blocks of two convolutions, all of one width.
Result<Model> residual_net(std::int64_t side, bool pools, int blocks,
                           int channels) {
  Sketch sketch("residual" + std::to_string(blocks), NumberType::Float32);
  Source x = sketch.input("image", {1, side, side});
  x = sketch.relu("relu", conv_norm(sketch, "conv", x, channels));
  if (pools) x = sketch.max_pool("pool", x, square(4, 4));
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    Source y = conv_norm(sketch, name + ".conv1", x, channels);
    y = conv_norm(sketch, name + ".conv2", sketch.relu(name + ".relu1", y),
                  channels);
    x = sketch.relu(name + ".relu2", sketch.sum(name + ".add", x, y));
  }
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  sketch.cross_entropy(sketch.linear("fc", x, 10));
  return std::move(sketch).build();
}

Result<Model> residual_chain(int blocks, int features) {
  Sketch sketch("chain" + std::to_string(blocks), NumberType::Float32);
  Source x = sketch.input("image", {1, 8, 8});
  x = sketch.add("flatten", LayerKind::Flatten, {x});
  x = sketch.linear("first", x, features);
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "block" + std::to_string(i);
    Source y = sketch.layer_norm(name + ".norm", x);
    y = sketch.relu(name + ".relu", sketch.linear(name + ".fc1", y, features));
    x = sketch.sum(name + ".add", x, sketch.linear(name + ".fc2", y, features));
  }
  x = sketch.layer_norm("norm", x);
  sketch.cross_entropy(sketch.linear("fc", x, 10));
  return std::move(sketch).build();
}

Dataset part(const Dataset& all, std::int64_t first, std::int64_t count) {
  Dataset result = all;
  result.num_samples = count;
  for (StoredInput& input : result.inputs)
    input.values = input.values.narrow(0, first, count);
  return result;
}

// A fifth is for the test.
Result<Task> task_of(const std::string& name, const std::string& data,
                     Model model, int steps) {
  PIPEWRIGHT_TRY(const Dataset all, open_dataset(data, model));
  const std::int64_t training = all.num_samples * 4 / 5;
  Task task{name, std::move(model), part(all, 0, training),
            part(all, training, all.num_samples - training)};
  task.steps = steps;
  return task;
}

at::Tensor output(const Model& model, const Trained& trained, LayerId last,
                  const std::vector<at::Tensor>& inputs) {
  const auto functions = layer_functions(model);
  Tensors outputs;
  for (int l = 0; l <= last.value; ++l) {
    const Layer& layer = model.layer(LayerId(l));
    Tensors from, weights;
    for (const Source& source : layer.inputs)
      from.push_back(source.is_model_input()
                         ? inputs[static_cast<std::size_t>(source.input)]
                         : outputs[source.layer.index()]);
    for (const ParameterId id : layer.parameters)
      weights.push_back(trained.parameters[id.index()]);
    Tensors statistics = trained.statistics[LayerId(l).index()];
    ForwardContext context;
    context.training = false;
    context.microbatch_samples = from.at(0).size(0);
    context.statistics = statistics.empty() ? nullptr : &statistics;
    outputs.push_back(
        functions[LayerId(l).index()]->forward(from, weights, context).output);
  }
  return outputs.back();
}

}  // namespace

int Task::num_weighted() const {
  int count = 0;
  for (int l = 0; l < model.num_layers(); ++l)
    count += !model.layer(LayerId(l)).parameters.empty();
  return count;
}

Result<Task> digits_task(int blocks, int channels, int steps) {
  PIPEWRIGHT_TRY(Model model, residual_net(8, false, blocks, channels));
  return task_of("digits", "digits", std::move(model), steps);
}

Result<Task> deep_task(int blocks, int features, int steps) {
  PIPEWRIGHT_TRY(Model model, residual_chain(blocks, features));
  PIPEWRIGHT_TRY(Task task, task_of("deep", "digits", std::move(model), steps));
  task.rate = 0.01;
  return task;
}

Result<Task> fashion_task(int blocks, int channels, int steps) {
  PIPEWRIGHT_TRY(Model model, residual_net(28, true, blocks, channels));
  return task_of("fashion-mnist", "fashion-mnist", std::move(model), steps);
}

Result<Task> text_task(const std::string& file, int blocks, int steps) {
  PIPEWRIGHT_TRY(Model model,
                 load_model("gpt:layers=" + std::to_string(blocks) +
                            ",hidden=48,heads=4,vocab=256,seq=32,dropout=0"));
  PIPEWRIGHT_TRY(Task task,
                 task_of("text", "text:" + file, std::move(model), steps));
  task.minibatch = 32;
  task.microbatch = 8;
  task.optimizer.name = "adam";
  task.rate = 2e-3;
  task.counts_right_answers = false;
  return task;
}

double tested(const Task& task, const Trained& trained) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0;
       i < std::min<std::int64_t>(task.test.num_samples, 400); ++i)
    samples.push_back(i);
  std::vector<at::Tensor> inputs;
  for (std::size_t i = 0; i < task.test.inputs.size(); ++i)
    inputs.push_back(task.test.batch(static_cast<int>(i), samples));
  const LayerId loss(task.model.num_layers() - 1);
  if (!task.counts_right_answers)
    return output(task.model, trained, loss, inputs).item<double>();
  const at::Tensor scores =
      output(task.model, trained, LayerId(loss.value - 1), inputs);
  return scores.argmax(1)
      .eq(inputs.back())
      .to(at::kDouble)
      .mean()
      .item<double>();
}

}  // namespace pipewright
