// The main of tests that one process runs; see skipped.h for its exit code.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "tests/skipped.h"

int main(int argc, char** argv) {
  using namespace pipewright::testing;
  const int failed = doctest::Context(argc, argv).run();
  return failed == 0 && is_any_skipped ? kSkippedCode : failed;
}
