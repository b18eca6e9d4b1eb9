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

// In whatever order MPI adds, whole numbers come out right, and all others the
// same on every rank. Nobody waits for anybody when handing in.
TEST_CASE("MPI's own sums") {
  const int workers = session().size(), me = session().rank();
  const auto transport = session().connect({.fast_reduce = true});
  const Program program =
      reducing(workers, everyone(workers), everyone(workers));
  const auto channels = transport->connect(program);
  const auto contributions = [&](double x) {
    return std::vector<Contribution>{
        {ParameterId(0), LayerId(1), at::full({2, 3}, x, at::kFloat)},
        {ParameterId(4), LayerId(2), at::full({1000}, 2 * x, at::kFloat)}};
  };
  channels[0]->contribute(0, 0, contributions(1 + me));
  channels[0]->contribute(0, 4, contributions(1e-3 / (3 + me)));
  const double sum = workers * (workers + 1) / 2;
  const auto whole = channels[0]->reduced(0, 0);
  CHECK(whole.at(0).equal(at::full({2, 3}, sum, at::kFloat)));
  CHECK(whole.at(1).equal(at::full({1000}, 2 * sum, at::kFloat)));
  const at::Tensor broken = channels[0]->reduced(0, 4).at(1);
  const auto all = transport->gathered(std::string(
      static_cast<const char*>(broken.const_data_ptr()), broken.nbytes()));
  for (const std::string& bytes : all) CHECK((bytes == all[0]));
}

TEST_CASE("MPI's own sums are not waited for") {
  const auto transport = session().connect({.fast_reduce = true});
  int found = 0;
  for (const ContractCase& each : channel_contract(session().size())) {
    if (each.name != "sums are not waited for") continue;
    const auto channels = transport->connect(each.program);
    each.worker(WorkerId(session().rank()), *channels[0]);
    ++found;
  }
  CHECK(found == 1);
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
