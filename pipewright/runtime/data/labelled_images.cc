// Images with labels for a model; see sources.h.

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

// 1x28x28, 28x28 and 784 are the same image.
bool is_same_image(const Shape& data, const Shape& wanted) {
  const auto without_ones = [](const Shape& shape) {
    Shape rest;
    for (const std::int64_t size : shape)
      if (size != 1) rest.push_back(size);
    return rest;
  };
  return without_ones(data) == without_ones(wanted) ||
         (wanted.size() == 1 && num_elements(data) == wanted[0]);
}

// The index of the model's only input of numbers, or of indices; or -1.
int only_input(const Model& model, bool floating) {
  int found = -1;
  for (std::size_t i = 0; i < model.inputs().size(); ++i) {
    if (is_floating(model.inputs()[i].type) != floating) continue;
    if (found >= 0) return -1;
    found = static_cast<int>(i);
  }
  return found;
}

// Few images are converted once: a thread that converts each microbatch takes
// time from workers where those have all the cores.
StoredInput stored_images(const LabelledImages& images, NumberType type) {
  constexpr std::int64_t kFewBytes = 64'000'000;
  const at::Tensor pixels = images.pixels.view({images.labels.numel(), -1});
  const at::ScalarType wanted = scalar_type(type);
  if (pixels.numel() * static_cast<std::int64_t>(elementSize(wanted)) >
      kFewBytes)
    return {pixels, images.scale};
  return {pixels.to(wanted).mul_(images.scale), 1};
}

}  // namespace

Result<Dataset> image_dataset(LabelledImages images, const Model& model) {
  const int image = only_input(model, true), label = only_input(model, false);
  if (image < 0 || label < 0 || model.inputs().size() != 2)
    return bad_configuration(
        images.name + " has images and labels, but the model " + model.name() +
            " has inputs " + input_shapes(model),
        "choose a model that classifies images, or --data synthetic");
  const Shape& wanted = model.inputs()[image].shape;
  if (!is_same_image(images.shape, wanted))
    return bad_configuration(images.name + " has images of " +
                                 to_text(images.shape) + ", the model " +
                                 model.name() + " needs " + to_text(wanted),
                             "choose the model's input size, or other data");
  if (!model.inputs()[label].shape.empty())
    return bad_configuration(
        images.name + " has one label per image, the model " + model.name() +
        " needs " + to_text(model.inputs()[label].shape));
  const std::int64_t classes = index_bound(model, label);
  const auto* labels = images.labels.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < images.labels.numel(); ++i)
    if (labels[i] < 0 || labels[i] >= classes)
      return malformed("sample " + std::to_string(i) + " has label " +
                           std::to_string(labels[i]) + ", the model " +
                           model.name() + " has " + std::to_string(classes) +
                           " classes",
                       images.name, "labels count from 0");
  Dataset dataset{images.name, images.labels.numel(), model.inputs(), {}, true};
  dataset.inputs.resize(2);
  dataset.inputs[image] = stored_images(images, model.inputs()[image].type);
  dataset.inputs[label] = {images.labels, 1};
  return dataset;
}

}  // namespace pipewright
