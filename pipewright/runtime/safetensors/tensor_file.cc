#include "pipewright/runtime/safetensors/tensor_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>

#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxHeader = 64 << 20;

// In a folder, the file to open.
std::string file_in(const std::string& path) {
  std::error_code none;
  if (!fs::is_directory(path, none)) return path;
  const fs::path index = fs::path(path) / "model.safetensors.index.json";
  return (fs::exists(index, none) ? index
                                  : fs::path(path) / "model.safetensors")
      .string();
}

// Whether all bytes were there.
bool read_at(int descriptor, std::size_t offset, char* to, std::size_t count) {
  while (count > 0) {
    const ssize_t got =
        ::pread(descriptor, to, count, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got;
    offset += static_cast<std::size_t>(got);
    count -= static_cast<std::size_t>(got);
  }
  return true;
}

// torch.save() writes a zip archive of pickles, older ones a pickle: reading
// one can run any code.
bool is_pickle(std::string_view start) {
  return start.starts_with("PK\x03\x04") || start.starts_with("\x80\x02") ||
         start.starts_with("\x80\x04");
}

// Who reads weights has a hint of its own, so the safe way is in the message.
Error pickled(const std::string& path) {
  return malformed(
      "is a file of torch.save() or pickle, which could run any code when it "
      "is read; write it as safetensors: safetensors.torch.save_file(torch."
      "load(FILE, weights_only=True), \"weights.safetensors\")",
      path);
}

// The shards lie beside their index.
Result<void> check_shard(const std::string& name, const std::string& index) {
  const bool is_plain = !name.empty() && name != "." && name != ".." &&
                        name.find('/') == std::string::npos &&
                        name.find('\0') == std::string::npos;
  if (is_plain) return {};
  return malformed("names the file \"" + printable(shortened(name, 60)) +
                       "\", which is not beside it",
                   index, "a shard is named without a folder");
}

bool converts(at::ScalarType from, at::ScalarType to) {
  return from == to || (at::isFloatingType(from) && at::isFloatingType(to));
}

std::string form_text(const Shape& sizes, const std::string& type) {
  return "shape " + to_text(sizes) + " and type " + type;
}

}  // namespace

TensorFile::~TensorFile() {
  for (const OpenFile& file : files_) ::close(file.descriptor);
}

Result<std::shared_ptr<const TensorFile>> TensorFile::open(
    const std::string& path) {
  std::shared_ptr<TensorFile> file(new TensorFile);
  file->path_ = file_in(path);
  const bool is_index = fs::path(file->path_).extension() == ".json";
  const Result<void> added =
      is_index ? file->add_index() : file->add(file->path_);
  if (!added) return added.error();
  return std::shared_ptr<const TensorFile>(std::move(file));
}

Result<void> TensorFile::add_index() {
  PIPEWRIGHT_TRY(const std::string text, read_file(path_));
  PIPEWRIGHT_TRY(
      const std::set<std::string> shards,
      read_json(text, path_, [](JsonCursor& root) {
        std::set<std::string> names;
        for (const auto& [tensor, shard] : root.at("weight_map").members())
          names.insert(shard.text());
        return names;
      }));
  for (const std::string& shard : shards) {
    if (auto fine = check_shard(shard, path_); !fine) return fine;
    if (auto added = add((fs::path(path_).parent_path() / shard).string());
        !added)
      return added;
  }
  return {};
}

Result<void> TensorFile::add(const std::string& path) {
  const int descriptor =
      ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return Error{ErrorCode::MissingInput,
                 std::string("cannot be read: ") + std::strerror(errno),
                 path,
                 "",
                 {}};
  files_.push_back({path, descriptor, 0});  // closed with this object
  struct stat facts = {};
  const bool is_file =
      ::fstat(descriptor, &facts) == 0 && S_ISREG(facts.st_mode);
  const auto bytes = static_cast<std::size_t>(is_file ? facts.st_size : 0);
  std::string length(kLengthBytes, '\0');
  if (bytes < kLengthBytes ||
      !read_at(descriptor, 0, length.data(), kLengthBytes))
    return malformed("is too short for a safetensors file", path);
  const std::uint64_t count = header_length(length);
  const bool is_possible = count <= kMaxHeader && count <= bytes - kLengthBytes;
  if (!is_possible && is_pickle(length)) return pickled(path);
  if (!is_possible)
    return malformed("is not a safetensors file: its header would have " +
                         std::to_string(count) + " bytes",
                     path);
  std::string header(count, '\0');
  if (!read_at(descriptor, kLengthBytes, header.data(), count))
    return malformed("is cut off", path);
  files_.back().numbers = kLengthBytes + count;
  PIPEWRIGHT_TRY(
      StoredTensors stored,
      parse_safetensors_header(header, bytes - kLengthBytes - count, path));
  for (auto& [name, tensor] : stored) {
    const auto [entry, is_new] =
        entries_.try_emplace(name, Entry{files_.size() - 1, std::move(tensor)});
    if (!is_new)
      return malformed("has \"" + printable(shortened(name, 60)) +
                           "\", which is also in " +
                           files_[entry->second.file].path,
                       path);
  }
  return {};
}

Result<const TensorFile::Entry*> TensorFile::find(
    const std::vector<std::string>& names, const Shape& shape,
    at::ScalarType type) const {
  auto found = entries_.end();
  for (const std::string& name : names)
    if (found == entries_.end()) found = entries_.find(name);
  if (found == entries_.end())
    return malformed("has no tensor \"" + names.front() + "\"", path_,
                     "tensors have the names that the model has for them");
  const StoredTensor& stored = found->second.stored;
  if (!stored.type || !converts(*stored.type, type) || stored.sizes != shape)
    return malformed("has \"" + found->first + "\" with " +
                         form_text(stored.sizes, stored.type_name) +
                         ", the model needs " +
                         form_text(shape, stored_type(type)),
                     path_);
  return &found->second;
}

Result<void> TensorFile::check(const std::vector<std::string>& names,
                               const Shape& shape, at::ScalarType type) const {
  if (const auto found = find(names, shape, type); !found) return found.error();
  return {};
}

Result<at::Tensor> TensorFile::tensor(const std::vector<std::string>& names,
                                      const Shape& shape,
                                      at::ScalarType type) const {
  PIPEWRIGHT_TRY(const Entry* const entry, find(names, shape, type));
  PIPEWRIGHT_TRY(const at::Tensor tensor, read(*entry));
  return tensor.to(type);
}

Result<at::Tensor> TensorFile::read(const Entry& entry) const {
  const OpenFile& file = files_[entry.file];
  at::Tensor tensor = at::empty(entry.stored.sizes, *entry.stored.type);
  if (!read_at(file.descriptor, file.numbers + entry.stored.begin,
               static_cast<char*>(tensor.data_ptr()),
               entry.stored.end - entry.stored.begin))
    return malformed("is cut off", file.path);
  return tensor;
}

std::vector<std::string> TensorFile::names() const {
  std::vector<std::string> names;
  for (const auto& [name, entry] : entries_)
    if (entry.stored.type) names.push_back(name);
  return names;
}

Result<at::Tensor> TensorFile::stored(const std::string& name) const {
  return read(entries_.at(name));
}

Result<at::Tensor> TensorFile::samples(const std::string& name,
                                       const Shape& shape,
                                       at::ScalarType type) const {
  Shape whole = {0};
  if (const auto found = entries_.find(name);
      found != entries_.end() && !found->second.stored.sizes.empty())
    whole[0] = found->second.stored.sizes[0];
  whole.insert(whole.end(), shape.begin(), shape.end());
  return tensor({name}, whole, type);
}

}  // namespace pipewright
