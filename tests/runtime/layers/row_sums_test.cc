// Sums over rows, and those of a normalisation, against ATen's.

#include "pipewright/runtime/layers/row_sums.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

double distance(const at::Tensor& a, const at::Tensor& b) {
  return (a.sub(b).norm() / b.norm().clamp_min(1e-3)).item<double>();
}

TEST_CASE("sums are added onto what is there, as ATen has them") {
  at::manual_seed(3);
  for (const std::int64_t rows : {1, 3, 8, 64, 65, 200})
    for (const std::int64_t width : {3, 7, 32, 256, 300, 513})
      for (const at::ScalarType type : {at::kFloat, at::kDouble}) {
        CAPTURE(rows);
        CAPTURE(width);
        const at::Tensor gradient = at::randn({rows, width}, type);
        const at::Tensor input = at::randn({rows, width}, type).add_(2);
        const at::Tensor start = at::randn({width}, type);
        at::Tensor sum = start.clone();
        add_row_sums(sum, gradient);
        CHECK(distance(sum, start + gradient.sum(0)) < 1e-5);

        const auto [output, mean, scale] =
            at::native_layer_norm(input, {width}, {}, {}, 1e-5);
        const auto [none, gain, shift] = at::native_layer_norm_backward(
            gradient, input, {width}, mean, scale, start, start,
            {false, true, true});
        at::Tensor own_gain = start.clone(), own_shift = start.clone();
        REQUIRE(can_add_normalised(gradient, input, mean));
        add_normalised_row_sums(own_gain, own_shift, gradient, input, mean,
                                scale);
        CHECK(distance(own_gain, start + gain) < 1e-5);
        CHECK(distance(own_shift, start + shift) < 1e-5);
      }
}

TEST_CASE("what is not contiguous, or of another type, is left to ATen") {
  const at::Tensor rows = at::ones({4, 6}), mean = at::ones({4});
  CHECK(can_add_normalised(rows, rows, mean));
  CHECK_FALSE(can_add_normalised(rows.t(), rows, mean));
  CHECK_FALSE(can_add_normalised(rows, rows.t(), mean));
  CHECK_FALSE(can_add_normalised(rows, rows.to(at::kDouble), mean));
  const at::Tensor half = rows.to(at::kBFloat16);
  CHECK_FALSE(can_add_normalised(half, half, half));
  at::Tensor sum = at::ones({6});
  add_row_sums(sum, at::ones({6, 4}).t());  // four rows of six
  CHECK(at::equal(sum, at::full({6}, 5)));
}

}  // namespace
}  // namespace pipewright
