// On a GPU: every kind of layer puts out and passes back what it does on a
// core, but for rounding, and the same bits twice. Without one: skipped, with
// the reason.

#include <c10/core/InferenceMode.h>
#include <doctest/doctest.h>

#include <iostream>

#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/fused_kernels.h"
#include "tests/runtime/layers/layer_bench.h"

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
    std::cout << "skipped: " << found.error().to_text() << std::endl;
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
      loss_case("cross_entropy of a vocabulary", {20, 5001}, {20})};
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
      std::cout << "skipped: " << found.error().to_text() << std::endl;
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

}  // namespace
}  // namespace pipewright
