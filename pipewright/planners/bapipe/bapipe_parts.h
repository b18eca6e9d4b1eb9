// Which of BaPipe's parts are used.

#pragma once

namespace pipewright {

struct BaPipeParts {
  // Both schedules of the platform; off: the one that keeps less (1F1B-SNO on
  // GPUs, 1F1B-AS on FPGAs).
  bool second_schedule = true;
  // Where a link limits, cuts at smaller tensors; off: balanced compute only.
  bool coarse_partition = true;
  // Where nothing fits the memory, layers are moved; off: nothing is done.
  bool memory_tuning = true;
  // Data parallelism where that is faster; off: always a pipeline.
  bool data_parallelism = true;
  // Layers split over two devices where these can; off: whole layers.
  bool split_layers = true;
};

}  // namespace pipewright
