#include "pipewright/simulate/recorder.h"

#include <algorithm>

namespace pipewright {
namespace {

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }
using Order = MemoryLog::Order;

}  // namespace

Recorder::Recorder(const TimedCode& code, bool keep_spans, bool track_memory)
    : code_(code), keep_spans_(keep_spans), track_memory_(track_memory) {
  if (keep_spans) spans_.resize(code.workers.size());
  if (track_memory) memory_.resize(code.workers.size());
}

Effect Recorder::effect_of(std::int32_t w, const Action& action) const {
  if (!is_compute(action.kind)) return {};
  const Program& program = *code_.program;
  const int operation =
      program
          .operation_of[at(w) * at(program.num_stages) + action.stage.index()];
  return program.operations[at(operation)]
      .effects[static_cast<int>(action.kind)];
}

void Recorder::start_work(std::int32_t w, const Op& op,
                          const std::int32_t* base, double start, double end) {
  for (std::int32_t i = op.target; i < op.target + op.num_actions; ++i) {
    const Action& action = code_.actions[at(i)];
    if (keep_spans_) {
      Span span;
      span.worker = WorkerId(w);
      span.kind = action.kind;
      span.stage = action.stage;
      span.microbatch = action.microbatch + base[0];
      span.version = std::max(0, action.version + base[1]);
      span.start = Seconds(start);
      span.end = Seconds(end);
      spans_[at(w)].push_back(span);
    }
    if (track_memory_)
      memory_[at(w)].change(start, Order::Own,
                            effect_of(w, action).allocates.value(), 0);
  }
}

void Recorder::end_work(std::int32_t w, const Op& op, double end) {
  if (!track_memory_) return;
  for (std::int32_t i = op.target; i < op.target + op.num_actions; ++i)
    memory_[at(w)].change(end, Order::Own,
                          -effect_of(w, code_.actions[at(i)]).frees.value(), 0);
}

void Recorder::use_up(std::int32_t w, std::int32_t transfer, double end) {
  const Transfer& what = code_.program->transfers[at(transfer)];
  if (!track_memory_ || what.is_keyed_by_version()) return;
  memory_[at(w)].change(end, Order::Own, what.retained_by_reader.value(),
                        -what.bytes.value());
}

void Recorder::send(std::int32_t w, std::int32_t transfer, double time) {
  if (!track_memory_) return;
  const std::int64_t leaving =
      code_.program->transfers[at(transfer)].freed_by_sender.value();
  memory_[at(w)].change(time, Order::Own, -leaving, leaving);
}

// Weights arrive in the place of a version that is held anyway.
void Recorder::transfer(const Message& message) {
  const Transfer& what = code_.program->transfers[at(message.transfer)];
  if (track_memory_) {
    memory_[what.from.index()].change(message.arrival, Order::Release, 0,
                                      -what.freed_by_sender.value());
    if (!what.is_keyed_by_version())
      memory_[what.to.index()].change(message.start, Order::Arrival, 0,
                                      what.bytes.value());
  }
  if (!keep_spans_) return;
  Span span;
  span.worker = what.from;
  span.kind = ActionKind::Send;
  span.transfer = TransferId(message.transfer);
  (what.is_keyed_by_version() ? span.version : span.microbatch) = message.key;
  span.start = Seconds(message.start);
  span.end = Seconds(message.arrival);
  spans_[what.from.index()].push_back(span);
}

void Recorder::reduce(std::int32_t reduction, std::int32_t minibatch,
                      double start, double end) {
  if (!keep_spans_) return;
  const Program& program = *code_.program;
  const Reduction& what = program.reductions[at(reduction)];
  for (WorkerId worker : what.workers) {
    Span span;
    span.worker = worker;
    span.kind = ActionKind::Reduce;
    span.microbatch = minibatch * program.num_microbatches;
    span.version = minibatch;
    span.start = Seconds(start);
    span.end = Seconds(end);
    for (StageId stage : what.stages)
      if (span.stage.is_none() &&
          program.operation_of[worker.index() * at(program.num_stages) +
                               stage.index()] >= 0)
        span.stage = stage;
    spans_[worker.index()].push_back(span);
  }
}

std::vector<std::vector<Span>> Recorder::spans() {
  for (auto& spans : spans_)
    std::stable_sort(
        spans.begin(), spans.end(),
        [](const Span& a, const Span& b) { return a.start < b.start; });
  return std::move(spans_);
}

}  // namespace pipewright
