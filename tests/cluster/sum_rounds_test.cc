// Tests of the messages of a sum that follow each other.

#include "pipewright/cluster/sum_rounds.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace pipewright {
namespace {

// Every device that has the sum of some tells another one in each round; then
// all of them are told the same way.
int rounds_of_a_tree(int devices) {
  int rounds = 0;
  for (int parts = devices; parts > 1; parts = (parts + 1) / 2) ++rounds;
  return 2 * rounds;
}

TEST_CASE("sums take the rounds of a tree, and never more than a ring's") {
  CHECK(sum_rounds(0) == 0);
  for (int devices = 1; devices <= 4096; ++devices) {
    CHECK(sum_rounds(devices) == rounds_of_a_tree(devices));
    CHECK(sum_rounds(devices) <= 2 * (devices - 1));
  }
}

}  // namespace
}  // namespace pipewright
