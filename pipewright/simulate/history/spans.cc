#include "pipewright/simulate/history/spans.h"

#include <algorithm>

#include "pipewright/simulate/history/messages_by_time.h"
#include "pipewright/simulate/history/replay.h"

namespace pipewright {
namespace {

class SpanWriter {
 public:
  SpanWriter(const TimedCode& code, const Journal& journal, WorkerId worker)
      : network_(code.network), program_(*code.program), worker_(worker) {
    std::size_t num_messages = 0;
    for (std::size_t c = 0; c < network_.channels.size(); ++c) {
      if (network_.channels[c].from != worker) continue;
      messages_.add(journal.messages[c], MessagesByTime::Event::Start);
      num_messages += journal.messages[c].size();
    }
    for (std::size_t r = 0; r < program_.reductions.size(); ++r) {
      const auto& workers = program_.reductions[r].workers;
      stages_.push_back(stage_of(program_.reductions[r]));
      if (std::find(workers.begin(), workers.end(), worker) == workers.end())
        continue;
      const std::size_t transfer = network_.first_reduction + r;
      const auto& done = journal.messages[network_.transfers[transfer].channel];
      messages_.add(done, MessagesByTime::Event::Start);
      num_messages += done.size();
    }
    messages_.sort();
    spans_.reserve(num_messages + journal.starts[worker.index()].size());
  }

  void add_work(const ReplayPoint& point, const Op& op, double start,
                double end) {
    const WorkerProgram& worker = program_.workers[worker_.index()];
    const Action* action = (point.section == kPrologue ? worker.prologue
                            : point.section == kBody   ? worker.body
                                                       : worker.epilogue)
                               .data() +
                           op.target;
    while (!messages_.empty() && messages_.front().time < start) add_message();
    for (int left = op.num_actions; left > 0; --left, ++action) {
      Span& span = spans_.emplace_back();
      span.worker = worker_;
      span.kind = action->kind;
      span.stage = action->stage;
      span.microbatch = MicrobatchId(
          point.key(action->microbatch.value, KeyBase::Microbatch));
      span.version =
          std::max(0, point.key(action->version, KeyBase::Repetition));
      span.start = Seconds(start);
      span.end = Seconds(end);
    }
  }

  std::vector<Span> end() {
    while (!messages_.empty()) add_message();
    return std::move(spans_);
  }

 private:
  // The first of its stages that the worker has.
  StageId stage_of(const Reduction& reduction) const {
    for (StageId stage : reduction.stages)
      if (program_.operation(worker_, stage) != nullptr) return stage;
    return {};
  }

  void add_message() {
    const CarriedMessage& message = *messages_.front().message;
    Span& span = spans_.emplace_back();
    span.worker = worker_;
    span.start = Seconds(message.start);
    span.end = Seconds(message.arrival);
    if (message.transfer >= network_.first_reduction) {
      span.kind = ActionKind::Reduce;
      span.stage = stages_[message.transfer - network_.first_reduction];
      span.microbatch = program_.first_microbatch(message.key);
      span.version = message.key;
    } else {
      span.kind = ActionKind::Send;
      span.transfer = TransferId(message.transfer);
      const bool is_weights =
          network_.transfers[message.transfer].base == KeyBase::Repetition;
      if (is_weights)
        span.version = message.key;
      else
        span.microbatch = MicrobatchId(message.key);
    }
    messages_.pop();
  }

  const TimedNetwork& network_;
  const Program& program_;
  const WorkerId worker_;
  MessagesByTime messages_;
  std::vector<StageId> stages_;  // per reduction
  std::vector<Span> spans_;
};

}  // namespace

std::vector<Span> spans_of(const TimedCode& code, const Journal& journal,
                           WorkerId worker) {
  SpanWriter writer(code, journal, worker);
  replay(
      code, journal, worker.index(),
      [&writer](const ReplayPoint& point, const Op& op, double start,
                double end) { writer.add_work(point, op, start, end); },
      [](const ReplayPoint&, const Op&, double) {});
  return writer.end();
}

}  // namespace pipewright
