#include "pipewright/base/background.h"

#include <sched.h>

namespace pipewright {

void run_in_background() {
#ifdef SCHED_BATCH
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_BATCH, &none);  // 0: the calling thread
#endif
}

}  // namespace pipewright
