// Threads that serve those that compute.

#pragma once

namespace pipewright {

// From now on the calling thread does not interrupt others when it wakes up: it
// runs when one of them waits, or has had its time. A hint that systems may
// ignore.
void run_in_background();

}  // namespace pipewright
