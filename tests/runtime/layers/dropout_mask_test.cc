// dropout_mask: the loop and the tensor operations give the same bits, so that
// a GPU drops what a core drops.

#include "pipewright/runtime/layers/dropout_mask.h"

#include <doctest/doctest.h>

namespace pipewright {
namespace {

TEST_CASE("masks by loop and by tensor operations are equal") {
  const c10::InferenceMode guard;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    const RandomStream stream(seed, seed * 77, seed % 13);
    const RandomStream sizes(seed, "sizes");
    const auto samples = static_cast<std::int64_t>(1 + sizes.bits(0) % 9);
    const auto features = static_cast<std::int64_t>(1 + sizes.bits(1) % 300);
    const auto first = static_cast<std::int64_t>(sizes.bits(2) % 100000);
    const double rate = seed % 10 == 0 ? 0 : sizes.uniform(3);
    const at::Tensor loop =
        mask_by_loop(stream, {samples, features}, first, rate);
    const at::Tensor tensors =
        mask_by_tensors(stream, {samples, features}, first, rate, at::kCPU);
    CHECK(loop.equal(tensors));
    CHECK((tensors.scalar_type() == at::kBool));
  }
}

TEST_CASE("the share that is kept is 1 - rate") {
  const c10::InferenceMode guard;
  const RandomStream stream(3, 1, 2);
  const at::Tensor mask = mask_by_tensors(stream, {100000}, 0, 0.3, at::kCPU);
  CHECK(mask.to(at::kDouble).mean().item<double>() ==
        doctest::Approx(0.7).epsilon(0.01));
}

}  // namespace
}  // namespace pipewright
