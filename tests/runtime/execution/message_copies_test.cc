// Messages between devices that do not compute at once: who waits for which
// moment before memory is read or reused, and that training has the same bits.

#include "pipewright/runtime/execution/message_copies.h"

#include <doctest/doctest.h>

#include <thread>

#include "pipewright/runtime/channels/in_process.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/devices/watched_device.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

using namespace testing;

std::vector<std::unique_ptr<WatchedDevice>> watched(int count) {
  std::vector<std::unique_ptr<WatchedDevice>> devices;
  for (int d = 0; d < count; ++d)
    devices.push_back(std::make_unique<WatchedDevice>(d));
  return devices;
}

std::vector<std::unique_ptr<Channel>> channels_of(
    const Program& program,
    const std::vector<std::unique_ptr<WatchedDevice>>& devices) {
  std::vector<WorkerDevice*> pointers;
  for (const auto& device : devices) pointers.push_back(device.get());
  return copying_channels(in_process_channels(program), program, pointers);
}

// One number; calls `gone` when its memory goes.
at::Tensor number(float value, std::function<void()> gone) {
  auto* memory = new float(value);
  return at::from_blob(
      memory, {1},
      [gone = std::move(gone)](void* place) {
        gone();
        delete static_cast<float*>(place);
      },
      at::kFloat);
}

Values message_of(at::Tensor tensor) {
  Values values(1);
  values[0].push_back(std::move(tensor));
  return values;
}

TEST_CASE("channels that copy keep the contract") {
  for (int workers = 2; workers <= 4; ++workers)
    for (const ContractCase& each : channel_contract(workers)) {
      CAPTURE(each.name);
      CAPTURE(workers);
      const auto devices = watched(each.program.num_workers());
      const auto channels = channels_of(each.program, devices);
      std::vector<std::thread> threads;
      for (std::size_t w = 0; w < channels.size(); ++w)
        threads.emplace_back(
            [&, w] { each.worker(WorkerId(w), *channels[w]); });
      for (std::thread& thread : threads) thread.join();
    }
}

// Two or more workers whose messages are copied; small ones are borrowed.
Program sending(int workers, bool is_small) {
  Program program = reducing(workers, {}, {});
  for (Transfer& transfer : program.transfers)
    transfer.bytes = Bytes(is_small ? 4 : 1 << 30);
  return program;
}

TEST_CASE("a message is read after the moment it was sent") {
  for (const bool is_small : {false, true}) {
    const Program program = sending(2, is_small);
    const auto devices = watched(2);
    const auto channels = channels_of(program, devices);
    WatchedDevice &sender = *devices[0], &receiver = *devices[1];
    for (int key = 0; key < 5; ++key) {
      channels[0]->send(onwards(0), key, message_of(number(key, [] {})));
      const std::int64_t sent = sender.num_moments();
      receiver.on_copy = [&](const at::Tensor&) {
        CHECK(receiver.known(0) >= sent);
      };
      const Values taken = channels[1]->take(onwards(0), key);
      CHECK(receiver.known(0) >= sent);
      CHECK(taken[0][0].item<float>() == static_cast<float>(key));
    }
    CHECK(receiver.num_copies() == (is_small ? 0 : 5));
    CHECK(sender.num_copies() == 0);
  }
}

