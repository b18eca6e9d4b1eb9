// The contract of a channel between threads (rank_channel_test.cc: between
// ranks), and the order of sums.

#include "pipewright/runtime/channels/channel.h"

#include <doctest/doctest.h>

#include <thread>

#include "pipewright/runtime/channels/in_process.h"
#include "pipewright/runtime/channels/reduction.h"
#include "tests/runtime/channels/channel_contract.h"

namespace pipewright {
namespace {

TEST_CASE("channels in a process keep the contract") {
  for (int workers = 2; workers <= 4; ++workers)
    for (const testing::ContractCase& each :
         testing::channel_contract(workers)) {
      CAPTURE(each.name);
      CAPTURE(workers);
      const auto channels = in_process_channels(each.program);
      std::vector<std::thread> threads;
      for (std::size_t w = 0; w < channels.size(); ++w)
        threads.emplace_back(
            [&, w] { each.worker(WorkerId(w), *channels[w]); });
      for (std::thread& thread : threads) thread.join();
    }
}

// A replica that steps first begins the gradients of its next minibatch; those
// of this one must be gone by then, or it holds both.
TEST_CASE("gradients are let go of once they are added up, whoever reads") {
  const auto all = testing::everyone(3);
  const Program program = testing::reducing(3, all, all);
  const auto channels = in_process_channels(program);
  std::vector<at::Tensor> gradients;
  for (const auto& channel : channels) {
    std::vector<Contribution> parts;
    for (const ParameterId parameter : program.reductions[0].parameters) {
      gradients.push_back(at::ones({5}));
      parts.push_back({parameter, LayerId(1), gradients.back()});
    }
    channel->contribute(ReductionId(0), MicrobatchId(0), std::move(parts));
  }
  for (const at::Tensor& gradient : gradients) CHECK(gradient.use_count() == 2);
  for (const auto& channel : channels) {
    const Tensors sums = channel->reduced(ReductionId(0), MicrobatchId(0));
    for (const at::Tensor& sum : sums) CHECK(sum.equal(at::full({5}, 3.0F)));
    for (const at::Tensor& gradient : gradients)
      CHECK(gradient.use_count() == 1);
  }
}

TEST_CASE("sums are in order of layers, then of workers, whoever is first") {
  Reduction reduction;
  reduction.workers = {WorkerId(2), WorkerId(0)};
  reduction.parameters = {ParameterId(3)};
  // Powers that absorb each other in float32: the order shows.
  const auto part = [](int layer, double x) {
    return Contribution{ParameterId(3), LayerId(layer),
                        at::full({1}, x, at::kFloat)};
  };
  const WorkerContributions first{WorkerId(0), {part(5, 1e8), part(1, 1)}};
  const WorkerContributions second{WorkerId(2), {part(5, -1e8), part(1, 1)}};
  const auto expected = [](std::initializer_list<double> order) {
    at::Tensor sum = at::zeros({1}, at::kFloat);
    for (const double x : order) sum = sum.add(x);
    return sum;
  };
  const at::Tensor sum = expected({1, 1, -1e8, 1e8});
  CHECK(!sum.equal(expected({-1e8, 1e8, 1, 1})));
  CHECK(reduction_sums(reduction, {first, second})[0].equal(sum));
  CHECK(reduction_sums(reduction, {second, first})[0].equal(sum));
}

}  // namespace
}  // namespace pipewright
