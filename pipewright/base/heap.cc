#include "pipewright/base/heap.h"

#include <cstdlib>

#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace pipewright {

void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMiB = 1 << 20;
  mallopt(M_MMAP_THRESHOLD, 32 * kMiB);  // the largest value that glibc accepts
  mallopt(M_TRIM_THRESHOLD, 512 * kMiB);
#endif
}

}  // namespace pipewright