TEST_CASE("sent memory is the sender's again after it was read, not before") {
  constexpr int kMessages = 20, kMaxHeld = 6;
  for (const bool is_small : {false, true})
    for (const bool passes : {false, true}) {
      CAPTURE(is_small);
      CAPTURE(passes);
      int num_gone = 0;
      bool is_sending = false;
      std::vector<std::int64_t> before;  // the receiver's moments, by message
      const Program program = sending(2, is_small);
      const auto devices = watched(2);
      const auto channels = channels_of(program, devices);
      WatchedDevice &sender = *devices[0], &receiver = *devices[1];
      receiver.moments_pass = passes;
      for (int key = 0; key < kMessages; ++key) {
        auto gone = [&, key] {
          ++num_gone;
          CHECK(is_sending);
          const bool is_known =
              sender.known(1) > before[static_cast<std::size_t>(key)];
          CHECK((is_known || passes));
        };
        is_sending = true;
        channels[0]->send(onwards(0), key, message_of(number(1, gone)));
        is_sending = false;
        before.push_back(receiver.num_moments());
        channels[1]->take(onwards(0), key);
        CHECK(num_gone >= key - kMaxHeld);
        if (passes && !is_small) CHECK(num_gone == key);
      }
      // For each message, or for several.
      CHECK(receiver.num_moments() <= (is_small ? kMessages / 2 : kMessages));
      is_sending = true;  // what is left goes with the channels
      sender.wait_for(receiver.moment());
    }
}

TEST_CASE("a message that is still held is not returned") {
  const Program program = sending(2, true);
  const auto devices = watched(2);
  const auto channels = channels_of(program, devices);
  int num_gone = 0;
  std::vector<Values> held;
  for (int key = 0; key < 4; ++key) {
    channels[0]->send(onwards(0), key,
                      message_of(number(1, [&] { ++num_gone; })));
    held.push_back(channels[1]->take(onwards(0), key));
    channels[1]->return_messages();
  }
  const at::Tensor view = held[1][0][0].view({1, 1});
  held.clear();
  channels[1]->return_messages();
  for (int key = 4; key < 8; ++key) {
    channels[0]->send(onwards(0), key, message_of(number(1, [] {})));
    channels[1]->take(onwards(0), key);
    channels[1]->return_messages();
  }
  CHECK(num_gone == 3);
  CHECK(view.item<float>() == 1);
}

TEST_CASE(
    "a sender that reuses memory does not wait for whom it is passed to") {
  const Program program = sending(3, true);
  const auto devices = watched(3);
  const auto channels = channels_of(program, devices);
  channels[0]->reuse_messages();
  for (int key = 0; key < 3; ++key) {
    channels[0]->send(onwards(0), key, message_of(number(key, [] {})));
    Values passed = channels[1]->take(onwards(0), key);
    Values view = message_of(passed[0][0].view({1, 1}));
    passed.clear();
    channels[1]->send(onwards(1), key, std::move(view));
    view.clear();
    channels[1]->return_messages();
    channels[0]->reuse_messages();  // nobody has taken it from worker 1
  }
  CHECK(devices[1]->num_copies() == 3);
  for (int key = 0; key < 3; ++key)
    CHECK(channels[2]->take(onwards(1), key)[0][0].item<float>() ==
          static_cast<float>(key));
}

TEST_CASE("a message is passed on without a copy, and returned by all") {
  constexpr int kMessages = 20, kMaxHeld = 12;
  const Program program = sending(3, true);
  int num_gone = 0;
  std::vector<std::int64_t> before;     // moments of worker 2, by message
  std::vector<std::int64_t> passed_on;  // of worker 1
  const auto devices = watched(3);
  const auto channels = channels_of(program, devices);
  for (int key = 0; key < kMessages; ++key) {
    const auto gone = [&, key] {
      ++num_gone;
      // Worker 0 waits for worker 1, which has waited for worker 2.
      const auto k = static_cast<std::size_t>(key);
      CHECK(devices[1]->known(2) > before[k]);
      CHECK(devices[0]->known(1) > passed_on[k]);
    };
    channels[0]->send(onwards(0), key, message_of(number(key, gone)));
    Values passed = channels[1]->take(onwards(0), key);
    channels[1]->send(onwards(1), key, std::move(passed));
    passed.clear();
    before.push_back(devices[2]->num_moments());
    passed_on.push_back(devices[1]->num_moments());
    CHECK(channels[2]->take(onwards(1), key)[0][0].item<float>() ==
          static_cast<float>(key));
    CHECK(num_gone >= key - kMaxHeld);
  }
  CHECK(num_gone > 0);
  CHECK(devices[1]->num_copies() == 0);
  CHECK(devices[2]->num_copies() == 0);
  channels[0]->reuse_messages();  // waits for none of them
  devices[1]->wait_for(
      devices[2]->moment());  // the rest goes with the channels
  devices[0]->wait_for(devices[1]->moment());
}

