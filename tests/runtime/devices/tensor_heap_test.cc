// A heap counts, gives back what was freed, and lets tensors outlive it.

#include "pipewright/runtime/devices/tensor_heap.h"

#include <ATen/ATen.h>
#include <doctest/doctest.h>

#include <memory>
#include <thread>
#include <vector>

#include "pipewright/runtime/devices/cpu_device.h"

namespace pipewright {
namespace {

// On a thread of its own, which the heap or the device serves.
template <typename Heap, typename Work>
void with_heap(Heap& heap, Work work) {
  std::thread([&] {
    heap.serve_this_thread();
    work();
  }).join();
}

TEST_CASE("what is held is counted, to the byte") {
  TensorHeap heap;
  with_heap(heap, [&] {
    const at::Tensor kept = at::empty({1000}, at::kFloat);
    CHECK(heap.held() == Bytes(4000));
    for (int i = 0; i < 100; ++i) at::empty({50, 10}, at::kDouble);
    CHECK(heap.held() == Bytes(4000));
    CHECK(heap.peak() == Bytes(8000));
    heap.restart_peak();
    CHECK(heap.peak() == Bytes(4000));
  });
  CHECK(heap.held() == Bytes(0));
}

TEST_CASE("what passes is neither there before nor behind") {
  CpuDevice device;
  with_heap(device, [&] {
    const at::Tensor before = at::empty({1000}, at::kFloat);
    const PassingMemory memory(device);
    CHECK(memory.taken() == Bytes(0));
    at::empty({500}, at::kFloat);
    CHECK(memory.taken() == Bytes(2000));
    const at::Tensor result = at::empty({300}, at::kFloat);
    CHECK(memory.taken() == Bytes(800));
    at::empty({500}, at::kFloat);
    CHECK(memory.taken() == Bytes(2000));
  });
}

TEST_CASE("what was freed is used again") {
#ifdef __SANITIZE_THREAD__
  MESSAGE("not run: a heap keeps no blocks under ThreadSanitizer");
  return;
#endif
  TensorHeap heap;
  with_heap(heap, [&] {
    for (int size = 1; size < 3'000'000; size = size * 5 / 3 + 1) {
      const void* place = at::empty({size}, at::kByte).data_ptr();
      const Bytes reserved = heap.reserved();
      const at::Tensor again = at::empty({size}, at::kByte);
      CHECK(again.data_ptr() == place);
      CHECK(reinterpret_cast<std::uintptr_t>(place) % 64 == 0);
      CHECK(heap.reserved() == reserved);
    }
  });
}

TEST_CASE("a thread may outlive the heap that serves it") {
  std::thread([] {
    for (int i = 0; i < 3; ++i) {
      std::vector<at::Tensor> kept;
      {
        TensorHeap heap;
        heap.serve_this_thread();
        kept.push_back(at::full({100}, i));
        at::full({300}, i);  // freed before the heap is
      }
      for (int j = 0; j < 100; ++j) kept.push_back(at::full({j}, i));
      for (const at::Tensor& tensor : kept)
        CHECK(tensor.eq(i).all().item<bool>());
    }
  }).join();
}

TEST_CASE("another thread may free, and tensors may outlive the heap") {
  at::Tensor survivor;
  std::vector<at::Tensor> handed_over;
  auto heap = std::make_unique<TensorHeap>();
  with_heap(*heap, [&] {
    survivor = at::full({123}, 7.0);
    for (int i = 0; i < 10; ++i) handed_over.push_back(at::full({i + 1}, i));
  });
  CHECK(heap->held() > Bytes(0));
  handed_over.clear();
  CHECK(heap->held() == Bytes(123 * 4));
  heap.reset();
  CHECK(survivor.equal(at::full({123}, 7.0)));
  survivor = at::Tensor();
}

TEST_CASE("a thread without a heap is served as ever") {
  TensorHeap heap;
  const at::Tensor tensor = at::zeros({10});
  CHECK(heap.held() == Bytes(0));
  CHECK(at::empty({0}).numel() == 0);
}

}  // namespace
}  // namespace pipewright
