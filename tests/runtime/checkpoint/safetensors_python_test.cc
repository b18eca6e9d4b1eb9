// What we write, read by Python: its safetensors package where that is
// installed, else a reader of the format's own few lines.

#include <doctest/doctest.h>

#include <fstream>

#include "pipewright/runtime/safetensors/safetensors.h"
#include "tests/answer.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

TEST_CASE("Python reads names, types, shapes and numbers") {
  const testing::TemporaryFolder folder("python");
  const auto file = folder.path() / "x.safetensors";
  std::ofstream(file, std::ios::binary) << to_safetensors(
      {{"layer.weight", at::arange(6, at::kFloat).view({2, 3})},
       {"optimizer.0/layer.weight", at::full({2, 3}, 0.5)},
       {"count", at::full({}, 7, at::kLong)},
       {"double", at::arange(4, at::kDouble)},
       {"bytes", at::arange(5, at::kByte)}});
  const std::string command =
      "python3 " PIPEWRIGHT_SOURCE_DIR
      "/tests/runtime/checkpoint/safetensors_reader.py " +
      file.string() + " 2>&1";
  const auto [printed, code] = answer_of(command);
  REQUIRE(code == 0);
  MESSAGE(printed.substr(0, printed.find('\n')));
  CHECK(printed.substr(printed.find('\n') + 1) ==
        "bytes U8 5 10\n"
        "count I64 1 7\n"
        "double F64 4 6\n"
        "layer.weight F32 2x3 15\n"
        "optimizer.0/layer.weight F32 2x3 3\n");
}

}  // namespace
}  // namespace pipewright
