#include "pipewright/runtime/checkpoint/checkpoint.h"

#include <fcntl.h>
#include <stdio.h>
#include <zlib.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/checkpoint/safetensors.h"
#include "pipewright/runtime/layers/layer_functions.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kKept = 2;
std::atomic<bool> disk_is_full{false};  // or pretends to be

std::string layer_file(std::size_t layer) {
  std::string number = std::to_string(layer);
  return "layer-" +
         std::string(number.size() < 4 ? 4 - number.size() : 0, '0') + number +
         ".safetensors";
}

std::int64_t checksum(std::string_view bytes) {
  return static_cast<std::int64_t>(
      ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

// The parameters in each layer's file: those that it is the first to use.
std::vector<std::vector<ParameterId>> first_used(const Model& model) {
  std::vector<std::vector<ParameterId>> result(model.layers().size());
  std::vector<bool> seen(model.parameters().size(), false);
  for (std::size_t l = 0; l < result.size(); ++l)
    for (const ParameterId id : model.layers()[l].parameters)
      if (!seen[id.index()]) {
        seen[id.index()] = true;
        result[l].push_back(id);
      }
  return result;
}

std::string numbered(const std::string& what, std::size_t i,
                     const std::string& name) {
  return what + "." + std::to_string(i) + "/" + name;
}

NamedTensors layer_tensors(const Model& model, std::size_t layer,
                           const std::vector<ParameterId>& parameters,
                           const TrainingState& state) {
  NamedTensors tensors;
  for (const ParameterId id : parameters) {
    const std::string& name = model.parameter(id).name;
    tensors[name] = state.parameters[id.index()];
    for (std::size_t i = 0; i < state.optimizer[id.index()].size(); ++i)
      tensors[numbered("optimizer", i, name)] = state.optimizer[id.index()][i];
    if (state.velocity[id.index()].defined())
      tensors[numbered("velocity", 0, name)] = state.velocity[id.index()];
  }
  for (std::size_t i = 0; i < state.statistics[layer].size(); ++i)
    tensors[numbered("statistics", i, model.layers()[layer].name)] =
        state.statistics[layer][i];
  return tensors;
}

struct Found {
  std::int64_t step = 0;
  fs::path path;
};

// Complete ones, the newest first.
std::vector<Found> checkpoints(const fs::path& run) {
  std::vector<Found> found;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("step-", 0) != 0) continue;
    if (const auto step = parse_integer(name.substr(5)))
      found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(),
            [](const Found& a, const Found& b) { return a.step > b.step; });
  return found;
}

Result<std::string> read_bytes(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!fs::is_regular_file(file) || !in || !(text << in.rdbuf()))
    return malformed("is missing or cannot be read", file.string());
  return std::move(text).str();
}

Json to_json(const CheckpointOrigin& origin) {
  Json json = Json::object();
  json.set("model", origin.model).set("data", origin.data);
  json.set("optimizer", origin.optimizer);
  json.set("seed", std::to_string(origin.seed));
  json.set("minibatch", origin.minibatch);
  return json;
}

// Names the first difference.
Result<void> check_origin(const Json& saved, const CheckpointOrigin& wanted,
                          const std::string& where) {
  const Json here = to_json(wanted);
  for (const auto& [key, value] : *here.if_object()) {
    const Json* there = saved.find(key);
    if (there != nullptr && there->to_line() == value.to_line()) continue;
    Error error = bad_configuration("the checkpoint has " + key + " " +
                                        (there ? there->to_line() : "missing") +
                                        ", this run has " + value.to_line(),
                                    "use the same, or start a new run folder");
    error.where = where;
    return error;
  }
  return {};
}

// A tensor of the file, with the shape that the model has.
Result<at::Tensor> tensor_of(const NamedTensors& tensors,
                             const std::string& name, const at::Tensor& like,
                             const std::string& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    return malformed("does not contain " + name, file);
  if (found->second.sizes() != like.sizes() ||
      found->second.scalar_type() != like.scalar_type())
    return malformed("has " + name + " with shape " +
                         to_text(found->second.sizes().vec()) +
                         ", the model needs " + to_text(like.sizes().vec()),
                     file);
  return found->second;
}

