#include "pipewright/planners/parallel.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <thread>
#include <vector>

#include "pipewright/base/index.h"

namespace pipewright {

int num_threads(int threads) {
  if (threads > 0) return threads;
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

void in_parallel(std::size_t count, int threads,
                 const std::function<void(std::size_t)>& work) {
  const std::size_t at_once = std::min(at(num_threads(threads)), count);
  std::vector<std::exception_ptr> thrown(count);
  std::atomic<std::size_t> next{0};
  const auto run = [&] {
    for (std::size_t i = next++; i < count; i = next++) try {
        work(i);
      } catch (...) {
        thrown[i] = std::current_exception();
      }
  };
  {
    std::vector<std::jthread> others;
    for (std::size_t t = 1; t < at_once; ++t) others.emplace_back(run);
    run();
  }
  for (const std::exception_ptr& each : thrown)
    if (each) std::rethrow_exception(each);
}

}  // namespace pipewright
