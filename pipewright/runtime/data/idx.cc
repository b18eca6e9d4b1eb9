// IDX: two zeros, a type, the number of dimensions, the sizes as big-endian
// 32-bit numbers, then the values; see sources.h.

#include <zlib.h>

#include <algorithm>
#include <memory>

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxBytes = std::size_t{1} << 30;
constexpr std::uint8_t kUnsignedByte = 0x08;

Result<std::vector<std::uint8_t>> uncompressed(const fs::path& file) {
  std::error_code ignored;
  if (!fs::is_regular_file(file, ignored))
    return Error{
        ErrorCode::MissingInput, "file not found", file.string(), "", {}};
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> in(
      ::gzopen(file.c_str(), "rb"), ::gzclose);
  if (!in)
    return Error{
        ErrorCode::MissingInput, "cannot be opened", file.string(), "", {}};
  std::vector<std::uint8_t> bytes;
  std::vector<std::uint8_t> part(1 << 16);
  int count = 0;
  while ((count = ::gzread(in.get(), part.data(),
                           static_cast<unsigned>(part.size()))) > 0) {
    bytes.insert(bytes.end(), part.begin(), part.begin() + count);
    if (bytes.size() > kMaxBytes)
      return malformed(
          "has more than " +
              to_text(Bytes(static_cast<std::int64_t>(kMaxBytes))) +
              " uncompressed",
          file.string());
  }
  int state = Z_OK;
  const char* message = ::gzerror(in.get(), &state);
  if (count < 0 || state != Z_OK)
    return malformed(std::string("cannot be uncompressed: ") + message,
                     file.string(), "the file may be cut off");
  return bytes;
}

// The sizes.
Result<Shape> header(const std::vector<std::uint8_t>& bytes,
                     const std::string& file) {
  if (bytes.size() < 4 || bytes[0] != 0 || bytes[1] != 0)
    return malformed("is not an IDX file", file);
  if (bytes[2] != kUnsignedByte)
    return malformed("has values of type " + std::to_string(bytes[2]) +
                         "; only bytes (8) are supported",
                     file);
  const std::size_t dimensions = bytes[3];
  if (dimensions == 0 || dimensions > 4 || bytes.size() < 4 + 4 * dimensions)
    return malformed(
        "has " + std::to_string(dimensions) + " dimensions in its header", file,
        "1 to 4 are supported");
  Shape sizes;
  for (std::size_t i = 0; i < dimensions; ++i) {
    std::int64_t size = 0;
    for (std::size_t j = 0; j < 4; ++j) size = size << 8 | bytes[4 + 4 * i + j];
    if (size == 0 || size > static_cast<std::int64_t>(kMaxBytes))
      return malformed("has a dimension of " + std::to_string(size), file);
    sizes.push_back(size);
  }
  return sizes;
}

// The only file of the folder with this in its name.
Result<fs::path> only_file(const fs::path& folder, const std::string& part) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(folder, failed))
    if (entry.path().filename().string().find(part) != std::string::npos)
      found.push_back(entry.path());
  if (found.size() == 1) return found[0];
  return Error{
      ErrorCode::MissingInput,
      "has " + std::to_string(found.size()) + " files named *" + part + "*",
      folder.string(),
      "give both files as idx:IMAGES,LABELS",
      {}};
}

}  // namespace

Result<IdxArray> read_idx(const fs::path& file) {
  PIPEWRIGHT_TRY(std::vector<std::uint8_t> bytes, uncompressed(file));
  PIPEWRIGHT_TRY(const Shape sizes, header(bytes, file.string()));
  const std::size_t start = 4 + 4 * sizes.size();
  // Dividing cannot overflow where multiplying could.
  std::size_t left = bytes.size() - start;
  bool fits = true;
  for (const std::int64_t size : sizes) {
    fits = fits && left % size == 0;
    left /= size;
  }
  if (!fits || left != 1)
    return malformed("should have " + to_text(sizes) + " bytes, but has " +
                         std::to_string(bytes.size() - start),
                     file.string(), "the file may be cut off");
  bytes.erase(bytes.begin(),
              bytes.begin() + static_cast<std::ptrdiff_t>(start));
  return IdxArray{sizes, std::move(bytes)};
}

Result<LabelledImages> read_idx_images(const std::string& where) {
  const auto names = split(where, ',');
  fs::path image_file, label_file;
  if (names.size() == 2) {
    image_file = names[0];
    label_file = names[1];
  } else {
    PIPEWRIGHT_TRY(image_file, only_file(where, "images-idx3-ubyte"));
    PIPEWRIGHT_TRY(label_file, only_file(where, "labels-idx1-ubyte"));
  }
  PIPEWRIGHT_TRY(IdxArray pixels, read_idx(image_file));
  PIPEWRIGHT_TRY(IdxArray labels, read_idx(label_file));
  if (labels.sizes.size() != 1 || pixels.sizes.size() < 2 ||
      labels.sizes[0] != pixels.sizes[0])
    return malformed("has labels of shape " + to_text(labels.sizes) +
                         ", the images of " + image_file.filename().string() +
                         " have shape " + to_text(pixels.sizes),
                     label_file.string());
  LabelledImages images;
  images.name = image_file.filename().string();
  images.shape.assign(pixels.sizes.begin() + 1, pixels.sizes.end());
  images.scale = 1.0 / 255;
  images.pixels =
      at::from_blob(pixels.values.data(), pixels.sizes, at::kByte).clone();
  images.labels = at::from_blob(labels.values.data(), labels.sizes, at::kByte)
                      .to(at::kLong);
  return images;
}

}  // namespace pipewright
