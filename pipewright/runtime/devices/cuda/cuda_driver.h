// Functions of CUDA's driver by their names. The driver is not linked: a
// program with CUDA starts on a machine without.

#pragma once

#include <cuda.h>
#include <dlfcn.h>

#include <string>

namespace pipewright {

// Null where the driver has none of that name.
template <class Function>
Function* driver_function(const char* name) {
  static void* const kDriver = ::dlopen("libcuda.so.1", RTLD_NOW);
  return kDriver ? reinterpret_cast<Function*>(::dlsym(kDriver, name))
                 : nullptr;
}

inline std::string driver_error_text(CUresult result) {
  const char* text = nullptr;
  if (auto* explain =
          driver_function<decltype(cuGetErrorString)>("cuGetErrorString"))
    explain(result, &text);
  return text ? text : "error " + std::to_string(result);
}

}  // namespace pipewright
