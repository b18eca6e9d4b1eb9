// Result<T>: a value, or the Error that explains why there is none.
//
//   Result<Plan> plan = read_plan(path);
//   if (!plan) return plan.error();
//   use(*plan);
//
// or, inside a function that itself returns a Result:
//
//   PIPEWRIGHT_TRY(Plan plan, read_plan(path));

#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "pipewright/base/check.h"
#include "pipewright/base/error.h"

namespace pipewright {

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& value() & { return checked(), std::get<0>(state_); }
  const T& value() const& { return checked(), std::get<0>(state_); }
  T&& value() && { return checked(), std::get<0>(std::move(state_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const {
    PIPEWRIGHT_CHECK(!ok(), "error() of a result that has a value");
    return std::get<1>(state_);
  }

 private:
  void checked() const {
    if (!ok()) [[unlikely]]
      PIPEWRIGHT_CHECK(false,
                       "value() of an error: " + std::get<1>(state_).to_text());
  }

  std::variant<T, Error> state_;
};

// The result of an action without a value: done, or the error.
template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit

  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const {
    PIPEWRIGHT_CHECK(!ok(), "error() of a result that has a value");
    return *error_;
  }

 private:
  std::optional<Error> error_;
};

}  // namespace pipewright

#define PIPEWRIGHT_JOIN_(a, b) a##b
#define PIPEWRIGHT_JOIN(a, b) PIPEWRIGHT_JOIN_(a, b)
#define PIPEWRIGHT_TRY_(name, declaration, ...)   \
  auto name = (__VA_ARGS__);                      \
  if (!name.ok()) return std::move(name).error(); \
  declaration = *std::move(name)
// Initialises `declaration` with the value, or returns the error.
#define PIPEWRIGHT_TRY(declaration, ...)                                   \
  PIPEWRIGHT_TRY_(PIPEWRIGHT_JOIN(pipewright_try_, __LINE__), declaration, \
                  __VA_ARGS__)
