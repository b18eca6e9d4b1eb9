// Starting pipewright: what needs no tensors loads neither LibTorch nor MPI,
// which would take a third of a second; what needs them gets them.

#include <doctest/doctest.h>

#include <string>

#include "tests/answer.h"

namespace pipewright::cli {
namespace {

// The libraries that a command loads, as the dynamic linker tells them.
std::string loaded_by(const std::string& arguments) {
  const Answer answer =
      answer_of("LD_DEBUG=files " PIPEWRIGHT_BINARY " " + arguments +
                " 2>&1 >/dev/null | grep 'calling init'");
  REQUIRE(contains(answer.text, "libc.so"));
  return answer.text;
}

bool has_heavy_libraries(const std::string& loaded) {
  return contains(loaded, "libtorch") || contains(loaded, "libc10") ||
         contains(loaded, "libmpi");
}

TEST_CASE("what needs no tensors loads neither LibTorch nor MPI") {
  for (const char* arguments :
       {"--help", "--version", "models", "models vgg16", "cluster 4xV100",
        "schedule 1f1b --stages 2 --microbatches 2", "train --help", "train",
        "profile --help", "profile vgg16 --microbatch 8 --device V100",
        "plan --nonsense", "simulate /no/such/plan --cluster 2xcpu",
        "plan --model lenet --cluster 2xV100 --minibatch 8 --planner uniform",
        "profile vgg16 --microbatch 8 --analytic --device V100"}) {
    CAPTURE(arguments);
    CHECK_FALSE(has_heavy_libraries(loaded_by(arguments)));
  }
}

TEST_CASE("env tells the versions of the runtime, if there is one") {
  const bool has_runtime =
      !contains(run_pipewright("env").text, "libtorch: none");
  CHECK(has_heavy_libraries(loaded_by("env")) == has_runtime);
}

TEST_CASE("the version") {
  const Answer answer = run_pipewright("--version");
  CHECK(answer.code == 0);
  CHECK(answer.text == "pipewright " PIPEWRIGHT_VERSION "\n");
}

// A copy elsewhere is the program of an installation without LibTorch.
TEST_CASE("where the runtime is missing, its place is named") {
  const Answer answer = answer_of(
      "folder=$(mktemp -d) && cp " PIPEWRIGHT_BINARY
      " $folder && $folder/pipewright train --model lenet --data synthetic "
      "2>&1; code=$?; rm -r $folder; exit $code");
  CHECK(answer.code == 78);
  CHECK(contains(answer.text, "training needs the build with LibTorch, and /"));
  CHECK(contains(answer.text, "/pipewright-runtime is missing"));
}

}  // namespace
}  // namespace pipewright::cli
