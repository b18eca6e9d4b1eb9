// Tensors on a device: the part of the channels' contract about those. See
// channel_contract.h.

#include <doctest/doctest.h>

#include "pipewright/runtime/channels/reduction.h"
#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/devices/remote_device.h"

namespace pipewright::testing {
bool have_same_bits(const at::Tensor& one, const at::Tensor& two) {
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.cpu().contiguous().view({-1}).view(at::kByte);
  };
  return one.scalar_type() == two.scalar_type() && one.sizes() == two.sizes() &&
         bytes(one).equal(bytes(two));
}

namespace {

void check_same(const Values& got, const Values& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t v = 0; v < wanted.size(); ++v) {
    REQUIRE(got[v].size() == wanted[v].size());
    for (std::size_t i = 0; i < wanted[v].size(); ++i) {
      CAPTURE(v);
      CAPTURE(i);
      REQUIRE(got[v][i].defined() == wanted[v][i].defined());
      if (!wanted[v][i].defined()) continue;
      CHECK(got[v][i].device() == wanted[v][i].device());
      CHECK(have_same_bits(got[v][i], wanted[v][i]));
      if (wanted[v][i].is_non_overlapping_and_dense())
        CHECK((got[v][i].strides() == wanted[v][i].strides()));
    }
  }
}

using DeviceMessage = std::function<Values(int from, int key)>;

// From each worker to the next and back, all sent before anything is taken.
void both_ways(WorkerId self, Channel& channel, int workers,
               const DeviceMessage& message) {
  constexpr int kKeys = 4;
  const int me = self.value, next = (me + 1) % workers,
            previous = (me + workers - 1) % workers;
  for (int key = 0; key < kKeys; ++key) {
    channel.send(onwards(me), key, message(me, key));
    channel.send(back_to(previous), key, message(me, 100 + key));
  }
  for (int key = 0; key < kKeys; ++key) {
    channel.post(onwards(previous), key);
    check_same(channel.take(onwards(previous), key), message(previous, key));
    check_same(channel.take(back_to(me), key), message(next, 100 + key));
  }
}

Values of_every_type(at::Device device, int from, int key) {
  Values values(1);
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
        at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat,
        at::kComplexDouble})
    values[0].push_back(
        at::arange(7, at::kFloat).add(10 * from + key).to(type).to(device));
  return values;
}

Values empty(at::Device device, int from, int key) {
  return {{at::empty({0}).to(device), at::empty({3, 0}).to(device),
           at::Tensor(), at::scalar_tensor(from + 0.5).to(device)},
          {at::full({3}, 10 * from + key).to(device)},
          {}};
}

Values with_strides(at::Device device, int from, int key) {
  const at::Tensor grid =
      at::arange(120, at::kFloat).add(10 * from + key).view({2, 3, 4, 5});
  const at::Tensor there = grid.to(device);
  return {{there.transpose(1, 3), there.narrow(2, 1, 2), there.select(3, 2),
           there.narrow(3, 0, 1).expand({2, 3, 4, 5}),
           there.contiguous(at::MemoryFormat::ChannelsLast)}};
}

// 16 MB each, just written by a kernel that may still run when it is sent.
Values large(at::Device device, int from, int key) {
  const at::Tensor numbers = at::arange(1 << 22).to(device);
  return {{numbers.to(at::kFloat).mul(1.5).add(10 * from + key)}};
}

// Powers that absorb each other in float32: the order of addition shows.
void sums(WorkerId self, Channel& channel, const Program& program, int workers,
          at::Device device) {
  const auto part = [device](int worker, int minibatch) {
    const float sizes[] = {1e8F, 1, -1e8F, 3};
    const auto use = [&](int parameter, int layer) {
      const float x =
          sizes[(worker + layer) % 4] + static_cast<float>(minibatch);
      return Contribution{ParameterId(parameter), LayerId(layer),
                          at::full({500, 30}, x, at::device(device))};
    };
    return std::vector<Contribution>{use(0, 1), use(4, 7), use(4, 2)};
  };
  for (const int minibatch : {0, 4})
    channel.contribute(ReductionId(0), MicrobatchId(minibatch),
                       part(self.value, minibatch));
  for (const int minibatch : {0, 4}) {
    std::vector<WorkerContributions> all;
    for (int w = 0; w < workers; ++w)
      all.push_back({WorkerId(w), part(w, minibatch)});
    check_same({channel.reduced(ReductionId(0), MicrobatchId(minibatch))},
               {reduction_sums(program.reductions[0], all)});
  }
}

}  // namespace

std::vector<ContractCase> device_contract(int workers, at::Device device) {
  const auto all = everyone(workers);
  const Program program = reducing(workers, all, all);
  std::vector<ContractCase> cases;
  const auto add = [&](const std::string& name, auto message) {
    const DeviceMessage there = [=](int from, int key) {
      return message(device, from, key);
    };
    cases.push_back({name, program, [=](WorkerId self, Channel& channel) {
                       channel.receive_at(device);
                       both_ways(self, channel, workers, there);
                     }});
  };
  add("every number type on a device", of_every_type);
  add("empty tensors", empty);
  add("strides of their own on a device", with_strides);
  add("large ones on a device", large);
  cases.push_back({"sums on a device, in the fixed order", program,
                   [=](WorkerId self, Channel& channel) {
                     channel.receive_at(device);
                     sums(self, channel, program, workers, device);
                   }});
  return cases;
}

std::vector<at::Device> contract_devices() {
  std::vector<at::Device> devices = {RemoteDevice().place()};
  if (at::hasCUDA()) devices.emplace_back(at::kCUDA, 0);
  return devices;
}

}  // namespace pipewright::testing
