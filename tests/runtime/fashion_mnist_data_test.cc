// Fashion-MNIST's ten thousand, as Debian packs them.

#include <doctest/doctest.h>

#include <cstdlib>
#include <iostream>

#include "pipewright/runtime/data/dataset.h"

namespace pipewright {
namespace {

TEST_CASE("fashion-mnist: a thousand of each class") {
  if (std::getenv("PIPEWRIGHT_DATA") == nullptr) {
    std::cout << "skipped: PIPEWRIGHT_DATA is not set\n";
    return;
  }
  const Model model = load_model("lenet").value();
  const Dataset dataset = open_dataset("fashion-mnist", model).value();
  REQUIRE(dataset.num_samples == 10000);
  const at::Tensor labels =
      dataset.batch(1, epoch_order(dataset, 1, 0)).bincount();
  CHECK(labels.equal(at::full({10}, 1000, at::kLong)));
  CHECK((dataset.batch(0, {1, 2}).sizes() == at::IntArrayRef({2, 1, 28, 28})));
}

}  // namespace
}  // namespace pipewright
