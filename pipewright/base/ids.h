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
using ReductionId = Id<struct ReductionTag>;
using WeightGroupId = Id<struct WeightGroupTag>;
using MicrobatchId = Id<struct MicrobatchTag>;

}  // namespace pipewright

template <class Tag>
struct std::hash<pipewright::Id<Tag>> {
  std::size_t operator()(pipewright::Id<Tag> id) const noexcept {
    return std::hash<std::int32_t>()(id.value);
  }
};
