#include "pipewright/runtime/devices/cuda/compiled_kernels.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>

#include <vector>

#include "pipewright/runtime/devices/cuda/cuda_driver.h"

namespace pipewright {
namespace {

Error compile_error(const std::string& what) {
  return bad_configuration("kernels cannot be compiled: " + what);
}

// Of NVRTC's interface, which has been the same since CUDA 11.1.
class Nvrtc {
 public:
  Nvrtc() : library_(opened()) {
    if (is_here()) load_beside();
  }

  bool is_here() const {
    return library_ && function<int(int*, int*)>("nvrtcVersion");
  }

  // The code for a GPU.
  Result<std::string> compile(const std::string& source, int capability) const {
    void* program = nullptr;
    if (call<int(void**, const char*, const char*, int, const char* const*,
                 const char* const*)>("nvrtcCreateProgram", &program,
                                      source.c_str(), "fused.cu", 0, nullptr,
                                      nullptr) != 0)
      return compile_error("NVRTC makes no program");
    const std::string architecture =
        "--gpu-architecture=sm_" + std::to_string(capability);
    const std::vector<const char*> options = {architecture.c_str(),
                                              "-std=c++17"};
    const int state = call<int(void*, int, const char* const*)>(
        "nvrtcCompileProgram", program, static_cast<int>(options.size()),
        options.data());
    std::string text = state == 0 ? output(program, "nvrtcGetCUBIN")
                                  : output(program, "nvrtcGetProgramLog");
    call<int(void**)>("nvrtcDestroyProgram", &program);
    if (state != 0) return compile_error(text.substr(0, 400));
    return text;
  }

 private:
  // LibTorch's own library for it knows where it is.
  static void* opened() {
    const std::string folder =
        folder_of(reinterpret_cast<void*>(&c10::cuda::device_count));
    for (const std::string& name :
         {folder + "libcaffe2_nvrtc.so", std::string("libcaffe2_nvrtc.so"),
          std::string("libnvrtc.so.13"), std::string("libnvrtc.so.12")})
      if (void* library = ::dlopen(name.c_str(), RTLD_NOW)) return library;
    return nullptr;
  }
  // Of the library that has this function.
  static std::string folder_of(void* function) {
    Dl_info info{};
    if (!::dladdr(function, &info) || !info.dli_fname) return {};
    const std::string path = info.dli_fname;
    return path.substr(0, path.rfind('/') + 1);
  }
  // What it loads itself lies beside it, where the system may not look.
  void load_beside() const {
    int major = 0, minor = 0;
    auto* version = function<int(int*, int*)>("nvrtcVersion");
    version(&major, &minor);
    const std::string path = folder_of(reinterpret_cast<void*>(version)) +
                             "libnvrtc-builtins.so." + std::to_string(major) +
                             "." + std::to_string(minor);
    static_cast<void>(::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL));
  }
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  template <class Function, class... Arguments>
  int call(const char* name, Arguments... arguments) const {
    auto* found = function<Function>(name);
    return found ? found(arguments...) : -1;
  }
  // Of a function that has another for its size.
  std::string output(void* program, const std::string& name) const {
    std::size_t size = 0;
    call<int(void*, std::size_t*)>((name + "Size").c_str(), program, &size);
    std::string text(size, '\0');
    call<int(void*, char*)>(name.c_str(), program, text.data());
    return text;
  }

  void* library_;
};

}  // namespace

Result<std::unique_ptr<CompiledKernels>> CompiledKernels::compile(
    const std::string& source, int capability) {
  const Nvrtc nvrtc;
  if (!nvrtc.is_here()) return compile_error("no NVRTC beside LibTorch");
  PIPEWRIGHT_TRY(const std::string code, nvrtc.compile(source, capability));
  auto* load =
      driver_function<decltype(cuLibraryLoadData)>("cuLibraryLoadData");
  auto* count = driver_function<decltype(cuLibraryGetKernelCount)>(
      "cuLibraryGetKernelCount");
  auto* list = driver_function<decltype(cuLibraryEnumerateKernels)>(
      "cuLibraryEnumerateKernels");
  auto* name_of = driver_function<decltype(cuKernelGetName)>("cuKernelGetName");
  if (!load || !count || !list || !name_of)
    return compile_error("the driver is older than CUDA 12.4");
  CUlibrary library = nullptr;
  if (const CUresult state =
          load(&library, code.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
      state != CUDA_SUCCESS)
    return compile_error("cuLibraryLoadData: " + driver_error_text(state));
  unsigned num_kernels = 0;
  static_cast<void>(count(&num_kernels, library));
  std::vector<CUkernel> kernels(num_kernels);
  static_cast<void>(list(kernels.data(), num_kernels, library));
  std::unique_ptr<CompiledKernels> result(new CompiledKernels);
  for (const CUkernel kernel : kernels) {
    const char* name = nullptr;
    if (name_of(&name, kernel) == CUDA_SUCCESS)
      result->kernels_[name] = reinterpret_cast<CUfunction>(kernel);
  }
  if (result->kernels_.empty()) return compile_error("it has none");
  return result;
}

void CompiledKernels::launch(const std::string& name, dim3 blocks, dim3 threads,
                             void** arguments, cudaStream_t stream) const {
  static auto* const kLaunch =
      driver_function<decltype(cuLaunchKernel)>("cuLaunchKernel");
  const auto found = kernels_.find(name);
  TORCH_CHECK(found != kernels_.end(), "no kernel ", name);
  const CUresult state =
      kLaunch(found->second, blocks.x, blocks.y, blocks.z, threads.x, threads.y,
              threads.z, 0, stream, arguments, nullptr);
  TORCH_CHECK(state == CUDA_SUCCESS, name,
              ": CUDA driver error: ", driver_error_text(state));
}

}  // namespace pipewright
