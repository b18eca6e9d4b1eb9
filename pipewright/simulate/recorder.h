// Writes down what the engine does: spans, and changes of memory.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/simulate/engine.h"
#include "pipewright/simulate/memory_log.h"
#include "pipewright/simulate/ordered_wires.h"
#include "pipewright/simulate/timed_code.h"
#include "pipewright/timeline/timeline.h"

namespace pipewright {

class Recorder {
 public:
  Recorder(const TimedCode& code, const EngineOptions& options);

  // An op of worker w begins: its spans, and what it allocates.
  void start_work(std::int32_t w, const Op& op, const std::int32_t* base,
                  double start, double end);
  // It was the last to read a message, which frees the buffer or keeps it.
  void use_up(std::int32_t w, std::int32_t transfer, double end);
  void end_work(std::int32_t w, const Op& op, double end);

  // What is sent turns from an activation into a buffer until it has arrived.
  void send(std::int32_t w, std::int32_t transfer, double time);
  void transfer(const Message& message);  // or a reduction

  std::vector<std::vector<Span>> spans();  // by start
  std::vector<MemoryLog> memory() { return std::move(memory_); }

 private:
  // What memory needs to know, near together.
  struct ActionMemory {
    std::int64_t allocates, frees;
  };
  struct TransferMemory {
    std::int64_t freed_by_sender, arrives, retained;
    std::int32_t from, to;
    int at_sender, at_receiver;  // streams of their logs
  };

  void reserve_spans(int repetitions);
  void add_memory_tables();
  ActionMemory memory_of(std::int32_t w, const Action& action) const;
  void add_span(const Message& message);
  void add_reduction_spans(const Message& message);
  static void merge_into(std::vector<Span>& own,
                         const std::vector<Span>& links);

  const TimedCode& code_;
  const bool keep_spans_;
  const bool track_memory_;
  std::vector<ActionMemory> action_memory_;      // as in TimedCode::actions
  std::vector<TransferMemory> transfer_memory_;  // as in Program::transfers
  std::vector<std::vector<Span>> spans_;         // of a worker's own work
  std::vector<std::vector<Span>> link_spans_;    // of what it sends and reduces
  std::vector<MemoryLog> memory_;
};

}  // namespace pipewright
