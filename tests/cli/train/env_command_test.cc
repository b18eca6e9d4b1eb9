// pipewright env in a build with the runtime: what ranks will find.

#include <doctest/doctest.h>

#include "tests/answer.h"

namespace pipewright {
namespace {

TEST_CASE("env names LibTorch, MPI and the threads it allows") {
  const Answer answer = answer_of(PIPEWRIGHT_BINARY " env");
  INFO(answer.text);
  CHECK(answer.code == 0);
  CHECK(contains(answer.text, "libtorch: 2."));
  CHECK(contains(answer.text, "gpus: "));
  REQUIRE(contains(answer.text, "mpi: "));
  if (!contains(answer.text, "mpi: none"))
    CHECK(contains(answer.text, "mpi_threads: MPI_THREAD_"));
}

}  // namespace
}  // namespace pipewright
