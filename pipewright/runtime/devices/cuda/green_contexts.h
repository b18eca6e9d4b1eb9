// Shares of a GPU: green contexts divide its SMs (CUDA driver 12.4 and later),
// and a stream of one runs on its SMs only.

#pragma once

#include <cuda_runtime_api.h>

#include <vector>

#include "pipewright/base/result.h"

namespace pipewright {

struct GreenStream {
  cudaStream_t stream = nullptr;
  int num_sms = 0;
};

// The SMs of one of `shares` equal shares, as the driver can divide them: in
// eights from compute capability 9 on, in twos before. 0: too many shares.
int sms_of_share(int num_sms, int shares, int major_capability);

// A stream for each share of the GPU. They live to the end of the process, so
// this is to be called once per GPU and number. Fails with BadConfiguration.
Result<std::vector<GreenStream>> green_streams(int gpu, int shares);

}  // namespace pipewright
