// The tensors that a worker holds: pieces of any order are read by any range,
// and a worker that has seen its microbatches once asks for no more memory.

#include "pipewright/runtime/execution/value_store.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <new>

namespace {
thread_local std::int64_t num_allocations = 0;
}

// Of the whole test program: they count, and do what they always do.
void* operator new(std::size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++num_allocations;
  return std::malloc(bytes > 0 ? bytes : 1);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace pipewright {
namespace {

const Value kActivation{ValueKind::Activation, LayerId(1)};
const Value kGradient{ValueKind::Gradient, LayerId(0)};

at::Tensor rows(std::int64_t first, std::int64_t end) {
  return at::arange(first, end).view({end - first, 1});
}

}  // namespace

TEST_CASE("pieces come in any order and are read by another range") {
  const MicrobatchId m(3);
  ValueStore values(2);
  values.add_piece(kActivation, m, {4, 8}, {rows(4, 8)});
  values.add_piece(kActivation, m, {0, 2}, {rows(0, 2)});
  values.add_piece(kActivation, m, {2, 4}, {rows(2, 4)});
  CHECK(values.read(kActivation, m, {1, 7})[0].equal(rows(1, 7)));
  CHECK(values.read(kActivation, m, {2, 4})[0].equal(rows(2, 4)));
  CHECK(!values.whole(kActivation, m, {0, 8}));
  values.replace(kActivation, m, {0, 8}, rows(0, 8));
  REQUIRE(values.whole(kActivation, m, {0, 8}));
  CHECK(values.num_values() == 1);
  values.drop(kActivation, m);
  CHECK(!values.has(kActivation, m));
  CHECK(values.held() == Bytes(0));
}

TEST_CASE("a store in its stride allocates nothing") {
  ValueStore values(2);
  const at::Tensor tensor = rows(0, 4);
  const auto pass = [&](MicrobatchId first) {
    for (MicrobatchId m = first; m < first + 8; ++m) {
      values.replace(kActivation, m, {0, 4}, tensor);
      if (m.value < 3) continue;  // three are on their way
      values.replace(kGradient, m - 3, {0, 4}, tensor);
      values.drop(kActivation, m - 3);
      values.drop(kGradient, m - 3);
    }
  };
  pass(MicrobatchId(0));
  const std::int64_t before = num_allocations;
  for (MicrobatchId first(8); first.value < 800; first += 8) pass(first);
  CHECK(num_allocations == before);
  CHECK(values.num_values() == 3);
}

}  // namespace pipewright
