// Every kind of layer: its gradients against finite differences in float64, its
// output and gradients against LibTorch's autograd, and what it keeps against
// what layer_cost() says, to the byte.

#include "pipewright/runtime/layers/layer_makers.h"

#include <c10/core/InferenceMode.h>
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "tests/runtime/layers/layer_bench.h"

namespace pipewright {
namespace {

using namespace testing;

// Central differences, element by element.
at::Tensor numeric(Bench& bench, at::Tensor& at, const at::Tensor& projection) {
  constexpr double kStep = 1e-5;
  at::Tensor result = at::empty_like(at);
  double* value = at.data_ptr<double>();
  const auto projected = [&] {
    return bench.forward().output.mul(projection).sum().item<double>();
  };
  for (std::int64_t i = 0; i < at.numel(); ++i) {
    const double before = value[i];
    value[i] = before + kStep;
    const double above = projected();
    value[i] = before - kStep;
    const double below = projected();
    value[i] = before;
    result.data_ptr<double>()[i] = (above - below) / (2 * kStep);
  }
  return result;
}

std::size_t nbytes(const Tensors& tensors) {
  std::size_t bytes = 0;
  std::set<const void*> seen;
  for (const at::Tensor& tensor : tensors)
    if (seen.insert(tensor.storage().data()).second)
      bytes += tensor.storage().nbytes();
  return bytes;
}

void check_finite_differences(const Case& c) {
  const c10::InferenceMode guard;
  Bench bench(c, NumberType::Float64);
  const Derivatives expected = analytic(bench);
  for (std::size_t i = 0; i < bench.inputs.size(); ++i) {
    if (!expected.inputs[i].defined()) continue;
    CAPTURE(i);
    CHECK(
        relative_distance(numeric(bench, bench.inputs[i], expected.projection),
                          expected.inputs[i]) < 1e-6);
  }
  REQUIRE(expected.weights.size() == bench.weights.size());
  for (std::size_t i = 0; i < bench.weights.size(); ++i) {
    CAPTURE(i);
    CHECK(
        relative_distance(numeric(bench, bench.weights[i], expected.projection),
                          expected.weights[i]) < 1e-6);
  }
}

void check_autograd(const Case& c, NumberType number_type, double tolerance) {
  Bench bench(c, number_type);
  const Derivatives own = analytic(bench);
  const at::Tensor output = bench.forward().output;
  for (at::Tensor& input : bench.inputs)
    if (input.is_floating_point()) input.set_requires_grad(true);
  for (at::Tensor& weight : bench.weights) weight.set_requires_grad(true);
  const at::Tensor expected = c.reference(bench.inputs, bench.weights);
  CHECK(relative_distance(output.detach(), expected.detach()) < tolerance);
  expected.backward(own.projection);
  for (std::size_t i = 0; i < bench.inputs.size(); ++i) {
    CAPTURE(i);
    REQUIRE(own.inputs[i].defined() == bench.inputs[i].is_floating_point());
    if (own.inputs[i].defined())
      CHECK(relative_distance(own.inputs[i], bench.inputs[i].grad()) <
            10 * tolerance);
  }
  for (std::size_t i = 0; i < bench.weights.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_distance(own.weights[i], bench.weights[i].grad()) <
          10 * tolerance);
  }
}

void check_bytes(const Case& c) {
  const c10::InferenceMode guard;
  Bench bench(c, NumberType::Float32);
  const LayerCost cost = layer_cost(bench.network.model, bench.id);
  const Forwarded forwarded = bench.forward();
  CHECK(static_cast<std::int64_t>(nbytes(forwarded.kept_private)) ==
        cost.keeps_private.at(kSamples).value());
  CHECK(static_cast<std::int64_t>(nbytes({forwarded.output})) ==
        cost.output.at(kSamples).value());
  for (const at::Tensor& tensor : forwarded.kept_private)
    CHECK(tensor.storage().data() != forwarded.output.storage().data());
  const bool is_view =
      forwarded.output.storage().data() == bench.inputs[0].storage().data();
  CHECK(is_view == cost.output_is_view);
  const Derivatives derivatives = analytic(bench);
  for (const at::Tensor& gradient : derivatives.inputs)
    if (gradient.defined()) {
      const bool is_passed =
          gradient.storage().data() == derivatives.projection.storage().data();
      CHECK(is_passed == cost.passes_gradient);
    }
}

TEST_CASE("gradients equal finite differences") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    check_finite_differences(c);
  }
}

TEST_CASE("outputs and gradients equal autograd's") {
  for (const Case& c : cases()) {
    if (!c.reference) continue;
    CAPTURE(c.name);
    check_autograd(c, NumberType::Float32, 1e-6);
  }
}

TEST_CASE("linear_cross_entropy in several pieces equals autograd's") {
  // In float64: how float32 rounds such long sums depends on the processor.
  check_autograd(linear_loss_case("of 150 rows", {50, 2}, {50}, 100'003),
                 NumberType::Float64, 1e-13);
}

TEST_CASE("bytes kept, put out and passed back are those the model predicts") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    check_bytes(c);
  }
}

TEST_CASE("every kind of layer is among the cases") {
  std::set<LayerKind> seen = {LayerKind::Exported};  // exported_layer_test
  for (const Case& c : cases()) seen.insert(c.kind);
  CHECK(seen.size() == kind_rules().size());
}

TEST_CASE("dropout draws the same mask in any split of the microbatch") {
  const Model model = model_of({"dropout", LayerKind::Dropout, {}, {{6}}, {}},
                               NumberType::Float32);
  const auto function = layer_function(model, LayerId(1));
  const at::Tensor ones = at::ones({8, 6});
  const auto masked = [&](std::int64_t first, std::int64_t end,
                          std::int64_t microbatch) {
    const ForwardContext context{5, microbatch, first, true, nullptr};
    return function->forward({ones.narrow(0, first, end - first)}, {}, context)
        .output;
  };
  const at::Tensor whole = masked(0, 8, 4);
  CHECK(at::cat({masked(0, 3, 4), masked(3, 8, 4)}).equal(whole));
  CHECK(!masked(0, 8, 5).equal(whole));
  CHECK(whole.eq(0).sum().item<int>() > 8);
  CHECK(whole.eq(2).sum().item<int>() > 8);
}

TEST_CASE(
    "batch_norm keeps running statistics in training, not in recomputing") {
  const Model model = model_of({"norm", LayerKind::BatchNorm, {}, {{4}}, {}},
                               NumberType::Float32);
  const auto function = layer_function(model, LayerId(1));
  Tensors statistics = function->initial_statistics();
  const at::Tensor input = random({6, 4}, at::kFloat, 1);
  const Tensors weights = {at::ones({4}), at::zeros({4})};
  ForwardContext context{5, 0, 0, true, &statistics};
  const at::Tensor first = function->forward({input}, weights, context).output;
  CHECK(at::allclose(statistics[0], input.mean(0).mul(0.1)));
  CHECK(at::allclose(statistics[1],
                     input.var(0).mul(0.1).add(at::ones({4}), 0.9)));
  context.statistics = nullptr;
  CHECK(function->forward({input}, weights, context).output.equal(first));
}

}  // namespace
}  // namespace pipewright
