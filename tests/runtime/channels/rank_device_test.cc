// Tensors on a device between as many ranks as are started: on one of tests,
// and on a GPU, which ranks may share, where there is one.

#include <doctest/doctest.h>

#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/channels/ranks.h"
#include "tests/runtime/devices/remote_link.h"

namespace pipewright {
namespace {

using namespace testing;

void keep_contract(const std::vector<ContractCase>& cases,
                   const TransportOptions& options) {
  const auto transport = session().connect(options);
  for (const ContractCase& each : cases) {
    CAPTURE(each.name);
    CAPTURE(session().rank());
    const auto channels = transport->connect(each.program);
    REQUIRE(channels.size() == 1);
    each.worker(WorkerId(session().rank()), *channels[0]);
  }
}

TEST_CASE("tensors on a device go through channels between ranks") {
  REQUIRE(session().size() >= 2);
  for (const RemoteLinks links : {RemoteLinks::None, RemoteLinks::Working}) {
    use_remote_links(links);
    for (const at::Device device : contract_devices())
      for (const bool with_thread : {false, true})
        keep_contract(device_contract(session().size(), device),
                      {.progress_thread = with_thread});
  }
  use_remote_links(RemoteLinks::None);
}

void add_up_on(at::Device device) {
  const int workers = session().size(), me = session().rank();
  const auto transport = session().connect({.fast_reduce = true});
  const Program program =
      reducing(workers, everyone(workers), everyone(workers));
  const auto channels = transport->connect(program);
  channels[0]->receive_at(device);
  const auto whole = [device](double x) {
    return at::full({300, 7}, x, at::device(device).dtype(at::kFloat));
  };
  channels[0]->contribute(ReductionId(0), MicrobatchId(0),
                          {{ParameterId(0), LayerId(1), whole(1 + me)},
                           {ParameterId(4), LayerId(2), whole(10 * (1 + me))}});
  const double sum = workers * (workers + 1) / 2;
  const auto sums = channels[0]->reduced(ReductionId(0), MicrobatchId(0));
  CHECK(sums.at(0).device() == device);
  CHECK(sums.at(0).equal(whole(sum)));
  CHECK(sums.at(1).equal(whole(10 * sum)));
}

TEST_CASE("MPI's own sums of tensors on a device") {
  for (const at::Device device : contract_devices()) add_up_on(device);
}

}  // namespace
}  // namespace pipewright
