// How many empty samples stand beside the real ones where a GPU adds up the
// gradients of queries in a fixed order. The gradients themselves:
// cuda_layers_test.cc.

#include "pipewright/runtime/layers/flash_kernels.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

// As LibTorch's kernel has them.
std::int64_t parts(std::int64_t samples, std::int64_t heads,
                   int multiprocessors) {
  return (multiprocessors + samples * heads - 1) / (samples * heads);
}
std::int64_t blocks(std::int64_t positions) { return (positions + 127) / 128; }

}  // namespace

TEST_CASE("as few empty samples as leave no part of a gradient without keys") {
  CHECK(num_empty_samples(1, 12, 1024, 132) == 1);
  CHECK(num_empty_samples(8, 12, 1024, 132) == 0);
  for (int samples = 1; samples <= 20; ++samples)
    for (int heads = 1; heads <= 20; ++heads)
      for (int positions = 100; positions <= 2100; positions += 250)
        for (int multiprocessors : {16, 80, 108, 132, 148}) {
          const int empty =
              num_empty_samples(samples, heads, positions, multiprocessors);
          CAPTURE(samples);
          CAPTURE(heads);
          CAPTURE(positions);
          CAPTURE(multiprocessors);
          const auto with = [&](int more) {
            return parts(samples + more, heads, multiprocessors);
          };
          if (empty > 0) CHECK(with(empty - 1) > blocks(positions));
          if (empty < 7) CHECK(with(empty) <= blocks(positions));
          CHECK(empty <= 7);
        }
}

TEST_CASE("samples start one after the other, behind the empty ones") {
  const at::Tensor starts = sample_starts(10);
  REQUIRE((starts.scalar_type() == at::kInt));
  const int* numbers = starts.const_data_ptr<int>();
  for (int i = 0; i < 8; ++i) CHECK(numbers[i] == 0);
  for (std::int64_t i = 8; i < starts.numel(); ++i)
    CHECK(numbers[i] == 10 * (i - 7));
  CHECK(starts.numel() == 72);
}

}  // namespace pipewright
