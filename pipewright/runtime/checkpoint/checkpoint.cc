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
#include "pipewright/runtime/layers/layer_makers.h"
#include "pipewright/runtime/safetensors/safetensors.h"

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

// A manifest ends with the checksum of all that precedes it.
std::string with_checksum(std::string_view body) {
  return std::string(body) + "\"checksum\": " + std::to_string(checksum(body)) +
         "\n}\n";
}

std::string sealed(const Json& manifest) {
  std::string text = manifest.to_text();
  text.resize(text.rfind('}'));
  while (text.back() == '\n') text.pop_back();
  return with_checksum(text + ",\n  ");
}

bool is_sealed(const std::string& text) {
  const std::size_t at = text.rfind("\"checksum\": ");
  return at != std::string::npos &&
         text == with_checksum(std::string_view(text).substr(0, at));
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
  const Error error = malformed("is missing or cannot be read", file.string());
  std::error_code failed;
  if (!fs::is_regular_file(file, failed)) return error;  // or a pipe: it waits
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return error;
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
std::string form_text(const at::Tensor& tensor) {
  return to_text(tensor.sizes().vec()) + " of " +
         c10::toString(tensor.scalar_type());
}

Result<at::Tensor> tensor_of(const NamedTensors& tensors,
                             const std::string& name, const at::Tensor& like,
                             const std::string& file) {
  const auto found = tensors.find(name);
  if (found == tensors.end())
    return malformed("does not contain " + name, file);
  if (found->second.sizes() != like.sizes() ||
      found->second.scalar_type() != like.scalar_type())
    return malformed("has " + name + " as " + form_text(found->second) +
                         ", the model needs " + form_text(like),
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
    const at::Tensor state_like =
        at::empty(like.sizes(), state_type(like.scalar_type()));
    PIPEWRIGHT_TRY(state.parameters[id.index()],
                   tensor_of(tensors, name, like, file));
    for (std::size_t i = 0; tensors.count(numbered("optimizer", i, name));
         ++i) {
      PIPEWRIGHT_TRY(
          at::Tensor tensor,
          tensor_of(tensors, numbered("optimizer", i, name), state_like, file));
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

struct FileEntry {
  std::string layer;
  std::int64_t bytes = 0, crc32 = 0;
};

struct Manifest {
  std::string file;  // its own name
  std::int64_t step = 0;
  Json origin;
  std::vector<FileEntry> files;  // by layer
};

Result<Manifest> parse_manifest(const std::string& text,
                                const std::string& file) {
  return read_json(text, file, [&file](JsonCursor& root) {
    Manifest manifest;
    manifest.file = file;
    root.require_format("pipewright/checkpoint", 2);
    manifest.step = root.at("step").integer(0);
    if (const Json* origin = root.at("origin").json())
      manifest.origin = *origin;
    for (JsonCursor entry : root.at("files").elements()) {
      manifest.files.push_back({entry.at("layer").text(),
                                entry.at("bytes").integer(0),
                                entry.at("crc32").integer(0)});
      entry.refuse_other_keys();
    }
    root.at("checksum").integer(0);
    root.refuse_other_keys();
    return manifest;
  });
}

// Unaltered, and of the step that the folder's name says.
Result<Manifest> read_manifest(const Found& found) {
  const std::string file = (found.path / "manifest.json").string();
  PIPEWRIGHT_TRY(const std::string text, read_bytes(file));
  PIPEWRIGHT_TRY(Manifest manifest, parse_manifest(text, file));
  if (!is_sealed(text))
    return malformed("has been altered: its checksum does not match", file);
  if (manifest.step != found.step)
    return malformed("is of step " + std::to_string(manifest.step) +
                         ", not of the step that its folder names",
                     file);
  return manifest;
}

// As far as this shows without reading the tensors.
bool is_complete(const Found& found) {
  const Result<Manifest> manifest = read_manifest(found);
  if (!manifest) return false;
  std::error_code failed;
  for (std::size_t l = 0; l < manifest->files.size(); ++l)
    if (fs::file_size(found.path / layer_file(l), failed) !=
            static_cast<std::uintmax_t>(manifest->files[l].bytes) ||
        failed)
      return false;
  return true;
}

Result<void> check_layers(const Manifest& manifest, const Model& model) {
  if (manifest.files.size() != model.layers().size())
    return malformed("has " + std::to_string(manifest.files.size()) +
                         " layers, the model has " +
                         std::to_string(model.layers().size()),
                     manifest.file);
  for (std::size_t l = 0; l < manifest.files.size(); ++l)
    if (manifest.files[l].layer != model.layers()[l].name)
      return malformed("has \"" + manifest.files[l].layer + "\" as layer " +
                           std::to_string(l) + ", the model has \"" +
                           model.layers()[l].name + "\"",
                       manifest.file);
  return {};
}

Result<NamedTensors> read_tensors(const std::string& file,
                                  const FileEntry& entry) {
  PIPEWRIGHT_TRY(const std::string bytes, read_bytes(file));
  if (static_cast<std::int64_t>(bytes.size()) != entry.bytes)
    return malformed("has " + std::to_string(bytes.size()) +
                         " bytes, but was written with " +
                         std::to_string(entry.bytes),
                     file);
  if (checksum(bytes) != entry.crc32)
    return malformed("has been altered: its checksum does not match", file);
  return parse_safetensors(bytes, file);
}

Result<TrainingState> read_folder(const Found& found, const Model& model,
                                  const CheckpointOrigin& origin) {
  PIPEWRIGHT_TRY(const Manifest manifest, read_manifest(found));
  if (auto same = check_origin(manifest.origin, origin, manifest.file); !same)
    return same.error();
  if (auto same = check_layers(manifest, model); !same) return same.error();
  TrainingState state;
  state.minibatches = manifest.step;
  state.parameters.resize(model.parameters().size());
  state.optimizer.resize(model.parameters().size());
  state.velocity.resize(model.parameters().size());
  state.statistics.resize(model.layers().size());
  const auto parameters = first_used(model);
  for (std::size_t l = 0; l < manifest.files.size(); ++l) {
    const std::string file = (found.path / layer_file(l)).string();
    PIPEWRIGHT_TRY(const NamedTensors tensors,
                   read_tensors(file, manifest.files[l]));
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
  manifest.set("format", "pipewright/checkpoint").set("version", 2);
  manifest.set("step", state.minibatches);
  manifest.set("origin", to_json(origin));
  manifest.set("files", std::move(files));
  if (auto written = write_file(part / "manifest.json", sealed(manifest));
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

// Keeps it for a person to look at; it is not read or counted again.
void set_aside(const fs::path& checkpoint) {
  std::error_code ignored;
  fs::path aside = checkpoint;
  aside += ".damaged";
  fs::remove_all(aside, ignored);
  fs::rename(checkpoint, aside, ignored);
}

// All but the newest kKept complete ones; others do not count.
void remove_old(const fs::path& run) {
  std::size_t kept = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", ignored))
    if (entry.path().extension() == ".part")  // a process has died at it
      fs::remove_all(entry.path(), ignored);
  for (const Found& found : checkpoints(run)) {
    if (kept < kKept && is_complete(found))
      ++kept;
    else if (kept == kKept)
      fs::remove_all(found.path, ignored);
  }
}

}  // namespace

void pretend_disk_is_full() { disk_is_full = true; }

bool has_checkpoint(const fs::path& run) { return !checkpoints(run).empty(); }

Result<void> find_checkpoint(const fs::path& run) {
  if (has_checkpoint(run)) return {};
  return Error{ErrorCode::MissingInput,
               "has no checkpoint to resume from",
               run.string(),
               "start without --resume",
               {}};
}

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
  remove_old(run);
  return folder;
}

Result<TrainingState> read_checkpoint(const fs::path& run, const Model& model,
                                      const CheckpointOrigin& origin,
                                      std::vector<Error>* skipped) {
  if (auto exists = find_checkpoint(run); !exists) return exists.error();
  const auto found = checkpoints(run);
  std::vector<Error> refused;
  for (const Found& each : found) {
    Result<TrainingState> state = read_folder(each, model, origin);
    if (state) {
      for (std::size_t i = 0; i < refused.size(); ++i) set_aside(found[i].path);
      if (skipped) *skipped = std::move(refused);
    }
    if (state || state.error().code != ErrorCode::MalformedInput) return state;
    refused.push_back(state.error());
  }
  Error error = std::move(refused[0]);
  error.hint = found.size() > 1
                   ? "the older ones are damaged, too: start a new run folder"
                   : "there is no older checkpoint: start a new run folder";
  return error;
}

}  // namespace pipewright
