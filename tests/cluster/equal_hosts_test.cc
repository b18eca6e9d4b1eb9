// Which clusters lose the same, whichever host they lose.

#include "pipewright/cluster/equal_hosts.h"

#include <doctest/doctest.h>

#include <string>

#include "pipewright/cluster/cluster.h"

namespace pipewright {
namespace {

bool are_equal(const std::string& text) {
  return has_equal_hosts(load_cluster(text).value());
}

TEST_CASE("hosts of one kind and size are equal") {
  CHECK(are_equal("4xV100"));
  CHECK(are_equal("1x8xV100@nvlink"));
  CHECK(are_equal("4x8xV100@nvlink/100GbE"));
  CHECK(are_equal("16x2xV100@50MB/s/20MB/s"));
}

TEST_CASE("other devices, other numbers and other links are not equal") {
  CHECK(!are_equal("1x2xV100+1x1xT4@pcie3/10GbE"));
  CHECK(!are_equal("1x2xV100+1x1xV100@pcie3/10GbE"));
  CHECK(!are_equal("2x2xV100+2x2xT4@pcie3/10GbE"));
}

}  // namespace
}  // namespace pipewright
