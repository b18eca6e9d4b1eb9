// Samples of any model from a safetensors file; see sources.h.

#include "pipewright/runtime/data/sources.h"
#include "pipewright/runtime/safetensors/tensor_file.h"

namespace pipewright {

Result<Dataset> tensor_dataset(const std::string& file, const Model& model,
                               bool is_shuffled) {
  PIPEWRIGHT_TRY(const auto tensors, TensorFile::open(file));
  Dataset dataset{file, 0, model.inputs(), {}, is_shuffled};
  for (const ModelInput& input : model.inputs()) {
    PIPEWRIGHT_TRY(
        at::Tensor values,
        tensors->samples(input.name, input.shape, scalar_type(input.type)));
    if (dataset.inputs.empty()) dataset.num_samples = values.size(0);
    if (dataset.num_samples < 1)
      return malformed("has no samples: \"" + input.name + "\" is empty", file);
    if (values.size(0) != dataset.num_samples)
      return malformed("has " + std::to_string(values.size(0)) +
                           " samples of \"" + input.name + "\" and " +
                           std::to_string(dataset.num_samples) + " of \"" +
                           model.inputs()[0].name + "\"",
                       file);
    dataset.inputs.push_back({std::move(values), 1});
  }
  return dataset;
}

}  // namespace pipewright
