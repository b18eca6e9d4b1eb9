#include "pipewright/runtime/layers/exported_weights.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include "pipewright/model/exported/exported_model.h"
#include "pipewright/runtime/layers/layer_function.h"
#include "pipewright/runtime/layers/operator_code.h"
#include "pipewright/runtime/safetensors/tensor_file.h"

namespace pipewright {
namespace {

using OpenTensorFile = std::shared_ptr<const TensorFile>;

// One that is open already, or newly opened.
Result<OpenTensorFile> shared_file(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const TensorFile>> files;
  const std::lock_guard lock(mutex);
  if (OpenTensorFile open = files[path].lock()) return open;
  auto opened = TensorFile::open(path);
  if (!opened) {
    Error error = opened.error();
    error.message = "the model's weights: " + error.message;
    error.hint = "export the model again, or name them with --weights";
    return error;
  }
  files[path] = *opened;
  return opened;
}

// The parameter's own, then those tied to it.
std::vector<std::string> names_of(const Model& model,
                                  const Parameter& parameter) {
  std::vector<std::string> names = {parameter.name};
  const auto& tied = model.exported()->tied_names;
  if (const auto also = tied.find(parameter.name); also != tied.end())
    names.insert(names.end(), also->second.begin(), also->second.end());
  return names;
}

template <class T>
T or_throw(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().to_text());
  return *std::move(result);
}

// FNV-1a over words of eight bytes: a gigabyte takes a fraction of a second.
constexpr std::uint64_t kHashStart = 14695981039346656037ULL;

std::uint64_t hash_onward(std::uint64_t hash, const at::Tensor& tensor) {
  const at::Tensor plain = tensor.contiguous();
  const auto* bytes = static_cast<const unsigned char*>(plain.const_data_ptr());
  std::size_t left = plain.nbytes();
  while (left > 0) {
    std::uint64_t word = 0;
    const std::size_t size = std::min(left, sizeof word);
    std::memcpy(&word, bytes, size);
    hash = (hash ^ word) * 1099511628211ULL;
    bytes += size;
    left -= size;
  }
  return hash;
}

Result<void> check_operators(const ExportedModel& exported) {
  for (const LayerFunctions& functions : exported.functions)
    for (const ExportedFunction* one :
         {&functions.constants, &functions.forward, &functions.backward_input,
          &functions.backward_weight})
      if (auto bound = OperatorCode::create(*one); !bound) {
        Error error = bound.error();
        error.where = exported.file;
        error.hint = "it was exported with torch " + exported.torch_version +
                     "; export it again with the version that `pipewright "
                     "env` shows";
        return error;
      }
  return {};
}

}  // namespace

Result<void> check_exported(const Model& model) {
  const ExportedModel* const exported = model.exported();
  if (!exported) return {};
  if (auto known = check_operators(*exported); !known) return known;
  PIPEWRIGHT_TRY(const OpenTensorFile file, shared_file(exported->weights));
  for (const Parameter& one : model.parameters())
    if (auto there =
            file->check(names_of(model, one), one.shape, scalar_type(one.type));
        !there)
      return there;
  for (const Parameter& one : exported->buffers)
    if (auto there = file->check({one.name}, one.shape, scalar_type(one.type));
        !there)
      return there;
  return {};
}

Result<std::string> weights_hash(const Model& model) {
  const ExportedModel* const exported = model.exported();
  if (!exported) return std::string();
  PIPEWRIGHT_TRY(const OpenTensorFile file, shared_file(exported->weights));
  std::uint64_t hash = kHashStart;
  for (const Parameter& one : model.parameters()) {
    PIPEWRIGHT_TRY(
        const at::Tensor tensor,
        file->tensor(names_of(model, one), one.shape, scalar_type(one.type)));
    hash = hash_onward(hash, tensor);
  }
  for (const Parameter& one : exported->buffers) {
    PIPEWRIGHT_TRY(const at::Tensor tensor,
                   file->tensor({one.name}, one.shape, scalar_type(one.type)));
    hash = hash_onward(hash, tensor);
  }
  return std::to_string(hash);
}

std::shared_ptr<const TensorFile> open_weights(const Model& model) {
  if (!model.exported()) return nullptr;
  return or_throw(shared_file(model.exported()->weights));
}

at::Tensor exported_parameter(const Model& model, ParameterId id) {
  const Parameter& parameter = model.parameter(id);
  return or_throw(open_weights(model)->tensor(names_of(model, parameter),
                                              parameter.shape,
                                              scalar_type(parameter.type)));
}

at::Tensor exported_buffer(const Model& model, const std::string& name) {
  for (const Parameter& buffer : model.exported()->buffers)
    if (buffer.name == name)
      return or_throw(open_weights(model)->tensor({name}, buffer.shape,
                                                  scalar_type(buffer.type)));
  throw std::runtime_error("the model has no buffer " + name);
}

}  // namespace pipewright
