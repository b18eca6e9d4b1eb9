// What a caller of lower() may choose beside the plan.

#pragma once

namespace pipewright {

struct LowerOptions {
  // Receives posted ahead on each channel (pair of workers and kind): message n
  // is posted when message n - window has been used.
  int window = 4;
  // Above 0: a program for a run of just that many minibatches, without a body
  // that repeats.
  int minibatches = 0;
  // Every step waits for the length of all gradients, to clip by it.
  bool global_norm = false;
  // Workers are threads of one process: what both ends of a transfer keep is
  // there once, and counts as memory of the sender.
  bool shares_memory = false;
};

}  // namespace pipewright
