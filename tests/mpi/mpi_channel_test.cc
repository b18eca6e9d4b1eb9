// The contract of a channel between processes, as many as mpirun starts, with
// and without a thread that moves messages on.

#include <doctest/doctest.h>

#include "tests/mpi/ranks.h"
#include "tests/runtime/channel_contract.h"

namespace pipewright {
namespace {

using namespace testing;

void keep_contract(const MpiOptions& options) {
  const int workers = session().size();
  REQUIRE(workers >= 2);
  auto transport = session().connect(options);
  for (const ContractCase& each : channel_contract(workers)) {
    CAPTURE(each.name);
    CAPTURE(session().rank());
    const auto channels = transport->connect(each.program);
    REQUIRE(channels.size() == 1);
    each.worker(WorkerId(session().rank()), *channels[0]);
    if (each.cancels) transport = session().connect(options);
  }
}

TEST_CASE("channels over MPI keep the contract") {
  keep_contract({.fast_reduce = false, .progress_thread = false});
}

TEST_CASE("channels over MPI with a thread keep the contract") {
  keep_contract({.fast_reduce = false, .progress_thread = true});
}

TEST_CASE("what processes say between runs") {
  const auto transport = session().connect({});
  const int me = transport->process();
  for (const std::size_t size : {0UL, 1UL, 100000UL}) {
    const auto all = transport->gathered(std::string(size, char('a' + me)));
    CHECK(all.size() ==
          (me == 0 ? static_cast<std::size_t>(transport->num_processes()) : 0));
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK((all[i] == std::string(size, static_cast<char>('a' + i))));
    CHECK((transport->broadcast(me == 0 ? std::string(size, 'x') : "") ==
           std::string(size, 'x')));
  }
}

}  // namespace
}  // namespace pipewright
