# LibTorch: TORCH_LIBRARIES, TORCH_INCLUDE_DIRS, TORCH_CXX_FLAGS, and, if it is
# built for CUDA and CUDA's headers are there, PIPEWRIGHT_CUDA_INCLUDE.
#
# A LibTorch for CUDA is used without the CUDA toolkit, which its own package
# file asks for. What it needs comes with it, in the nvidia packages beside
# torch; headers may also be in /usr/local/cuda.
get_filename_component(libtorch "${Torch_DIR}/../../.." ABSOLUTE)
set(PIPEWRIGHT_LIBTORCH ${libtorch} CACHE INTERNAL "For python/wheel_backend.py")
set(PIPEWRIGHT_CUDA_INCLUDE "")
if(NOT EXISTS ${libtorch}/lib/libtorch_cuda.so)
  find_package(Torch REQUIRED)
  return()
endif()

file(GLOB cuda_folders ${libtorch}/../nvidia/cu1* ${libtorch}/../nvidia/cuda_runtime)
# All of them: the packages divide what the toolkit has in one folder.
set(cuda_include)
foreach(header cuda_runtime_api.h crt/host_defines.h)
  find_path(folder ${header} NO_CACHE NO_DEFAULT_PATH
            PATHS ${cuda_folders} /usr/local/cuda PATH_SUFFIXES include)
  list(APPEND cuda_include ${folder})
  unset(folder)
endforeach()
list(REMOVE_DUPLICATES cuda_include)
set(cudart)
foreach(folder ${cuda_folders} /usr/local/cuda)
  if(NOT cudart)
    file(GLOB cudart ${folder}/lib/libcudart.so.1* ${folder}/lib64/libcudart.so.1*)
  endif()
endforeach()
if(NOT cuda_include MATCHES NOTFOUND AND cudart)
  list(GET cudart 0 cudart)
  set(PIPEWRIGHT_CUDA_INCLUDE ${cuda_include})
  message(STATUS "CUDA: headers in ${cuda_include}, ${cudart}")
else()
  message(STATUS "CUDA's headers or libcudart not found: no GPUs in this build; "
                 "pip install nvidia-cuda-runtime nvidia-cuda-crt beside torch")
  set(cudart)
endif()

set(TORCH_INCLUDE_DIRS ${libtorch}/include ${libtorch}/include/torch/csrc/api/include)
set(TORCH_CXX_FLAGS "")
# Kernels register themselves when libtorch_cuda is loaded, which nobody calls
# by name.
set(TORCH_LIBRARIES
    ${libtorch}/lib/libtorch.so ${libtorch}/lib/libtorch_cpu.so ${libtorch}/lib/libc10.so
    -Wl,--no-as-needed ${libtorch}/lib/libtorch_cuda.so ${libtorch}/lib/libc10_cuda.so
    -Wl,--as-needed ${cudart} -Wl,--allow-shlib-undefined)
