// Which exceptions mean that memory ran out, in the words of the libraries.

#include "pipewright/runtime/out_of_memory.h"

#include <c10/util/Exception.h>
#include <doctest/doctest.h>

#include <new>
#include <stdexcept>
#include <string>

namespace pipewright {
namespace {

// Of what LibTorch throws with that text.
std::optional<Error> error_of(const std::string& text) {
  try {
    TORCH_CHECK(false, text);
  } catch (const std::exception& exception) {
    return out_of_memory(exception);
  }
  return std::nullopt;
}

TEST_CASE("memory of a GPU, as CUDA and its libraries say it") {
  for (const char* text :
       {"CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in "
        "https://docs.nvidia.com/cuda/cuda-runtime-api/",
        "cudaErrorMemoryAllocation", "CUDA driver error: out of memory",
        "add_bias: CUDA driver error: out of memory",
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling "
        "`cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
        "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED"}) {
    CAPTURE(text);
    const auto error = error_of(text);
    REQUIRE(error);
    CHECK(error->code == ErrorCode::OutOfMemory);
    const std::string all = text;
    CHECK(error->message == all.substr(0, all.find('\n')));
    CHECK(error->hint.find("smaller microbatch") != std::string::npos);
  }
}

TEST_CASE("memory of a GPU by the type that LibTorch's allocator throws") {
  std::optional<Error> error;
  try {
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     "Tried to allocate 2.00 GiB. If reserved but unallocated "
                     "memory is large try setting something.");
  } catch (const std::exception& exception) {
    error = out_of_memory(exception);
  }
  REQUIRE(error);
  CHECK(error->message == "Tried to allocate 2.00 GiB.");
}

TEST_CASE("memory of NCCL, whose link throws without a type") {
  const std::string call =
      "NCCL: unhandled cuda error (run with NCCL_DEBUG=INFO for details): ";
  for (const char* why :
       {"Cuda failure 'out of memory'", "Cuda failure 2 'out of memory'",
        "Failed to CUDA malloc 4194304 bytes",
        "Failed to CUDA host alloc 4096 bytes", "Failed to malloc 64 bytes"}) {
    CAPTURE(why);
    const auto error = out_of_memory(std::runtime_error(call + why));
    REQUIRE(error);
    CHECK(error->code == ErrorCode::OutOfMemory);
    CHECK(error->message == call + why);
  }
  CHECK_FALSE(out_of_memory(std::runtime_error(
      call + "Cuda failure 700 'an illegal memory access was encountered'")));
}

TEST_CASE("memory of this machine") {
  const auto allocator = error_of(
      "DefaultCPUAllocator: can't allocate memory: you tried to allocate 64000 "
      "bytes. Error code 12 (Cannot allocate memory)");
  REQUIRE(allocator);
  CHECK(allocator->message.find("not enough memory for 64 kB more") !=
        std::string::npos);
  CHECK(out_of_memory(std::bad_alloc()).value().code == ErrorCode::OutOfMemory);
}

TEST_CASE("other failures are not about memory") {
  for (const char* text :
       {"CUDA error: an illegal memory access was encountered",
        "CUDA error: unspecified launch failure",
        "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`",
        "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED", "the device is lost"}) {
    CAPTURE(text);
    CHECK_FALSE(error_of(text));
  }
  CHECK_FALSE(out_of_memory(std::runtime_error("can't allocate memory")));
}

}  // namespace
}  // namespace pipewright
