// Fashion-MNIST, as Debian packs it.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "pipewright/runtime/data/dataset.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

TEST_CASE("fashion-mnist: as many of each class") {
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  if (folder == nullptr) {
    testing::skip("PIPEWRIGHT_DATA is not set");
    return;
  }
  const Model model = load_model("lenet").value();
  const auto check = [&](const std::string& data, std::int64_t samples) {
    CAPTURE(data);
    const Dataset dataset = open_dataset(data, model).value();
    REQUIRE(dataset.num_samples == samples);
    const at::Tensor labels =
        dataset.batch(1, epoch_order(dataset, 1, 0)).bincount();
    CHECK(labels.equal(at::full({10}, samples / 10, at::kLong)));
    CHECK(
        (dataset.batch(0, {1, 2}).sizes() == at::IntArrayRef({2, 1, 28, 28})));
  };
  check(std::string("idx:") + folder + "/fashion-mnist-10k", 10000);
  const bool installed =
      std::filesystem::exists("/usr/share/datasets/fashion-mnist");
  check("fashion-mnist", installed ? 60000 : 10000);
  if (installed)
    check("fashion-mnist-test", 10000);
  else
    CHECK(open_dataset("fashion-mnist-test", model)
              .error()
              .hint.find("dataset-fashion-mnist") != std::string::npos);
}

}  // namespace
}  // namespace pipewright
