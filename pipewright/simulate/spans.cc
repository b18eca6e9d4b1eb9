#include "pipewright/simulate/spans.h"

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/simulate/message_streams.h"
#include "pipewright/simulate/replay.h"

namespace pipewright {
namespace {

class SpanWriter {
 public:
  SpanWriter(const TimedCode& code, const Journal& journal, WorkerId worker)
      : code_(code), program_(*code.program), worker_(worker) {
    std::size_t sum = 0;
    for (std::size_t c = 0; c < code.channels.size(); ++c) {
      if (code.channels[c].from != worker.value) continue;
      links_.add(journal.messages[c], MessageStreams::Moment::Start);
      sum += journal.messages[c].size();
    }
    for (std::size_t r = 0; r < program_.reductions.size(); ++r) {
      const auto& workers = program_.reductions[r].workers;
      stages_.push_back(stage_of(program_.reductions[r]));
      if (std::find(workers.begin(), workers.end(), worker) == workers.end())
        continue;
      const std::size_t transfer = at(code.first_reduction) + r;
      const auto& done = journal.messages[at(code.transfers[transfer].channel)];
      links_.add(done, MessageStreams::Moment::Start);
      sum += done.size();
    }
    links_.sort();
    spans_.reserve(sum + journal.starts[worker.index()].size());
  }

  void add_work(const Turn& turn, const Op& op, double start, double end) {
    const WorkerProgram& worker = program_.workers[worker_.index()];
    const Action* action = (turn.section == 0   ? worker.prologue
                            : turn.section == 1 ? worker.body
                                                : worker.epilogue)
                               .data() +
                           op.target;
    while (!links_.empty() && links_.front().time < start) add_link();
    for (int left = op.num_actions; left > 0; ++action) {
      if (!is_compute(action->kind) && action->kind != ActionKind::Step)
        continue;
      --left;
      Span& span = spans_.emplace_back();
      span.worker = worker_;
      span.kind = action->kind;
      span.stage = action->stage;
      span.microbatch = action->microbatch + turn.base[0];
      span.version = std::max(0, action->version + turn.base[1]);
      span.start = Seconds(start);
      span.end = Seconds(end);
    }
  }

  std::vector<Span> end() {
    while (!links_.empty()) add_link();
    return std::move(spans_);
  }

 private:
  // The first of its stages that the worker has.
  StageId stage_of(const Reduction& reduction) const {
    for (StageId stage : reduction.stages)
      if (program_.operation(worker_, stage) != nullptr) return stage;
    return {};
  }

  void add_link() {
    const Carried& message = *links_.front().message;
    Span& span = spans_.emplace_back();
    span.worker = worker_;
    span.start = Seconds(message.start);
    span.end = Seconds(message.arrival);
    if (message.transfer >= code_.first_reduction) {
      span.kind = ActionKind::Reduce;
      span.stage = stages_[at(message.transfer - code_.first_reduction)];
      span.microbatch = message.key * program_.num_microbatches;
      span.version = message.key;
    } else {
      span.kind = ActionKind::Send;
      span.transfer = TransferId(message.transfer);
      const bool is_weights =
          code_.transfers[at(message.transfer)].base == KeyBase::Repetition;
      (is_weights ? span.version : span.microbatch) = message.key;
    }
    links_.pop();
  }

  const TimedCode& code_;
  const Program& program_;
  const WorkerId worker_;
  MessageStreams links_;
  std::vector<StageId> stages_;  // per reduction
  std::vector<Span> spans_;
};

}  // namespace

std::vector<Span> spans_of(const TimedCode& code, const Journal& journal,
                           WorkerId worker) {
  SpanWriter writer(code, journal, worker);
  replay(
      code, journal, worker.index(),
      [&writer](const Turn& turn, const Op& op, double start, double end) {
        writer.add_work(turn, op, start, end);
      },
      [](const Turn&, const Op&, double) {});
  return writer.end();
}

}  // namespace pipewright
