// On a GPU: a step of gradient descent by one kernel has the bits of LibTorch's
// operators. Without one: skipped, with the reason.

#include <c10/core/InferenceMode.h>
#include <doctest/doctest.h>

#include <utility>

#include "pipewright/runtime/devices/device_registry.h"
#include "pipewright/runtime/optimizers/optimizer.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

struct Descent {
  at::Tensor weights;
  Tensors state;
};

// Three steps; opening a device chooses its kernels.
Descent descended(bool is_fused, const SgdSettings& settings,
                  const at::Tensor& start, const Tensors& gradients) {
  choose_kernels({false, false, is_fused});
  REQUIRE(find_devices({"cuda"}).ok());
  CHECK((fused_kernels(start) != nullptr) == is_fused);
  const auto optimizer = sgd(settings);
  Descent result{start.clone(), optimizer->first_state(start)};
  std::int64_t step = 0;
  for (const at::Tensor& gradient : gradients)
    optimizer->update(result.weights, gradient, result.state, 0.037, step++);
  choose_kernels({});
  return result;
}

TEST_CASE("a step by one kernel has the bits of single operators") {
  const c10::InferenceMode guard;
  if (const Result<void> found = find_devices({"cuda"}); !found) {
    testing::skip(found.error().to_text());
    return;
  }
  const auto on_gpu = at::TensorOptions(at::kCUDA);
  for (const auto& [type, masters] :
       {std::pair(at::kFloat, true), std::pair(at::kBFloat16, true),
        std::pair(at::kBFloat16, false)})
    for (const double momentum : {0.0, 0.9})
      for (const std::int64_t size : {1, 7, 4096, 100'003}) {
        CAPTURE(static_cast<int>(type));
        CAPTURE(masters);
        CAPTURE(momentum);
        CAPTURE(size);
        const at::Tensor start = at::randn({size}, on_gpu.dtype(type));
        Tensors gradients;
        for (int i = 0; i < 3; ++i)
          gradients.push_back(at::randn({size}, on_gpu.dtype(type)));
        const SgdSettings settings{momentum, 0, false, masters};
        const Descent one = descended(true, settings, start, gradients);
        const Descent single = descended(false, settings, start, gradients);
        CHECK(one.weights.equal(single.weights));
        // Short steps leave some weights as they are, but not so many.
        if (size > 100) CHECK(!one.weights.equal(start));
        REQUIRE(one.state.size() == single.state.size());
        for (std::size_t i = 0; i < one.state.size(); ++i)
          CHECK(one.state[i].equal(single.state[i]));
      }
}

}  // namespace
}  // namespace pipewright
