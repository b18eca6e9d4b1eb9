// A message is memory of its receiver from when it is both sent and posted.

#include "pipewright/runtime/execution/message_memory.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <doctest/doctest.h>

#include <functional>
#include <thread>

#include "pipewright/runtime/channels/in_process.h"
#include "pipewright/runtime/devices/cpu_device.h"

namespace pipewright {
namespace {

constexpr Bytes kMessage{4000};

at::Tensor numbers() { return at::ones({1000}, at::kFloat); }

// A braced list would hold its tensors until the send is over.
Values message(at::Tensor tensor) {
  Values values(1);
  values[0].push_back(std::move(tensor));
  return values;
}

// Two workers and a transfer from the first to the second. Tensors come from
// the sender's heap.
struct TwoWorkers {
  TwoWorkers() {
    program.workers.resize(2);
    Transfer& transfer = program.transfers.emplace_back();
    transfer.from = WorkerId(0);
    transfer.to = WorkerId(1);
    transfer.values.resize(1);
    channels = counted_channels(in_process_channels(program), program,
                                {&sender, &receiver});
  }
  void send(std::int32_t key, Values values) {
    channels[0]->send(TransferId(0), key, std::move(values));
  }
  void post(std::int32_t key) { channels[1]->post(TransferId(0), key); }
  Values take(std::int32_t key) {
    return channels[1]->take(TransferId(0), key);
  }
  void check_held(Bytes by_sender, Bytes by_receiver) const {
    CHECK(sender.held() == by_sender);
    CHECK(receiver.held() == by_receiver);
  }

  CpuDevice sender, receiver;
  Program program;
  std::vector<std::unique_ptr<Channel>> channels;
};

void with_two_workers(const std::function<void(TwoWorkers&)>& work) {
  TwoWorkers workers;
  std::thread([&] {
    const c10::InferenceMode guard;  // as workers run: a view holds no base
    workers.sender.serve_this_thread();
    work(workers);
  }).join();
}

TEST_CASE("posted first: the receiver's when it is sent") {
  with_two_workers([](TwoWorkers& workers) {
    workers.post(0);
    workers.send(0, message(numbers()));
    workers.check_held(Bytes(0), kMessage);
    workers.take(0);
    workers.check_held(Bytes(0), Bytes(0));
    CHECK(workers.receiver.peak() == kMessage);
  });
}

TEST_CASE("sent first: the sender's until it is posted") {
  with_two_workers([](TwoWorkers& workers) {
    workers.send(0, message(numbers()));
    workers.send(1, message(numbers()));
    workers.check_held(kMessage * 2, Bytes(0));
    workers.post(0);
    workers.check_held(kMessage, kMessage);
    workers.post(1);
    workers.check_held(Bytes(0), kMessage * 2);
    workers.take(1);
    workers.check_held(Bytes(0), kMessage);
    workers.take(0);
    workers.check_held(Bytes(0), Bytes(0));
  });
}

TEST_CASE("a tensor that the sender keeps stays the sender's") {
  with_two_workers([](TwoWorkers& workers) {
    at::Tensor kept = numbers();
    workers.post(0);
    workers.send(0, message(kept));
    workers.check_held(kMessage, Bytes(0));
    workers.send(1, message(kept.view({10, 100})));
    workers.post(1);
    workers.check_held(kMessage, Bytes(0));
    workers.take(0);
    workers.take(1);
    // Dropped before it is posted: nobody else has it any more.
    workers.send(2, message(kept));
    kept = at::Tensor();
    workers.post(2);
    workers.check_held(Bytes(0), kMessage);
  });
}

TEST_CASE("one storage in several values of a message counts once") {
  with_two_workers([](TwoWorkers& workers) {
    workers.post(0);
    {
      const at::Tensor tensor = numbers();
      workers.send(0, {{tensor, tensor.view({10, 100})}, {tensor}});
    }
    workers.check_held(kMessage, Bytes(0));  // `tensor` was still held
    workers.post(1);
    Values values(2);
    {
      const at::Tensor tensor = numbers();
      values[0] = {tensor, tensor.view({10, 100}), at::Tensor()};
      values[1] = {tensor};
    }
    workers.send(1, std::move(values));
    workers.check_held(kMessage, kMessage);
  });
}

}  // namespace
}  // namespace pipewright