TEST_CASE("the moment of a send is that at which messages are returned") {
  constexpr int kMessages = 6;
  const Program program = sending(3, true);
  const auto devices = watched(3);
  const auto channels = channels_of(program, devices);
  channels[0]->reuse_messages();
  for (int key = 0; key < kMessages; ++key) {
    channels[0]->send(onwards(0), key, message_of(number(1, [] {})));
    channels[1]->take(onwards(0), key);
    channels[1]->send(onwards(1), key, message_of(number(1, [] {})));
    CHECK(devices[1]->num_moments() == key + 1);
  }
  channels[0]->reuse_messages();  // does not wait
  CHECK(devices[0]->known(1) == kMessages);
}

TEST_CASE("memory of messages is reused after all of them were read") {
  constexpr int kMessages = 5;
  for (const bool is_small : {false, true}) {
    const Program program = sending(2, is_small);
    const auto devices = watched(2);
    const auto channels = channels_of(program, devices);
    channels[0]->reuse_messages();  // none yet
    for (int key = 0; key < kMessages; ++key)
      channels[0]->send(onwards(0), key, message_of(number(1, [] {})));
    std::int64_t before = 0;  // the moment before the last message
    std::thread receiver([&] {
      for (int key = 0; key < kMessages; ++key) {
        before = devices[1]->num_moments();
        channels[1]->take(onwards(0), key);
      }
      channels[1]->return_messages();
    });
    channels[0]->reuse_messages();
    receiver.join();
    CHECK(devices[0]->known(1) > before);
    channels[0]->send(onwards(0), kMessages, message_of(number(1, [] {})));
    channels[1]->cancel();
    CHECK_THROWS_AS(channels[0]->reuse_messages(), Cancelled);
  }
}

TEST_CASE("lent messages stay where they are until they are returned") {
  constexpr int kMessages = 3;
  const Program program = sending(2, false);
  const auto devices = watched(2);
  const auto channels = channels_of(program, devices);
  const at::Tensor memory = number(1, [] {});
  for (int key = 0; key < kMessages; ++key) {
    channels[0]->lend(onwards(0), key, message_of(memory));
    const std::int64_t sent = devices[0]->num_moments();
    CHECK(channels[1]->take(onwards(0), key)[0][0].is_same(memory));
    CHECK(channels[1]->is_lent(onwards(0)));
    CHECK(devices[1]->known(0) >= sent);
  }
  CHECK(devices[1]->num_copies() == 0);
  CHECK(devices[1]->num_moments() == 0);
  std::thread receiver([&] { channels[1]->return_messages(); });
  channels[0]->reuse_messages();
  CHECK(devices[0]->known(1) == 1);  // one moment for all of them
  receiver.join();
  channels[0]->send(onwards(0), kMessages, message_of(memory));
  CHECK(!channels[1]->take(onwards(0), kMessages)[0][0].is_same(memory));
  CHECK(!channels[1]->is_lent(onwards(0)));
}

