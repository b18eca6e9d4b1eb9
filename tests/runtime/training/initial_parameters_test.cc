// Initial parameters and the random streams behind them.

#include "pipewright/runtime/training/initial_parameters.h"

#include <doctest/doctest.h>

#include <cmath>

#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

TEST_CASE("a stream is a function of its key and the index") {
  const RandomStream stream(1, "a.weight"), same(1, "a.weight");
  const RandomStream other_name(1, "b.weight"), other_seed(2, "a.weight");
  int equal = 0;
  double sum = 0, squares = 0, uniform = 0;
  constexpr int kDraws = 20000;
  for (std::uint64_t i = 0; i < kDraws; ++i) {
    CHECK(stream.bits(i) == same.bits(i));
    equal += stream.bits(i) == other_name.bits(i);
    equal += stream.bits(i) == other_seed.bits(i);
    sum += stream.normal(i);
    squares += stream.normal(i) * stream.normal(i);
    uniform += stream.uniform(i);
  }
  CHECK(equal == 0);
  // Five standard deviations of each mean.
  CHECK(std::abs(sum / kDraws) < 5 / std::sqrt(kDraws));
  CHECK(std::abs(squares / kDraws - 1) < 5 * std::sqrt(2.0 / kDraws));
  CHECK(std::abs(uniform / kDraws - 0.5) < 5 * std::sqrt(1.0 / 12 / kDraws));
}

TEST_CASE("parameters depend on the seed and their name alone") {
  const Model model = small_gpt();
  const Tensors all = initial_parameters(model, 9);
  for (std::size_t i = all.size(); i-- > 0;)
    CHECK(initial_parameter(model, ParameterId(i), 9).equal(all[i]));
  const Tensors others = initial_parameters(model, 10);
  int different = 0;
  for (std::size_t i = 0; i < all.size(); ++i)
    different += !all[i].equal(others[i]);
  CHECK(different >= 10);
}

TEST_CASE("each kind starts in its own way") {
  const Model model = small_gpt();
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    const at::Tensor value = initial_parameter(model, ParameterId(i), 1);
    CAPTURE(parameter.name);
    CHECK(value.sizes().vec() == parameter.shape);
    const double most = value.abs().max().item<double>();
    if (parameter.name.starts_with("layer_norm")) {
      CHECK(most == (parameter.name.ends_with("weight") ? 1.0 : 0.0));
    } else if (parameter.name.starts_with("linear")) {
      const double fan_in = parameter.shape.size() == 2
                                ? static_cast<double>(parameter.shape[1])
                                : 8;
      CHECK(most <= 1 / std::sqrt(fan_in));
      CHECK(most > 0.3 / std::sqrt(fan_in));
    } else {
      CHECK(most < 0.02 * 5);
      CHECK(most > 0.02);
    }
  }
}

}  // namespace
}  // namespace pipewright
