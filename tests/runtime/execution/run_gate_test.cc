// Ending a run early: whatever the workers' order, all have the same
// repetitions.

#include "pipewright/runtime/execution/run_gate.h"

#include <doctest/doctest.h>

#include <atomic>
#include <functional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace pipewright {
namespace {

RunHooks hooks(std::function<bool()> is_to_end) {
  RunHooks result;
  result.is_to_end = [asked = std::move(is_to_end)](std::int64_t) {
    return asked();
  };
  return result;
}

TEST_CASE("without a request all repetitions are done") {
  InProcessGate gate(3, {});
  for (int r = 0; r < 3; ++r) CHECK(gate.begins(r));
  CHECK(!gate.begins(3));
  CHECK(gate.repetitions() == 3);
}

TEST_CASE("what one worker has begun the others finish") {
  bool ends = false;
  InProcessGate gate(100, hooks([&ends] { return ends; }));
  for (int r = 0; r < 7; ++r) CHECK(gate.begins(r));
  ends = true;
  CHECK(!gate.begins(7));
  ends = false;  // it stays decided
  CHECK(!gate.begins(7));
  for (int r = 0; r < 7; ++r) CHECK(gate.begins(r));  // a slower worker
  CHECK(!gate.begins(7));
  CHECK(gate.repetitions() == 7);
}

TEST_CASE("the first repetition is always done") {
  InProcessGate gate(5, hooks([] { return true; }));
  CHECK(gate.begins(0));
  CHECK(!gate.begins(1));
  CHECK(gate.repetitions() == 1);
}

TEST_CASE("who decides knows how many minibatches have begun") {
  std::vector<std::int64_t> asked;
  std::int64_t ends_after = 0;
  RunHooks hooks;
  hooks.is_to_end = [&asked](std::int64_t begun) {
    asked.push_back(begun);
    return begun >= 7;
  };
  hooks.on_early_end = [&ends_after](std::int64_t many) { ends_after = many; };
  InProcessGate gate(10, hooks.without(3));
  for (int r = 0; r < 4; ++r) CHECK(gate.begins(r));
  CHECK(!gate.begins(4));
  CHECK(gate.repetitions() == 4);
  CHECK(ends_after == 7);
  CHECK(asked == std::vector<std::int64_t>{4, 5, 6, 7});
}

TEST_CASE("threads that end at a random moment do the same") {
  std::mt19937 random(7);
  for (int run = 0; run < 300; ++run) {
    std::atomic<bool> ends = false;
    InProcessGate gate(2000, hooks([&ends] { return ends.load(); }));
    std::vector<int> done(4, 0);
    std::vector<std::thread> threads;
    for (int& count : done)
      threads.emplace_back([&gate, &count] {
        while (gate.begins(count)) ++count;
      });
    for (unsigned i = random() % 20000; i > 0; --i)
      std::atomic_signal_fence(std::memory_order_seq_cst);
    ends = true;
    for (std::thread& thread : threads) thread.join();
    for (const int count : done) CHECK(count == gate.repetitions());
    CHECK(gate.repetitions() >= 1);
  }
}

}  // namespace
}  // namespace pipewright
