// Tensors on a CUDA device: the part of the channels' contract that needs one.
// See channel_contract.h.

#include <doctest/doctest.h>

#include <iostream>

#include "pipewright/runtime/channels/reduction.h"
#include "tests/runtime/channels/channel_contract.h"

namespace pipewright::testing {
namespace {

bool have_same_bits(const at::Tensor& one, const at::Tensor& two) {
  const auto bytes = [](const at::Tensor& tensor) {
    return tensor.cpu().contiguous().view({-1}).view(at::kByte);
  };
  return one.scalar_type() == two.scalar_type() && one.sizes() == two.sizes() &&
         bytes(one).equal(bytes(two));
}

// Tensors on a device arrive on a device, those on the host arrive there.
void check_same(const Values& got, const Values& wanted) {
  REQUIRE(got.size() == wanted.size());
  for (std::size_t v = 0; v < wanted.size(); ++v) {
    REQUIRE(got[v].size() == wanted[v].size());
    for (std::size_t i = 0; i < wanted[v].size(); ++i) {
      CAPTURE(v);
      CAPTURE(i);
      REQUIRE(got[v][i].defined() == wanted[v][i].defined());
      if (!wanted[v][i].defined()) continue;
      CHECK(got[v][i].is_cuda() == wanted[v][i].is_cuda());
      CHECK(have_same_bits(got[v][i], wanted[v][i]));
      if (wanted[v][i].is_non_overlapping_and_dense())
        CHECK((got[v][i].strides() == wanted[v][i].strides()));
    }
  }
}

// From each worker to the next and back, all sent before anything is taken.
void both_ways(WorkerId self, Channel& channel, int workers,
               const std::function<Values(int from, int key)>& message) {
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

Values of_every_type(int from, int key) {
  Values values(1);
  for (const at::ScalarType type :
       {at::kBool, at::kByte, at::kChar, at::kShort, at::kInt, at::kLong,
        at::kHalf, at::kBFloat16, at::kFloat, at::kDouble, at::kComplexFloat,
        at::kComplexDouble})
    values[0].push_back(
        at::arange(7, at::kFloat).add(10 * from + key).to(type).cuda());
  return values;
}

Values empty_and_mixed(int from, int key) {
  const at::Tensor here = at::full({3}, 10 * from + key);
  return {{at::empty({0}).cuda(), at::empty({3, 0}).cuda(), at::Tensor(),
           at::scalar_tensor(from + 0.5).cuda()},
          {here, here.cuda()},
          {}};
}

Values with_strides(int from, int key) {
  const at::Tensor grid =
      at::arange(120, at::kFloat).add(10 * from + key).view({2, 3, 4, 5});
  const at::Tensor there = grid.cuda();
  return {{there.transpose(1, 3), there.narrow(2, 1, 2), there.select(3, 2),
           there.narrow(3, 0, 1).expand({2, 3, 4, 5}),
           there.contiguous(at::MemoryFormat::ChannelsLast)}};
}

// 16 MB each, just written by a kernel that may still run when it is sent.
Values large(int from, int key) {
  const at::Tensor numbers = at::arange(1 << 22, at::device(at::kCUDA));
  return {{numbers.to(at::kFloat).mul(1.5).add(10 * from + key)}};
}

// Powers that absorb each other in float32: the order of addition shows.
void sums(WorkerId self, Channel& channel, const Program& program,
          int workers) {
  const auto part = [](int worker, int minibatch) {
    const float sizes[] = {1e8F, 1, -1e8F, 3};
    const auto use = [&](int parameter, int layer) {
      const float x =
          sizes[(worker + layer) % 4] + static_cast<float>(minibatch);
      return Contribution{ParameterId(parameter), LayerId(layer),
                          at::full({500, 30}, x, at::device(at::kCUDA))};
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

std::vector<ContractCase> device_contract(int workers) {
  if (!at::hasCUDA()) {
    std::cout << "skipped: no CUDA device\n";
    return {};
  }
  const auto all = everyone(workers);
  const Program program = reducing(workers, all, all);
  std::vector<ContractCase> cases;
  const auto add = [&](const std::string& name, auto message) {
    cases.push_back({name, program, [=](WorkerId self, Channel& channel) {
                       both_ways(self, channel, workers, message);
                     }});
  };
  add("every number type on a device", of_every_type);
  add("empty tensors, and some on the host", empty_and_mixed);
  add("strides of their own on a device", with_strides);
  add("large ones on a device", large);
  cases.push_back({"sums on a device, in the fixed order", program,
                   [=](WorkerId self, Channel& channel) {
                     sums(self, channel, program, workers);
                   }});
  return cases;
}

}  // namespace pipewright::testing
