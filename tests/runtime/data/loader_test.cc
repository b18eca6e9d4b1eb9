// The loader: the same microbatches as without it, bounded, and ready.

#include "pipewright/runtime/data/loader.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace pipewright {
namespace {

at::Tensor tensor_of(int input, std::int64_t microbatch) {
  return at::full({2}, static_cast<double>(100 * input + microbatch));
}

// Until the loader has nothing to do.
void wait_for(const std::atomic<int>& made, int wanted) {
  for (int i = 0; i < 2000 && made < wanted; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST_CASE("microbatches asked for in order are ready, and few are held") {
  std::atomic<int> made = 0;
  Loader loader(
      [&](int input, std::int64_t microbatch) {
        at::Tensor tensor = tensor_of(input, microbatch);
        ++made;
        return tensor;
      },
      2, 5, 3, 2);
  const MicrobatchSource source = loader.microbatches();
  wait_for(made, 2 * 3);
  CHECK(made == 6);  // 5, 6, 7 of both inputs, and no more
  for (int m = 5; m < 40; ++m)
    for (const int input : {0, 1}) {
      wait_for(made, 2 * (m - 5) + input + 3);
      CHECK(source(input, m).equal(tensor_of(input, m)));
    }
  CHECK(loader.count().ready + loader.count().late == 70);
  CHECK(loader.count().ready > 60);
  CHECK(loader.max_held() <= 3 + 2 + 1);
}

TEST_CASE("any order of requests gets the right microbatches") {
  Loader loader(tensor_of, 1, 0, 4, 2);
  const MicrobatchSource source = loader.microbatches();
  for (const int m : {0, 1, 9, 8, 7, 0, 30, 29, 2, 31, 31, 100, 0})
    CHECK(source(0, m).equal(tensor_of(0, m)));
}

TEST_CASE("several threads ask at once") {
  Loader loader(tensor_of, 3, 0, 4, 4);
  const MicrobatchSource source = loader.microbatches();
  std::atomic<int> wrong = 0;
  std::vector<std::thread> threads;
  for (int input = 0; input < 3; ++input)
    threads.emplace_back([&, input] {
      for (int m = 0; m < 200; ++m)
        if (!source(input, m).equal(tensor_of(input, m))) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
}

TEST_CASE("a source that throws does so where it is asked") {
  Loader loader(
      [](int, std::int64_t microbatch) -> at::Tensor {
        if (microbatch == 2) throw std::runtime_error("no sample");
        return tensor_of(0, microbatch);
      },
      1, 0, 8, 2);
  const MicrobatchSource source = loader.microbatches();
  CHECK(source(0, 1).equal(tensor_of(0, 1)));
  CHECK_THROWS_WITH(source(0, 2), "no sample");
  CHECK(source(0, 3).equal(tensor_of(0, 3)));
}

}  // namespace
}  // namespace pipewright
