// Compute actions and their order on each worker, as plain data: what a
// Schedule is made of, before anybody has checked it. schedule.h says how to
// read sections and the text form.

#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"

namespace pipewright {

// What a worker computes in one action, and its letter in the text form.
enum class ComputeKind : std::uint8_t {
  Forward,         // F
  Backward,        // B: input and weight gradients together
  BackwardInput,   // I: the half the previous stage waits for
  BackwardWeight,  // W: the half that may be put off to fill a bubble
  Recompute,       // R: the forward once more, for what backward keeps
};
char letter(ComputeKind kind);

// Whether it passes gradients on.
constexpr bool starts_backward(ComputeKind kind) {
  return kind == ComputeKind::Backward || kind == ComputeKind::BackwardInput;
}

struct ComputeAction {
  StageId stage;
  MicrobatchId microbatch = MicrobatchId(0);  // from the section's base
  ComputeKind kind = ComputeKind::Forward;
  bool joined = false;  // shares the worker's time with the next action

  auto operator<=>(const ComputeAction&) const = default;
};

// "1F0"; the form that people write and the text form reads.
std::string to_text(const ComputeAction& action);

using Orders = std::vector<std::vector<ComputeAction>>;  // one per worker

struct ScheduleSections {
  Orders prologue;  // empty, or one order per worker
  Orders body;
  Orders epilogue;  // empty, or one order per worker
  // Minibatches that prologue and epilogue complete together.
  int minibatches_outside = 0;

  bool operator==(const ScheduleSections&) const = default;
};

// The actions of a run with that many repetitions of the body, with
// microbatches counted from the start of the run (-1 where there are too many).
Orders unrolled(const ScheduleSections& sections, int num_microbatches,
                int repetitions);

}  // namespace pipewright
