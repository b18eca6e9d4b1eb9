// What a bias costs beside its product against its definition: rows that are
// equal to the bias, and a sum in double, for sizes on both sides of what is
// small, of each number type, contiguous and not.

#include "pipewright/runtime/layers/bias_kernels.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace pipewright {
namespace {

const std::vector<std::pair<std::int64_t, std::int64_t>> kSizes = {
    {0, 5},   {1, 1},   {1, 17},   {3, 15},    {4, 16},   {64, 64},
    {65, 64}, {7, 300}, {200, 33}, {1, 5'000}, {5'000, 1}};

void check_sum(const at::Tensor& rows, double tolerance) {
  CAPTURE(rows.sizes());
  const at::Tensor before = at::randn({rows.size(1)}).to(rows.scalar_type());
  at::Tensor sum = before.clone();
  add_row_sum(rows, sum);
  const at::Tensor wanted =
      before.to(at::kDouble).add(rows.to(at::kDouble).sum(0));
  CHECK(at::allclose(sum.to(at::kDouble), wanted, tolerance, tolerance));
}

}  // namespace

TEST_CASE("a bias stands in every row") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
    for (const auto& [num_rows, width] : kSizes) {
      const at::Tensor bias = at::randn({width}).to(type);
      const at::Tensor rows = repeated_bias(bias, num_rows);
      CHECK(rows.sizes() == at::IntArrayRef({num_rows, width}));
      CHECK(at::equal(rows, bias.expand({num_rows, width})));
    }
  const at::Tensor every_other = at::randn({20}).slice(0, 0, 20, 2);
  CHECK(at::equal(repeated_bias(every_other, 3), every_other.expand({3, 10})));
}

TEST_CASE("the rows' sum is added") {
  for (const auto& [num_rows, width] : kSizes) {
    const at::Tensor rows = at::randn({num_rows, width});
    check_sum(rows, 2e-4);
    check_sum(rows.to(at::kDouble), 1e-11);
    check_sum(at::randn({width, num_rows}).t(), 2e-4);
  }
  check_sum(at::randn({4, 16}).to(at::kBFloat16), 0.05);
}

TEST_CASE("a sum does not depend on what was summed before") {
  const at::Tensor rows = at::randn({300, 40});
  at::Tensor first = at::zeros({40}), again = at::zeros({40});
  add_row_sum(rows, first);
  at::Tensor other = at::zeros({40});
  add_row_sum(at::randn({9'000, 40}), other);
  add_row_sum(rows, again);
  CHECK(at::equal(first, again));
}

}  // namespace pipewright
