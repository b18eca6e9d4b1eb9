// The gelu of plain floats: against the definition in double over all that a
// network computes, the same wherever an element stands, and through nan.

#include "pipewright/runtime/layers/gelu_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace pipewright {
namespace {

struct Exact {
  double value, slope;
};

Exact exact(GeluForm form, double x) {
  using std::numbers::pi;
  if (form == GeluForm::Erf) {
    const double below = std::erfc(-x / std::sqrt(2.0)) / 2;
    return {x * below, below + x * std::exp(-x * x / 2) / std::sqrt(2 * pi)};
  }
  const double scale = std::sqrt(2 / pi);
  const double t = std::tanh(scale * (x + 0.044715 * x * x * x));
  return {x * (1 + t) / 2, (1 + t) / 2 + x * (1 - t * t) / 2 * scale *
                                             (1 + 3 * 0.044715 * x * x)};
}

std::vector<float> numbers_to_try() {
  std::vector<float> numbers = {0.F,  -0.F,  1e-30F, -1e-30F,
                                90.F, -90.F, 1e6F,   -1e6F};
  for (int i = 0; i < 100000; ++i)
    numbers.push_back(static_cast<float>(i - 50000) * 2.5e-4F);
  return numbers;
}

double error_of(double computed, double wanted) {
  return std::abs(computed - wanted) / std::max(std::abs(wanted), 0.1);
}

}  // namespace

TEST_CASE("gelu of floats is the definition's to a few roundings") {
  const std::vector<float> inputs = numbers_to_try();
  const auto count = static_cast<std::int64_t>(inputs.size());
  const std::vector<float> gradient(inputs.size(), 2.F);
  for (const GeluForm form : {GeluForm::Erf, GeluForm::Tanh}) {
    std::vector<float> values(inputs.size()), slopes(inputs.size());
    gelu(form, inputs.data(), values.data(), count);
    gelu_backward(form, gradient.data(), inputs.data(), slopes.data(), count);
    double of_values = 0, of_slopes = 0;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Exact wanted = exact(form, inputs[i]);
      of_values = std::max(of_values, error_of(values[i], wanted.value));
      of_slopes = std::max(of_slopes, error_of(slopes[i], 2 * wanted.slope));
    }
    CHECK(of_values < 5e-7);
    CHECK(of_slopes < 1.5e-6);
  }
}

TEST_CASE("an element's gelu does not depend on where it stands") {
  const std::vector<float> inputs = numbers_to_try();
  const std::vector<float> gradient(inputs.size(), 0.3F);
  for (const GeluForm form : {GeluForm::Erf, GeluForm::Tanh}) {
    std::vector<float> all(1000), part(1000), slopes(1000), of_part(1000);
    const float* first = inputs.data() + 50000;
    gelu(form, first, all.data(), 1000);
    gelu_backward(form, gradient.data(), first, slopes.data(), 1000);
    for (const std::int64_t begin : {1, 3, 64, 255, 256, 700, 999}) {
      gelu(form, first + begin, part.data(), 1000 - begin);
      gelu_backward(form, gradient.data(), first + begin, of_part.data(),
                    1000 - begin);
      CHECK(std::equal(all.begin() + begin, all.end(), part.begin()));
      CHECK(std::equal(slopes.begin() + begin, slopes.end(), of_part.begin()));
    }
  }
}

TEST_CASE("gelu of what is not a number is not a number") {
  const float input = std::numeric_limits<float>::quiet_NaN(), gradient = 1;
  for (const GeluForm form : {GeluForm::Erf, GeluForm::Tanh}) {
    float output = 0;
    gelu(form, &input, &output, 1);
    CHECK(std::isnan(output));
    gelu_backward(form, &gradient, &input, &output, 1);
    CHECK(std::isnan(output));
  }
}

}  // namespace pipewright
