// The contract of a channel, over every implementation there is.

#include "pipewright/runtime/channels/channel.h"

#include <doctest/doctest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "pipewright/runtime/channels/in_process.h"
#include "pipewright/runtime/channels/reduction.h"

namespace pipewright {
namespace {

using Channels = std::vector<std::unique_ptr<Channel>>;
using Values = std::vector<std::vector<at::Tensor>>;

// Two workers, a transfer each way, one reduction of two parameters.
Program two_workers() {
  Program program;
  program.num_stages = 2;
  program.workers.resize(2);
  for (const int from : {0, 1}) {
    Transfer transfer;
    transfer.from = WorkerId(from);
    transfer.to = WorkerId(1 - from);
    program.transfers.push_back(transfer);
  }
  program.reductions.push_back({{WorkerId(0), WorkerId(1)},
                                {StageId(0), StageId(1)},
                                {ParameterId(0), ParameterId(4)},
                                Bytes(0)});
  program.read_sets.emplace_back().reductions = {0};
  for (const int w : {0, 1}) {
    Action reduce;
    reduce.kind = ActionKind::Reduce;
    reduce.stage = StageId(w);
    reduce.index = 0;
    Action step = reduce;
    step.kind = ActionKind::Step;
    program.workers[static_cast<std::size_t>(w)].body = {reduce, step};
  }
  return program;
}

const std::vector<std::function<Channels(const Program&)>>& implementations() {
  static const std::vector<std::function<Channels(const Program&)>> all = {
      in_process_channels};
  return all;
}

TEST_CASE("what is taken is what was sent, in any order of keys") {
  for (const auto& connect : implementations()) {
    const Program program = two_workers();
    const Channels channels = connect(program);
    std::thread sender([&] {
      for (int key = 0; key < 50; ++key)
        channels[0]->send(TransferId(0), key,
                          {{at::full({3}, key), at::full({2}, -key)},
                           {at::full({1}, 2 * key)}});
    });
    for (int key = 49; key >= 0; --key) {
      channels[1]->post(TransferId(0), key);
      const Values values = channels[1]->take(TransferId(0), key);
      REQUIRE(values.size() == 2);
      CHECK(values[0][0].equal(at::full({3}, key)));
      CHECK(values[0][1].equal(at::full({2}, -key)));
      CHECK(values[1][0].equal(at::full({1}, 2 * key)));
    }
    sender.join();
  }
}

TEST_CASE("a cancelled channel lets nobody wait") {
  for (const auto& connect : implementations()) {
    const Program program = two_workers();
    const Channels channels = connect(program);
    bool take_ended = false, reduced_ended = false;
    std::thread taker([&] {
      try {
        channels[1]->take(TransferId(0), 0);
      } catch (const Cancelled&) {
        take_ended = true;
      }
    });
    std::thread reader([&] {
      try {
        channels[1]->reduced(0, 0);
      } catch (const Cancelled&) {
        reduced_ended = true;
      }
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    channels[0]->cancel();
    taker.join();
    reader.join();
    CHECK(take_ended);
    CHECK(reduced_ended);
    CHECK_THROWS_AS(channels[0]->take(TransferId(1), 3), Cancelled);
    CHECK_THROWS_AS(channels[0]->send(TransferId(0), 3, {}), Cancelled);
  }
}

TEST_CASE("a reduction answers all readers with the same sums") {
  for (const auto& connect : implementations()) {
    const Program program = two_workers();
    const Channels channels = connect(program);
    for (const std::int32_t minibatch : {0, 4}) {
      std::vector<std::vector<at::Tensor>> sums(2);
      std::vector<std::thread> workers;
      for (const std::size_t w : {0, 1})
        workers.emplace_back([&, w] {
          const double x = static_cast<double>(w) + minibatch;
          channels[w]->contribute(
              0, minibatch,
              {{ParameterId(0), LayerId(w), at::full({2}, x)},
               {ParameterId(4), LayerId(w), at::full({1}, 10 * x)}});
          sums[w] = channels[w]->reduced(0, minibatch);
        });
      for (std::thread& worker : workers) worker.join();
      for (const auto& of_worker : sums) {
        REQUIRE(of_worker.size() == 2);
        CHECK(of_worker[0].equal(at::full({2}, 1.0 + 2 * minibatch)));
        CHECK(of_worker[1].equal(at::full({1}, 10.0 + 20 * minibatch)));
      }
    }
  }
}

TEST_CASE("sums go by layer, then by worker, whoever hands in first") {
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
