// Numbers, texts and tensors as bytes that another rank of the same build reads
// back. Not a file format: there is no version, and both ends have the same
// byte order.

#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {

class Packer {
 public:
  template <class T>
  void number(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <class T>
  void numbers(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    number(values.size());
    bytes_.append(reinterpret_cast<const char*>(values.data()),
                  values.size() * sizeof(T));
  }
  void text(std::string_view text);
  void tensor(const at::Tensor& tensor);  // may be undefined
  void tensors(const Tensors& tensors);

  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads in the order of packing; throws Bug where bytes end too early.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  T number() {
    T value;
    copy(&value, sizeof(T));
    return value;
  }
  template <class T>
  std::vector<T> numbers() {
    std::vector<T> values(number<std::size_t>());
    copy(values.data(), values.size() * sizeof(T));
    return values;
  }
  std::string text();
  at::Tensor tensor();
  Tensors tensors();
  bool is_done() const { return rest_.empty(); }

 private:
  void copy(void* to, std::size_t size);

  std::string_view rest_;
};

}  // namespace pipewright
