#include "pipewright/base/units.h"

#include <doctest/doctest.h>

#include <set>
#include <unordered_set>

#include "pipewright/base/ids.h"

namespace pipewright {
namespace {

template <class A, class B>
concept Addable = requires(A a, B b) {
  a + b;
};

// Mixing units must not compile.
static_assert(Addable<Seconds, Seconds>);
static_assert(!Addable<Seconds, Bytes>);
static_assert(!Addable<Seconds, double>);
static_assert(!std::is_convertible_v<double, Seconds>);
static_assert(!std::is_convertible_v<LayerId, StageId>);
static_assert(!std::is_convertible_v<int, LayerId>);

}  // namespace

TEST_CASE("arithmetic of quantities") {
  CHECK(Bytes(3) + Bytes(4) == Bytes(7));
  CHECK(Bytes(3) * 4 == Bytes(12));
  CHECK(4 * Bytes(3) - Bytes(2) == Bytes(10));
  CHECK(Bytes(9) / 2 == Bytes(4));
  CHECK(Seconds(1) / Seconds(4) == 0.25);
  CHECK(Bytes(10) / BytesPerSecond(4) == Seconds(2.5));
  CHECK(Flops(10) / FlopsPerSecond(4) == Seconds(2.5));
  CHECK(Seconds() == Seconds(0));
  CHECK(Seconds(1) < Seconds::max());
}

TEST_CASE("bytes saturate instead of wrapping around") {
  const Bytes most = Bytes::max();
  const Bytes least(std::numeric_limits<std::int64_t>::min());
  CHECK(most + Bytes(1) == most);
  CHECK(most * 2 == most);
  CHECK(most * -2 == least);
  CHECK(least - Bytes(1) == least);
  CHECK(Bytes(0) - least == most);
  CHECK(least + Bytes(-1) == least);
  CHECK(least * -1 == most);
  CHECK(most + Bytes(-1) == Bytes(INT64_MAX - 1));
}

TEST_CASE("ids count from 0; none is different from all") {
  CHECK(LayerId().is_none());
  CHECK(!LayerId(0).is_none());
  CHECK(LayerId(std::size_t{3}).index() == 3);
  CHECK(LayerId(2) < LayerId(3));
  CHECK(std::set<LayerId>{LayerId(1), LayerId(1), LayerId(2)}.size() == 2);
  CHECK(std::unordered_set<StageId>{StageId(1), StageId(1)}.size() == 1);
}

}  // namespace pipewright
