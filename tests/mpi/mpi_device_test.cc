// Tensors on a CUDA device, between processes: as many as mpirun starts, which
// may share the device.

#include <doctest/doctest.h>

#include "tests/mpi/ranks.h"
#include "tests/runtime/channel_contract.h"

namespace pipewright {
namespace {

using namespace testing;

void keep_contract(const std::vector<ContractCase>& cases,
                   const MpiOptions& options) {
  const auto transport = session().connect(options);
  for (const ContractCase& each : cases) {
    CAPTURE(each.name);
    CAPTURE(session().rank());
    const auto channels = transport->connect(each.program);
    REQUIRE(channels.size() == 1);
    each.worker(WorkerId(session().rank()), *channels[0]);
  }
}

TEST_CASE("tensors on a device go through channels over MPI") {
  REQUIRE(session().size() >= 2);
  const auto cases = device_contract(session().size());
  for (const bool with_thread : {false, true})
    keep_contract(cases, {.progress_thread = with_thread});
}

}  // namespace
}  // namespace pipewright