Result<void> read_layer(const NamedTensors& tensors, const Model& model,
                        std::size_t layer,
                        const std::vector<ParameterId>& parameters,
                        const std::string& file, TrainingState& state) {
  for (const ParameterId id : parameters) {
    const std::string& name = model.parameter(id).name;
    const at::Tensor like = at::empty(model.parameter(id).shape,
                                      scalar_type(model.parameter(id).type));
    PIPEWRIGHT_TRY(state.parameters[id.index()],
                   tensor_of(tensors, name, like, file));
    for (std::size_t i = 0; tensors.count(numbered("optimizer", i, name));
         ++i) {
      PIPEWRIGHT_TRY(
          at::Tensor tensor,
          tensor_of(tensors, numbered("optimizer", i, name), like, file));
      state.optimizer[id.index()].push_back(tensor);
    }
    if (const std::string velocity = numbered("velocity", 0, name);
        tensors.count(velocity)) {
      PIPEWRIGHT_TRY(state.velocity[id.index()],
                     tensor_of(tensors, velocity, like, file));
    }
  }
  const auto function = layer_function(model, LayerId(layer));
  const Tensors initial = function->initial_statistics();
  for (std::size_t i = 0; i < initial.size(); ++i) {
    PIPEWRIGHT_TRY(
        at::Tensor tensor,
        tensor_of(tensors,
                  numbered("statistics", i, model.layers()[layer].name),
                  initial[i], file));
    state.statistics[layer].push_back(tensor);
  }
  return {};
}

Result<TrainingState> read_folder(const fs::path& folder, const Model& model,
                                  const CheckpointOrigin& origin) {
  const std::string manifest_file = (folder / "manifest.json").string();
  PIPEWRIGHT_TRY(const std::string text, read_bytes(manifest_file));
  PIPEWRIGHT_TRY(const Json json, parse_json(text, manifest_file));
  JsonErrors errors(manifest_file);
  JsonCursor root(json, errors);
  root.require_format("pipewright/checkpoint", 1);
  TrainingState state;
  state.minibatches = root.at("step").integer(0);
  JsonCursor saved = root.at("origin");
  const auto files = root.at("files").elements();
  root.refuse_other_keys();
  if (!errors.empty()) return errors.error();
  if (auto same = check_origin(*saved.json(), origin, manifest_file); !same)
    return same.error();
  if (files.size() != model.layers().size())
    return malformed("has " + std::to_string(files.size()) +
                         " layers, the model has " +
                         std::to_string(model.layers().size()),
                     manifest_file);
  state.parameters.resize(model.parameters().size());
  state.optimizer.resize(model.parameters().size());
  state.velocity.resize(model.parameters().size());
  state.statistics.resize(model.layers().size());
  const auto parameters = first_used(model);
  for (std::size_t l = 0; l < files.size(); ++l) {
    JsonCursor entry = files[l];
    const std::string file = (folder / layer_file(l)).string();
    const std::int64_t size = entry.at("bytes").integer(0);
    const std::int64_t sum = entry.at("crc32").integer(0);
    if (!errors.empty()) return errors.error();
    PIPEWRIGHT_TRY(const std::string bytes, read_bytes(file));
    if (static_cast<std::int64_t>(bytes.size()) != size)
      return malformed("has " + std::to_string(bytes.size()) +
                           " bytes, but was written with " +
                           std::to_string(size),
                       file);
    if (checksum(bytes) != sum)
      return malformed("has been altered: its checksum does not match", file);
    PIPEWRIGHT_TRY(const NamedTensors tensors, parse_safetensors(bytes, file));
    if (auto done = read_layer(tensors, model, l, parameters[l], file, state);
        !done)
      return done.error();
  }
  return state;
}

