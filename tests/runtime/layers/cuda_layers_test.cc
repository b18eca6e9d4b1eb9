// On a GPU: every kind of layer puts out and passes back what it does on a
// core, but for rounding, and the same bits twice. Without one: skipped, with
// the reason.

#include <c10/core/InferenceMode.h>
#include <doctest/doctest.h>

#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/fused_kernels.h"
#include "pipewright/runtime/layers/dropout_mask.h"
#include "tests/runtime/layers/layer_bench.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

using namespace testing;

struct Results {
  at::Tensor output;
  Derivatives derivatives;
};

Results results_on(const at::Device& device, const Case& c, NumberType type) {
  Bench bench(c, type);
  bench.move_to(device);
  return {bench.forward().output, analytic(bench)};
}

void check_close(const Tensors& gpu, const Tensors& core, double most) {
  REQUIRE(gpu.size() == core.size());
  for (std::size_t i = 0; i < gpu.size(); ++i) {
    CAPTURE(i);
    REQUIRE(gpu[i].defined() == core[i].defined());
    if (gpu[i].defined())
      CHECK(relative_distance(gpu[i].cpu().to(at::kDouble),
                              core[i].to(at::kDouble)) < most);
  }
}

void check_equal(const Tensors& a, const Tensors& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (a[i].defined()) CHECK(a[i].equal(b[i]));
}

void check_case(const Case& c, NumberType type, double most) {
  CAPTURE(c.name);
  const at::Device gpu(at::kCUDA, 0);
  const Results here = results_on(gpu, c, type);
  const Results again = results_on(gpu, c, type);
  const Results core = results_on(at::kCPU, c, type);
  check_close({here.output}, {core.output}, most);
  check_close(here.derivatives.inputs, core.derivatives.inputs, most);
  check_close(here.derivatives.weights, core.derivatives.weights, most);
  check_equal({here.output}, {again.output});
  check_equal(here.derivatives.inputs, again.derivatives.inputs);
  check_equal(here.derivatives.weights, again.derivatives.weights);
}

TEST_CASE("every layer on a GPU is close to that on a core") {
  const c10::InferenceMode guard;
  if (const Result<void> found = find_devices({"cuda"}); !found) {
    testing::skip(found.error().to_text());
    return;
  }
  for (const Case& c : cases()) {
    check_case(c, NumberType::Float32, 1e-5);
    check_case(c, NumberType::BFloat16, 0.05);
  }
}

// Sizes at which kernels of ours work in several pieces, or products in two.
std::vector<Case> large_cases() {
  const Shape rows = {300, 24};
  const auto sized = [](const char* name, std::int64_t size) {
    return Attributes{{name, size}};
  };
  std::vector<Case> all = {
      {"linear of a vocabulary",
       LayerKind::Linear,
       {{"out_features", std::int64_t{1027}}, {"bias", false}},
       {rows},
       {}},
      {"linear of a vocabulary, with bias",
       LayerKind::Linear,
       sized("out_features", 1027),
       {rows},
       {}},
      loss_case("cross_entropy of a vocabulary", {20, 5001}, {20}),
      linear_loss_case("linear_cross_entropy of a vocabulary", {20, 24}, {20},
                       5001),
      linear_loss_case("linear_cross_entropy in pieces", {50, 24}, {50},
                       200'003)};
  for (Case& c : cases())
    if (c.kind == LayerKind::LayerNorm) {
      c.inputs = {{300, 130}};
      all.push_back(c);
    } else if (c.kind == LayerKind::Embedding) {
      c.inputs = {{700}};
      c.index_bound = 150;
      c.attributes["entries"] = c.index_bound;
      all.push_back(c);
    }
  return all;
}

TEST_CASE("large layers, with kernels of ours and with LibTorch's") {
  const c10::InferenceMode guard;
  for (const bool is_fused : {true, false}) {
    CAPTURE(is_fused);
    choose_kernels({false, false, is_fused});
    if (const Result<void> found = find_devices({"cuda"}); !found) {
      testing::skip(found.error().to_text());
      choose_kernels({});
      return;
    }
    const at::Tensor one =
        at::ones({1}, at::TensorOptions(at::kCUDA).dtype(at::kFloat));
    CHECK((fused_kernels(one) != nullptr) == is_fused);
    for (const Case& c : large_cases()) {
      check_case(c, NumberType::Float32, 1e-5);
      check_case(c, NumberType::BFloat16, 0.05);
    }
  }
  choose_kernels({});
}

TEST_CASE("a GPU draws the masks of a core") {
  const c10::InferenceMode guard;
  if (const Result<void> found = find_devices({"cuda"}); !found) {
    testing::skip(found.error().to_text());
    return;
  }
  const auto on_gpu = at::TensorOptions(at::kCUDA);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    const RandomStream random(seed, "masks");
    const auto below = [&](std::uint64_t index, std::uint64_t most) {
      return static_cast<std::int64_t>(random.bits(index) % most);
    };
    const at::Tensor like =
        at::empty({1 + below(0, 9), 1 + below(1, 900)}, on_gpu);
    const double rate = seed % 10 == 0 ? 0 : random.uniform(2);
    MaskStream stream{{random.bits(3), random.bits(4) % 500}};
    if (seed % 2) stream.name.call = random.bits(5) % 40;
    stream.microbatch = below(6, 1'000'000'000);
    stream.first = below(7, 100'000);
    bool draws = false;
    stream.draws = &draws;
    const at::Tensor core = dropout_mask(like.cpu(), stream, rate);
    CHECK(draws);
    draws = false;
    stream.number = at::full({1}, stream.microbatch, on_gpu.dtype(at::kLong));
    CHECK(dropout_mask(like, stream, rate).cpu().equal(core));
    CHECK_FALSE(draws);
  }
}

TEST_CASE("a layer norm adds its gradient with the bits of adding it later") {
  const c10::InferenceMode guard;
  if (const Result<void> found = find_devices({"cuda"}); !found) {
    testing::skip(found.error().to_text());
    return;
  }
  for (const NumberType type : {NumberType::Float32, NumberType::BFloat16})
    for (const std::int64_t columns : {5, 8, 130, 768, 1024}) {
      CAPTURE(columns);
      Bench bench({"norm", LayerKind::LayerNorm, {}, {{70, columns}}, {}},
                  type);
      bench.move_to(at::Device(at::kCUDA, 0));
      const KeptTensors kept = bench.kept(bench.forward());
      const at::Tensor gradient = at::randn_like(bench.inputs[0]);
      const at::Tensor before = at::randn_like(bench.inputs[0]);
      const Tensors alone =
          bench.function.backward_input(kept, bench.weights, gradient, nullptr);
      at::Tensor sum = before.clone();
      REQUIRE(bench.function.add_backward_input(kept, bench.weights, gradient,
                                                sum));
      CHECK(sum.equal(before.add(alone[0])));
    }
}

}  // namespace
}  // namespace pipewright
