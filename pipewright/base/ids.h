// Indices as types: a LayerId cannot be passed where a StageId is meant.
// Each counts from 0; -1 is "none".

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>

namespace pipewright {

template <class Tag>
struct Id {
  std::int32_t value = -1;

  constexpr Id() = default;
  explicit constexpr Id(std::int32_t v) : value(v) {}
  explicit constexpr Id(std::size_t v) : value(static_cast<std::int32_t>(v)) {}

  // For indexing a vector that has one element per id.
  constexpr std::size_t index() const {
    return static_cast<std::size_t>(value);
  }
  constexpr bool is_none() const { return value < 0; }
  auto operator<=>(const Id&) const = default;
};

using LayerId = Id<struct LayerTag>;
using ParameterId = Id<struct ParameterTag>;
using StageId = Id<struct StageTag>;
using DeviceId = Id<struct DeviceTag>;
using WorkerId = Id<struct WorkerTag>;
using LinkId = Id<struct LinkTag>;
using TransferId = Id<struct TransferTag>;
using ReadSetId = Id<struct ReadSetTag>;
using LifeSetId = Id<struct LifeSetTag>;
using OperationId = Id<struct OperationTag>;
using ReductionId = Id<struct ReductionTag>;
using WeightGroupId = Id<struct WeightGroupTag>;
using MicrobatchId = Id<struct MicrobatchTag>;

// The microbatches of a run are numbered one after the other. Within a
// repetition they count from its first: one of an earlier repetition is
// negative there, and -1 is a microbatch like any other. (Those counted from
// the start of training, over all runs, may be too many for an id: they are
// std::int64_t.)
constexpr MicrobatchId operator+(MicrobatchId first, std::int32_t count) {
  return MicrobatchId(first.value + count);
}
constexpr MicrobatchId operator-(MicrobatchId last, std::int32_t count) {
  return MicrobatchId(last.value - count);
}
constexpr MicrobatchId& operator+=(MicrobatchId& id, std::int32_t count) {
  return id = id + count;
}
constexpr MicrobatchId& operator-=(MicrobatchId& id, std::int32_t count) {
  return id = id - count;
}
constexpr MicrobatchId& operator++(MicrobatchId& id) { return id += 1; }

}  // namespace pipewright

template <class Tag>
struct std::hash<pipewright::Id<Tag>> {
  std::size_t operator()(pipewright::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>()(id.value);
  }
};