// All files of a checkpoint, the manifest last.
Result<void> write_files(const fs::path& part, const Model& model,
                         const CheckpointOrigin& origin,
                         const TrainingState& state) {
  const auto parameters = first_used(model);
  Json files = Json::array();
  for (std::size_t l = 0; l < parameters.size(); ++l) {
    const std::string bytes =
        to_safetensors(layer_tensors(model, l, parameters[l], state));
    if (auto written = write_file(part / layer_file(l), bytes); !written)
      return written.error();
    if (disk_is_full)
      return Error{ErrorCode::CannotWrite,
                   std::string("cannot be written: ") + std::strerror(ENOSPC),
                   (part / layer_file(l)).string(),
                   "make room on the disk",
                   {}};
    Json entry = Json::object();
    entry.set("layer", model.layers()[l].name);
    entry.set("bytes", bytes.size()).set("crc32", checksum(bytes));
    files.push(std::move(entry));
  }
  Json manifest = Json::object();
  manifest.set("format", "pipewright/checkpoint").set("version", 1);
  manifest.set("step", state.minibatches);
  manifest.set("origin", to_json(origin));
  manifest.set("files", std::move(files));
  if (auto written = write_file(part / "manifest.json", manifest.to_text());
      !written)
    return written.error();
  return {};
}

// In one call, so that there is always the old folder or the new one, whenever
// the process dies. Where the file system cannot exchange folders, the old one
// is removed first.
bool move_into_place(const fs::path& part, const fs::path& folder) {
  if (::rename(part.c_str(), folder.c_str()) == 0) return true;
  if (::renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, folder.c_str(),
                  RENAME_EXCHANGE) == 0)
    return true;
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return ::rename(part.c_str(), folder.c_str()) == 0;
}

}  // namespace

void pretend_disk_is_full() { disk_is_full = true; }

bool has_checkpoint(const fs::path& run) { return !checkpoints(run).empty(); }

Result<fs::path> write_checkpoint(const fs::path& run, const Model& model,
                                  const CheckpointOrigin& origin,
                                  const TrainingState& state) {
  const fs::path folder =
      run / "checkpoints" / ("step-" + std::to_string(state.minibatches));
  fs::path part = folder;
  part += ".part";
  std::error_code failed;
  fs::remove_all(part, failed);
  fs::create_directories(part, failed);
  if (failed)
    return Error{
        ErrorCode::CannotCreate, failed.message(), part.string(), "", {}};
  if (auto written = write_files(part, model, origin, state); !written) {
    fs::remove_all(part, failed);  // frees its disk space
    return written.error();
  }
  if (!move_into_place(part, folder))
    return Error{
        ErrorCode::CannotWrite, std::strerror(errno), folder.string(), "", {}};
  fs::remove_all(part, failed);  // one of the same step, if there was one
  const auto all = checkpoints(run);
  for (std::size_t i = kKept; i < all.size(); ++i)
    fs::remove_all(all[i].path, failed);
  return folder;
}

Result<TrainingState> read_checkpoint(const fs::path& run, const Model& model,
                                      const CheckpointOrigin& origin,
                                      std::vector<Error>* skipped) {
  const auto found = checkpoints(run);
  if (found.empty())
    return Error{ErrorCode::MissingInput,
                 "has no checkpoint to resume from",
                 run.string(),
                 "start without --resume",
                 {}};
  std::vector<Error> refused;
  for (const Found& each : found) {
    Result<TrainingState> state = read_folder(each.path, model, origin);
    if (state || state.error().code != ErrorCode::MalformedInput) {
      if (skipped) *skipped = std::move(refused);
      return state;
    }
    refused.push_back(state.error());
  }
  Error error = std::move(refused[0]);
  error.hint = found.size() > 1
                   ? "the older ones are damaged, too: start a new run folder"
                   : "there is no older checkpoint: start a new run folder";
  return error;
}

}  // namespace pipewright
