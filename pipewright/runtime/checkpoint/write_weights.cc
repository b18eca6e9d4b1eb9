#include "pipewright/runtime/checkpoint/write_weights.h"

#include <algorithm>

#include "pipewright/base/files.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/runtime/layers/exported_weights.h"
#include "pipewright/runtime/safetensors/tensor_file.h"

namespace pipewright {
namespace {

bool is_parameter(const Model& model, const std::string& name) {
  return std::any_of(
      model.parameters().begin(), model.parameters().end(),
      [&](const Parameter& parameter) { return parameter.name == name; });
}

}  // namespace

Result<void> write_weights(const std::filesystem::path& file,
                           const Model& model, const TrainingState& state) {
  const ExportedModel& exported = *model.exported();
  const auto before = open_weights(model);
  NamedTensors tensors;
  for (const std::string& name : before->names())
    if (!is_parameter(model, name)) {
      PIPEWRIGHT_TRY(tensors[name], before->stored(name));
    }
  for (std::size_t l = 0; l < exported.layers.size(); ++l)
    for (std::size_t b = 0; b < exported.layers[l].buffers.size(); ++b)
      tensors[exported.layers[l].buffers[b]] = state.statistics[l][b];
  for (const std::string& name : exported.not_saved) tensors.erase(name);
  for (std::size_t p = 0; p < model.parameters().size(); ++p) {
    const std::string& name = model.parameters()[p].name;
    tensors[name] = state.parameters[p];
    if (const auto tied = exported.tied_names.find(name);
        tied != exported.tied_names.end())
      for (const std::string& also : tied->second)
        tensors[also] = state.parameters[p];
  }
  return write_file(file, to_safetensors(tensors));
}

}  // namespace pipewright
