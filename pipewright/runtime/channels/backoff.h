// How a loop waits for something that it has to poll for: at full speed at
// first, then with sleeps that grow longer. No MPI type is seen here.

#pragma once

#include <chrono>

namespace pipewright {

class Backoff {
 public:
  // Called once per round of the loop; may sleep.
  void pause();
  // Whether ranks of this host share cores: then a loop sleeps sooner. They do
  // not unless this is called.
  static void set_cores_shared(bool are_shared);

 private:
  std::chrono::steady_clock::time_point since_;
  int rounds_ = 0;
};

}  // namespace pipewright
