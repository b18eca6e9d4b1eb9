#include "experiments/convergence/convergence_task.h"

#include <c10/core/InferenceMode.h>

#include "pipewright/model/zoo/sketch.h"
#include "pipewright/runtime/layers/layer_makers.h"

namespace pipewright {
namespace {

Source conv_norm(Sketch& sketch, const std::string& name, Source x,
                 int channels, const Slide& slide = square(3, 1, 1)) {
  x = sketch.conv(name, x, channels, slide, /*bias=*/false);
  return sketch.add(name + "_norm", LayerKind::BatchNorm, {x});
}

// Residual blocks of two convolutions, all of one width, on what a first
// convolution makes of the image.
Result<Model> residual_net(std::int64_t side, const Slide& first, int blocks,
                           int channels) {
  Sketch sketch("residual" + std::to_string(blocks), NumberType::Float32);
  Source x = sketch.input("image", {1, side, side});
  x = sketch.relu("relu", conv_norm(sketch, "conv", x, channels, first));
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

std::string transformer_text(const std::string& name, const Recipe& recipe,
                             int sequence) {
  return name + ":layers=" + std::to_string(recipe.blocks) +
         ",hidden=" + std::to_string(recipe.width) +
         ",heads=4,vocab=128,seq=" + std::to_string(sequence) +
         ",dropout=0,tied=false";
}

Result<Model> model_of(const Recipe& recipe) {
  if (recipe.net == "cnn")
    return residual_net(
        recipe.data == "digits" ? 8 : 28,
        recipe.patch > 1 ? square(recipe.patch, recipe.patch) : square(3, 1, 1),
        recipe.blocks, recipe.width);
  if (recipe.net == "chain") return residual_chain(recipe.blocks, recipe.width);
  if (recipe.net == "resnet50")
    return load_model("resnet50:image=28,channels=1,classes=10");
  if (recipe.net == "transformer")
    return load_model(transformer_text("transformer", recipe, 12));
  if (recipe.net == "gpt")
    return load_model(transformer_text("gpt", recipe, 16));
  return bad_configuration("there is no net \"" + recipe.net + "\"");
}

Trained at_place(const Trained& trained, at::Device place) {
  Trained there;
  for (const at::Tensor& tensor : trained.parameters)
    there.parameters.push_back(tensor.to(place));
  for (const Tensors& tensors : trained.statistics) {
    Tensors& copies = there.statistics.emplace_back();
    for (const at::Tensor& tensor : tensors) copies.push_back(tensor.to(place));
  }
  return there;
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

Result<Task> make_task(const Recipe& recipe) {
  PIPEWRIGHT_TRY(Model model, model_of(recipe));
  PIPEWRIGHT_TRY(const Dataset all, open_dataset(recipe.data, model));
  // A fifth is for the test, the same for every seed.
  Split parts = split(all, 0.2, 1);
  Task task{recipe, std::move(model), std::move(parts.rest),
            std::move(parts.held_out)};
  task.optimizer.name = recipe.optimizer;
  task.optimizer.momentum = task.optimizer.beta1 = recipe.momentum;
  task.counts_right_answers =
      recipe.net != "transformer" && recipe.net != "gpt";
  return task;
}

double tested(const Task& task, const Trained& trained, at::Device place) {
  const c10::InferenceMode guard;
  const SingleThreaded single;
  const Trained there = at_place(trained, place);
  const LayerId loss(task.model.num_layers() - 1);
  const std::int64_t count =
      std::min<std::int64_t>(task.test.num_samples, task.recipe.tested_samples);
  constexpr std::int64_t kAtOnce = 500;
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    std::vector<std::int64_t> samples;
    for (std::int64_t i = first; i < std::min(first + kAtOnce, count); ++i)
      samples.push_back(i);
    std::vector<at::Tensor> inputs;
    for (std::size_t i = 0; i < task.test.inputs.size(); ++i)
      inputs.push_back(task.test.batch(static_cast<int>(i), samples).to(place));
    if (task.counts_right_answers)
      sum += output(task.model, there, LayerId(loss.value - 1), inputs)
                 .argmax(1)
                 .eq(inputs.back())
                 .sum()
                 .item<double>();
    else
      sum += output(task.model, there, loss, inputs).item<double>() *
             static_cast<double>(samples.size());
  }
  return sum / static_cast<double>(count);
}

}  // namespace pipewright
