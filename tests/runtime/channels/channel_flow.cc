// Large tensors, many messages, bounded buffers: the part of the channels'
// contract that is about amounts. See channel_contract.h.

#include <doctest/doctest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <thread>

#include "pipewright/plan/program/send_capacity.h"
#include "tests/runtime/channels/channel_contract.h"

namespace pipewright::testing {
namespace {

void a_large_one(WorkerId self, Channel& channel, std::int64_t bytes) {
  const std::int64_t numbers = bytes / 8;
  if (self == WorkerId(0)) channel.send(onwards(0), 0, {{at::arange(numbers)}});
  if (self != WorkerId(1)) return;
  const at::Tensor got = channel.take(onwards(0), 0).at(0).at(0);
  CHECK(got.numel() == numbers);
  CHECK(got.equal(at::arange(numbers)));
}

void many_small_ones(WorkerId self, Channel& channel, int workers) {
  constexpr int kMessages = 3000, kAhead = 8;
  const int me = self.value, previous = (me + workers - 1) % workers;
  int wrong = 0;
  for (int key = 0; key < kMessages + kAhead; ++key) {
    if (key < kMessages) {
      channel.send(onwards(me), key, {{at::full({4}, key)}});
      channel.send(back_to(previous), key, {{at::full({4}, -key)}});
      channel.post(onwards(previous), key);
      channel.post(back_to(me), key);
    }
    if (key < kAhead) continue;
    const int old = key - kAhead;
    const Values one = channel.take(onwards(previous), old);
    const Values two = channel.take(back_to(me), old);
    wrong += one[0][0][0].item<int>() != old;
    wrong += two[0][0][3].item<int>() != -old;
  }
  CHECK(wrong == 0);
}

// Both send all before they take anything.
void both_ways_at_once(WorkerId self, Channel& channel) {
  if (self.value > 1) return;
  constexpr int kMessages = 6;
  constexpr std::int64_t kNumbers = 1 << 20;
  const bool first = self == WorkerId(0);
  const TransferId to = first ? onwards(0) : back_to(0);
  const TransferId from = first ? back_to(0) : onwards(0);
  for (int key = 0; key < kMessages; ++key)
    channel.send(to, key, {{at::full({kNumbers}, key + self.value)}});
  for (int key = 0; key < kMessages; ++key)
    CHECK(channel.take(from, key)[0][0].equal(
        at::full({kNumbers}, key + 1 - self.value)));
}

// What was taken stays what it is while others come in, also after the sender
// has dropped its own.
void taken_is_kept(WorkerId self, Channel& channel) {
  constexpr int kMessages = 40;
  std::vector<at::Tensor> kept;
  for (int key = 0; key < kMessages; ++key) {
    if (self == WorkerId(0))
      channel.send(onwards(0), key, {{at::full({1000}, key)}});
    if (self != WorkerId(1)) continue;
    const Values values = channel.take(onwards(0), key);
    if (key % 3 == 0) kept.push_back(values[0][0]);
    if (key % 3 == 1) kept.push_back(values[0][0].narrow(0, 10, 20));
    if (key % 3 == 2) kept.emplace_back();
  }
  for (std::size_t key = 0; key < kept.size(); ++key)
    if (kept[key].defined()) {
      CHECK(kept[key][0].item<int>() == static_cast<int>(key));
      CHECK(kept[key][-1].item<int>() == static_cast<int>(key));
    }
}

// One sends as fast as it can, the other takes nothing for a while: no more
// than SendCapacity::kMinimum messages have been sent by then, however small or
// large. (Both see one clock: they are on one host.)
void bounded_buffers(WorkerId self, Channel& channel, std::int64_t numbers) {
  using Clock = std::chrono::steady_clock;
  const auto now = [] {
    return static_cast<std::int64_t>(Clock::now().time_since_epoch().count());
  };
  constexpr int kMessages = 3 * SendCapacity::kMinimum;
  if (self == WorkerId(0)) {
    std::vector<std::int64_t> sent;
    for (int key = 0; key < kMessages; ++key) {
      channel.send(onwards(0), key, {{at::full({numbers}, key)}});
      sent.push_back(now());
    }
    const auto first_taken =
        channel.take(back_to(0), 0)[0][0].item<std::int64_t>();
    const auto ahead =
        std::count_if(sent.begin(), sent.end(),
                      [&](std::int64_t time) { return time < first_taken; });
    CHECK(ahead <= SendCapacity::kMinimum);
    CHECK(ahead > 2);  // it does not wait for each
  }
  if (self != WorkerId(1)) return;
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  channel.send(back_to(0), 0, {{at::full({1}, now(), at::kLong)}});
  int wrong = 0;
  for (int key = 0; key < kMessages; ++key)
    wrong += channel.take(onwards(0), key)[0][0][-1].item<int>() != key;
  CHECK(wrong == 0);
}

std::int64_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * 4096;
}

// 800 MB go through with two of 2 MB under way: memory does not grow with what
// has gone through. (How tightly the system's allocator packs is another
// matter.)
void steady_memory(WorkerId self, Channel& channel) {
  if (self.value > 1) return;
  constexpr int kMessages = 400, kAhead = 2;
  constexpr std::int64_t kNumbers = 1 << 18;
  const bool sends = self == WorkerId(0);
  std::int64_t before = 0, most = 0;
  for (int key = 0; key < kMessages; ++key) {
    if (key == 20) {
      ::malloc_trim(0);
      before = resident_bytes();
    }
    if (sends) {
      channel.send(onwards(0), key, {{at::full({kNumbers}, key)}});
      if (key >= kAhead) channel.take(back_to(0), key - kAhead);
    } else {
      channel.post(onwards(0), key);
      CHECK(channel.take(onwards(0), key)[0][0][7].item<int>() == key);
      channel.send(back_to(0), key, {{at::ones({1})}});
    }
    if (key > 20) most = std::max(most, resident_bytes() - before);
  }
  if (sends)
    for (int key = kMessages - kAhead; key < kMessages; ++key)
      channel.take(back_to(0), key);
  CHECK(most < 200 << 20);
}

}  // namespace

std::vector<std::pair<std::string, std::function<void(WorkerId, Channel&)>>>
flow_contract(int workers) {
  std::vector<std::pair<std::string, std::function<void(WorkerId, Channel&)>>>
      cases;
  // More than MPI takes in one piece, once: it is the same with more workers.
  const std::int64_t large = workers == 2 ? (1LL << 30) + 80 : 64LL << 20;
  cases.emplace_back("a large tensor",
                     [large](WorkerId self, Channel& channel) {
                       a_large_one(self, channel, large);
                     });
  cases.emplace_back("many small messages",
                     [workers](WorkerId self, Channel& channel) {
                       many_small_ones(self, channel, workers);
                     });
  cases.emplace_back("both ways at once", both_ways_at_once);
  cases.emplace_back("what was taken stays", taken_is_kept);
  for (const std::int64_t numbers : {1, 1000, 100000})
    cases.emplace_back("bounded buffers",
                       [numbers](WorkerId self, Channel& channel) {
                         bounded_buffers(self, channel, numbers);
                       });
  cases.emplace_back("steady memory", steady_memory);
  return cases;
}

}  // namespace pipewright::testing
