// Named tensors of any size in safetensors files, read one by one: a file, or
// the shards that an index lists (Hugging Face's model.safetensors.index.json).
// Only the headers are read at first.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/layer.h"
#include "pipewright/runtime/safetensors/safetensors.h"

namespace pipewright {

class TensorFile {
 public:
  // A .safetensors file, a .json index, or a folder with one of the two. Fails
  // with MissingInput or MalformedInput.
  static Result<std::shared_ptr<const TensorFile>> open(
      const std::string& path);
  ~TensorFile();
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;

  // Under the first of the names that the file has; converted where both types
  // are floating-point. Fails with MalformedInput: none of the names, another
  // shape or type, or the file is cut off.
  Result<at::Tensor> tensor(const std::vector<std::string>& names,
                            const Shape& shape, at::ScalarType type) const;
  // Whether tensor() would find it; reads no numbers.
  Result<void> check(const std::vector<std::string>& names, const Shape& shape,
                     at::ScalarType type) const;
  // All names, and a tensor as it is stored; not those of types that we do not
  // have.
  std::vector<std::string> names() const;
  Result<at::Tensor> stored(const std::string& name) const;
  // As tensor(), with any number of samples in front of the shape.
  Result<at::Tensor> samples(const std::string& name, const Shape& shape,
                             at::ScalarType type) const;

 private:
  struct OpenFile {
    std::string path;
    int descriptor = -1;
    std::size_t numbers = 0;  // where they begin
  };
  struct Entry {
    std::size_t file = 0;  // index
    StoredTensor stored;
  };

  TensorFile() = default;
  Result<void> add_index();
  Result<void> add(const std::string& path);
  Result<at::Tensor> read(const Entry& entry) const;
  Result<const Entry*> find(const std::vector<std::string>& names,
                            const Shape& shape, at::ScalarType type) const;

  std::string path_;
  std::vector<OpenFile> files_;
  std::map<std::string, Entry> entries_;
};

}  // namespace pipewright