TEST_CASE("gradients are read after they were made, and kept until read") {
  const Program program = reducing(2, {0, 1}, {0, 1});
  std::vector<std::int64_t> read;  // moments of device 1 after it has read
  int num_gone = 0;
  const auto devices = watched(2);
  const auto channels = channels_of(program, devices);
  for (int step = 0; step < 4; ++step) {
    const MicrobatchId first = program.first_microbatch(step);
    auto gone = [&, step] {
      ++num_gone;
      CHECK(devices[0]->known(1) >= read[static_cast<std::size_t>(step)]);
    };
    std::vector<Contribution> mine = {
        {ParameterId(0), LayerId(0), number(1, gone)},
        {ParameterId(4), LayerId(1), number(2, [] {})}};
    channels[0]->contribute(ReductionId(0), first, std::move(mine));
    mine.clear();
    const std::int64_t made = devices[0]->num_moments();
    std::vector<Contribution> others = {
        {ParameterId(0), LayerId(0), at::full({1}, 10.F)},
        {ParameterId(4), LayerId(1), at::full({1}, 20.F)}};
    channels[1]->contribute(ReductionId(0), first, std::move(others));
    CHECK(num_gone == std::max(0, step));
    for (const int worker : {1, 0}) {
      const Tensors sums = channels[static_cast<std::size_t>(worker)]->reduced(
          ReductionId(0), first);
      CHECK(sums[0].item<float>() == 11);
      CHECK(sums[1].item<float>() == 22);
    }
    CHECK(devices[1]->known(0) >= made);
    read.push_back(devices[1]->num_moments());
  }
  devices[0]->wait_for(devices[1]->moment());
}

Executor::Devices owned(int count) {
  Executor::Devices devices;
  for (auto& device : watched(count)) devices.push_back(std::move(device));
  return devices;
}

// Spans lie in the run, and no stamp was forgotten.
void check_times(const Timeline& timeline) {
  CHECK(timeline.bubble >= 0);
  for (const auto& spans : timeline.spans)
    for (const Span& span : spans) {
      CHECK(span.start > Seconds(0));
      CHECK(span.end >= span.start);
      CHECK(span.end <= timeline.duration);
    }
}

TEST_CASE("devices that compute later train to the same bits") {
  const std::vector<Model> models = {small_mlp(), small_cnn(), small_gpt()};
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1", "interleaved"})
    for (const int workers : {1, 2, 3})
      for (const Model& model : models) {
        CAPTURE(schedule);
        CAPTURE(workers);
        CAPTURE(model.name());
        const Result<Schedule> made =
            generated_if_possible(schedule, workers, 4);
        if (!made || made->num_stages() > model.num_layers()) continue;
        const Program program =
            lower(plan_of(model, *made, 4), profile_of(model, 4)).value();
        const MicrobatchSource source = random_source(model, 4);
        Executor cores(model, program, settings_for_tests());
        Executor devices(model, program, settings_for_tests(), nullptr,
                         owned(program.num_workers()));
        for (const int steps : {2, 3}) {
          REQUIRE(cores.run(source, steps).ok());
          const Result<Executed> done = devices.run(source, steps);
          REQUIRE(done.ok());
          check_times(done->timeline);
        }
        CHECK(is_identical(cores.trained(), devices.trained()));
        CHECK(devices.num_values_held() == 0);
      }
}

TEST_CASE("a loss that is not finite, read late, goes back before the run") {
  const Model model = small_mlp();
  const Program program =
      lower(plan_of(model, generated("1f1b", 2, 4), 4), profile_of(model, 4))
          .value();
  const MicrobatchSource good = random_source(model, 4);
  const MicrobatchSource bad = [&](int input, std::int64_t m) {
    const at::Tensor tensor = good(input, m);
    return input == 0 && m == 13 ? tensor.mul(NAN) : tensor;
  };
  Executor executor(model, program, settings_for_tests(), nullptr, owned(2));
  REQUIRE(executor.run(good, 2).ok());
  const Tensors before = executor.trained().parameters;
  const Result<Executed> failed = executor.run(bad, 3);
  REQUIRE(!failed.ok());
  CHECK(failed.error().code == ErrorCode::LossNotFinite);
  CHECK(failed.error().to_text().find("step 4") != std::string::npos);
  for (std::size_t i = 0; i < before.size(); ++i)
    CHECK(before[i].equal(executor.trained().parameters[i]));
}

}  // namespace
}  // namespace pipewright
