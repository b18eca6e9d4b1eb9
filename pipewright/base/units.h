// Seconds, bytes and their rates as types, so that they cannot be mixed up.

#pragma once

#include <compare>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace pipewright {

// Integers saturate instead of wrapping around: sizes come from files, and a
// sum of absurdly large ones must stay large.
template <class Number>
constexpr Number saturated_sum(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>) {
    Number sum = 0;
    if (!__builtin_add_overflow(a, b, &sum)) return sum;
    return b < 0 ? std::numeric_limits<Number>::min()
                 : std::numeric_limits<Number>::max();
  } else {
    return a + b;
  }
}
template <class Number>
constexpr Number saturated_difference(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>) {
    Number difference = 0;
    if (!__builtin_sub_overflow(a, b, &difference)) return difference;
    return b < 0 ? std::numeric_limits<Number>::max()
                 : std::numeric_limits<Number>::min();
  } else {
    return a - b;
  }
}
template <class Number>
constexpr Number saturated_product(Number a, Number b) {
  if constexpr (std::is_integral_v<Number>) {
    Number product = 0;
    if (!__builtin_mul_overflow(a, b, &product)) return product;
    return (a < 0) != (b < 0) ? std::numeric_limits<Number>::min()
                              : std::numeric_limits<Number>::max();
  } else {
    return a * b;
  }
}

template <class Tag, class Number>
class Quantity {
 public:
  constexpr Quantity() = default;
  explicit constexpr Quantity(Number value) : value_(value) {}

  constexpr Number value() const { return value_; }
  static constexpr Quantity max() {
    return Quantity(std::numeric_limits<Number>::max());
  }

  auto operator<=>(const Quantity&) const = default;

  constexpr Quantity& operator+=(Quantity other) {
    value_ = saturated_sum(value_, other.value_);
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    value_ = saturated_difference(value_, other.value_);
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return a += b; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return a -= b; }
  friend constexpr Quantity operator*(Quantity a, Number n) {
    return Quantity(saturated_product(a.value_, n));
  }
  friend constexpr Quantity operator*(Number n, Quantity a) { return a * n; }
  friend constexpr Quantity operator/(Quantity a, Number n) {
    return Quantity(a.value_ / n);
  }
  // The ratio of two quantities of one kind is a plain number.
  friend constexpr double operator/(Quantity a, Quantity b) {
    return static_cast<double>(a.value_) / static_cast<double>(b.value_);
  }

 private:
  Number value_ = 0;
};

using Seconds = Quantity<struct SecondsTag, double>;
using Bytes = Quantity<struct BytesTag, std::int64_t>;
using Flops = Quantity<struct FlopsTag, double>;
using BytesPerSecond = Quantity<struct BytesPerSecondTag, double>;
using FlopsPerSecond = Quantity<struct FlopsPerSecondTag, double>;

constexpr Seconds operator/(Bytes bytes, BytesPerSecond rate) {
  return Seconds(static_cast<double>(bytes.value()) / rate.value());
}
constexpr Seconds operator/(Flops flops, FlopsPerSecond rate) {
  return Seconds(flops.value() / rate.value());
}

}  // namespace pipewright
