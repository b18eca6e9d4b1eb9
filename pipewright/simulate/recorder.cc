#include "pipewright/simulate/recorder.h"

#include <algorithm>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

using Order = MemoryLog::Order;
constexpr int kOwnStream = 0;

}  // namespace

Recorder::Recorder(const TimedCode& code, const EngineOptions& options)
    : code_(code),
      keep_spans_(options.keep_spans),
      track_memory_(options.track_memory) {
  if (keep_spans_) reserve_spans(options.repetitions);
  if (track_memory_) add_memory_tables();
}

// Growing step by step would copy them all once or twice.
void Recorder::reserve_spans(int repetitions) {
  spans_.resize(code_.program->workers.size());
  link_spans_.resize(spans_.size());
  for (std::size_t w = 0; w < spans_.size(); ++w) {
    const TimedWorker& worker = code_.workers[w];
    std::size_t work = 0, links = 0;
    for (int s = 0; s < 3; ++s) {
      const std::size_t times =
          s == 1 ? static_cast<std::size_t>(std::max(0, repetitions)) : 1;
      for (std::int32_t i = worker.begin[s]; i < worker.begin[s + 1]; ++i) {
        const Op& op = code_.ops[at(i)];
        if (op.code == OpCode::Work) work += times * at(op.num_actions);
        if (op.code == OpCode::Send || op.code == OpCode::Reduce)
          links += times;
      }
    }
    spans_[w].reserve(work + links);
    link_spans_[w].reserve(links);
  }
}

// Weights arrive in the place of a version that is held anyway.
void Recorder::add_memory_tables() {
  memory_.resize(code_.program->workers.size());
  for (MemoryLog& log : memory_) log.add_stream(Order::Own);
  action_memory_.resize(code_.actions.size());
  for (std::size_t w = 0; w < memory_.size(); ++w)
    for (std::int32_t i = code_.workers[w].begin[0];
         i < code_.workers[w].begin[3]; ++i) {
      const Op& op = code_.ops[at(i)];
      if (op.code != OpCode::Work) continue;
      for (std::int32_t a = op.target; a < op.target + op.num_actions; ++a)
        action_memory_[at(a)] =
            memory_of(static_cast<std::int32_t>(w), code_.actions[at(a)]);
    }
  std::vector<int> at_sender, at_receiver;
  for (const TimedChannel& channel : code_.channels) {
    if (channel.is_of_reduction()) continue;  // they come last
    at_sender.push_back(memory_[at(channel.from)].add_stream(Order::Release));
    at_receiver.push_back(memory_[at(channel.to)].add_stream(Order::Arrival));
  }
  for (std::size_t t = 0; t < code_.program->transfers.size(); ++t) {
    const Transfer& what = code_.program->transfers[t];
    const std::size_t channel = at(code_.transfers[t].channel);
    const bool is_weights = what.is_keyed_by_version();
    transfer_memory_.push_back(
        {what.freed_by_sender.value(), is_weights ? 0 : what.bytes.value(),
         is_weights ? 0 : what.retained_by_reader.value(), what.from.value,
         what.to.value, at_sender[channel], at_receiver[channel]});
  }
}

Recorder::ActionMemory Recorder::memory_of(std::int32_t w,
                                           const Action& action) const {
  if (!is_compute(action.kind)) return {0, 0};
  const Program& program = *code_.program;
  const int operation =
      program
          .operation_of[at(w) * at(program.num_stages) + action.stage.index()];
  const Effect& effect =
      program.operations[at(operation)].effects[static_cast<int>(action.kind)];
  return {effect.allocates.value(), effect.frees.value()};
}

void Recorder::start_work(std::int32_t w, const Op& op,
                          const std::int32_t* base, double start, double end) {
  for (std::int32_t i = op.target; i < op.target + op.num_actions; ++i) {
    if (keep_spans_) {
      const Action& action = code_.actions[at(i)];
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
      memory_[at(w)].change(kOwnStream, start, action_memory_[at(i)].allocates,
                            0);
  }
}

void Recorder::end_work(std::int32_t w, const Op& op, double end) {
  if (!track_memory_) return;
  for (std::int32_t i = op.target; i < op.target + op.num_actions; ++i)
    memory_[at(w)].change(kOwnStream, end, -action_memory_[at(i)].frees, 0);
}

void Recorder::use_up(std::int32_t w, std::int32_t transfer, double end) {
  if (!track_memory_) return;
  const TransferMemory& what = transfer_memory_[at(transfer)];
  memory_[at(w)].change(kOwnStream, end, what.retained, -what.arrives);
}

void Recorder::send(std::int32_t w, std::int32_t transfer, double time) {
  if (!track_memory_) return;
  const std::int64_t leaving = transfer_memory_[at(transfer)].freed_by_sender;
  memory_[at(w)].change(kOwnStream, time, -leaving, leaving);
}

void Recorder::transfer(const Message& message) {
  if (message.transfer >= code_.first_reduction)
    return add_reduction_spans(message);
  if (track_memory_) {
    const TransferMemory& what = transfer_memory_[at(message.transfer)];
    memory_[at(what.from)].change(what.at_sender, message.arrival, 0,
                                  -what.freed_by_sender);
    memory_[at(what.to)].change(what.at_receiver, message.start, 0,
                                what.arrives);
  }
  if (keep_spans_) add_span(message);
}

void Recorder::add_span(const Message& message) {
  const Transfer& what = code_.program->transfers[at(message.transfer)];
  Span span;
  span.worker = what.from;
  span.kind = ActionKind::Send;
  span.transfer = TransferId(message.transfer);
  (what.is_keyed_by_version() ? span.version : span.microbatch) = message.key;
  span.start = Seconds(message.start);
  span.end = Seconds(message.arrival);
  link_spans_[what.from.index()].push_back(span);
}

void Recorder::add_reduction_spans(const Message& message) {
  const Program& program = *code_.program;
  const std::size_t number = at(message.transfer - code_.first_reduction);
  if (!keep_spans_ || number >= program.reductions.size()) return;
  const Reduction& what = program.reductions[number];
  for (WorkerId worker : what.workers) {
    Span span;
    span.worker = worker;
    span.kind = ActionKind::Reduce;
    span.microbatch = message.key * program.num_microbatches;
    span.version = message.key;
    span.start = Seconds(message.start);
    span.end = Seconds(message.arrival);
    for (StageId stage : what.stages)
      if (span.stage.is_none() &&
          program.operation_of[worker.index() * at(program.num_stages) +
                               stage.index()] >= 0)
        span.stage = stage;
    link_spans_[worker.index()].push_back(span);
  }
}

// From the back, into the room that was reserved; of those that start together
// the own come first.
void Recorder::merge_into(std::vector<Span>& own,
                          const std::vector<Span>& links) {
  std::size_t from = own.size(), left = links.size();
  std::size_t to = from + left;
  own.resize(to);
  while (left > 0)
    own[--to] = from > 0 && links[left - 1].start < own[from - 1].start
                    ? own[--from]
                    : links[--left];
}

// A worker's own follow each other in time; those of its links almost do.
std::vector<std::vector<Span>> Recorder::spans() {
  const auto is_earlier = [](const Span& a, const Span& b) {
    return a.start < b.start;
  };
  for (std::size_t w = 0; w < spans_.size(); ++w) {
    auto &own = spans_[w], &links = link_spans_[w];
    if (!std::is_sorted(links.begin(), links.end(), is_earlier))
      std::stable_sort(links.begin(), links.end(), is_earlier);
    merge_into(own, links);
    links = {};
  }
  return std::move(spans_);
}

}  // namespace pipewright
