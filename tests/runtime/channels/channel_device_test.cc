// Tensors on a device, between threads; rank_device_test.cc has it between
// processes.

#include <doctest/doctest.h>

#include <thread>

#include "pipewright/runtime/channels/in_process.h"
#include "tests/runtime/channels/channel_contract.h"

namespace pipewright {
namespace {

TEST_CASE("tensors on a device go through channels in a process") {
  for (const at::Device device : testing::contract_devices())
    for (const testing::ContractCase& each :
         testing::device_contract(2, device)) {
      CAPTURE(each.name);
      const auto channels = in_process_channels(each.program);
      std::thread other([&] { each.worker(WorkerId(1), *channels[1]); });
      each.worker(WorkerId(0), *channels[0]);
      other.join();
    }
}

}  // namespace
}  // namespace pipewright
