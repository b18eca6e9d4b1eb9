// Memory by stream: LibTorch's allocator counts by GPU, on which several
// workers may be. It tells us of each block that it gives and takes back.

#pragma once

#include <cstdint>
#include <mutex>

#include "pipewright/base/units.h"

namespace pipewright {

class StreamMemory {
 public:
  // Counts from the first call with that stream (a cudaStream_t) on, to the end
  // of the process.
  static StreamMemory& of(void* stream);

  Bytes held() const;
  Bytes peak() const;
  Bytes reserved() const;
  void restart_peak();
  // Recordings begin: what was held before them is not part of their peak.
  void begin_recordings();
  // The peak since then is that of recorded work, and of each of its replays,
  // which allocate nothing.
  void keep_peak();
  void forget_kept_peak();

  void allocated(std::int64_t bytes);  // below 0: freed
  void segment_allocated(std::int64_t bytes);

 private:
  mutable std::mutex mutex_;
  std::int64_t held_ = 0, peak_ = 0, reserved_ = 0;
  std::int64_t recorded_peak_ = 0, kept_peak_ = 0;
};

}  // namespace pipewright
