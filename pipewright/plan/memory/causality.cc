#include "pipewright/plan/memory/causality.h"

#include <algorithm>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"
#include "pipewright/plan/program/execution.h"

namespace pipewright {
namespace {

// How many actions of each worker are known to be done.
using VectorClock = std::vector<std::int64_t>;

void merge(VectorClock& mine, const VectorClock& other) {
  for (std::size_t w = 0; w < mine.size(); ++w)
    mine[w] = std::max(mine[w], other[w]);
}

struct SentMessage {
  MessageLife life;
  VectorClock clock;  // the sender's
};

// Messages of one pair of workers and one kind.
struct ChannelHistory {
  WorkerId from, to;
  std::vector<SentMessage> messages;  // by number
  std::vector<std::int64_t> posts;    // receiver's positions
  // Numbers that the receiver has read (the highest so far), with its position.
  std::vector<std::pair<std::size_t, std::int64_t>> reads;
  std::size_t known_reads = 0;  // of those, to the sender
  std::size_t num_known = 0;    // messages that it knows to have arrived
};

// Keeps the clocks while a program is walked.
class Causality {
 public:
  explicit Causality(const ExecutionState& state)
      : state_(state),
        program_(state.program()),
        channels_(state.messages().num_channels),
        channels_from_(program_.workers.size()),
        clocks_(program_.workers.size(),
                VectorClock(program_.workers.size(), 0)),
        contributed_(program_.reductions.size()) {
    for (std::size_t t = 0; t < program_.transfers.size(); ++t) {
      ChannelHistory& channel = channel_of(TransferId(t));
      channel.from = program_.transfers[t].from;
      channel.to = program_.transfers[t].to;
    }
    for (std::size_t c = 0; c < channels_.size(); ++c)
      channels_from_[channels_[c].from.index()].push_back(c);
  }

  // Just before the action is done.
  void visit(WorkerId worker, const Action& action) {
    bool has_learned = false;
    all_dependencies(program_, worker, action, [&](const Dependency& one) {
      learn(worker, one);
      return has_learned = true;
    });
    if (has_learned) find_arrived(worker);
    if (action.kind == ActionKind::Send) send(worker, action);
    if (action.kind == ActionKind::Receive) post(worker, action);
    if (action.kind == ActionKind::Reduce) contribute(worker, action);
    clock(worker)[worker.index()] = state_.position(worker) + 1;
  }

  std::vector<MessageLife> lives() const {
    std::vector<MessageLife> all;
    for (const ChannelHistory& channel : channels_)
      for (const SentMessage& message : channel.messages)
        all.push_back(message.life);
    return all;
  }

 private:
  VectorClock& clock(WorkerId worker) { return clocks_[worker.index()]; }
  ChannelHistory& channel_of(TransferId transfer) {
    return channels_[state_.messages().channel_of[transfer.index()]];
  }

  void learn(WorkerId worker, const Dependency& dependency) {
    if (dependency.is_message()) {
      const std::int64_t number =
          state_.messages().number(dependency.transfer, dependency.key);
      return read(worker, channel_of(dependency.transfer), number);
    }
    merge(clock(worker),
          contributed_[dependency.reduction.index()][at(dependency.key)]);
  }

  void read(WorkerId worker, ChannelHistory& channel, std::size_t number) {
    const std::int64_t position = state_.position(worker);
    SentMessage& message = channel.messages[number];
    message.life.last_read = std::max(message.life.last_read, position);
    if (channel.reads.empty() || channel.reads.back().first < number)
      channel.reads.emplace_back(number, position);
    merge(clock(worker), message.clock);
  }

  // A channel carries messages in order: one that was read tells of all before
  // it.
  void find_arrived(WorkerId worker) {
    for (const std::size_t c : channels_from_[worker.index()]) {
      ChannelHistory& channel = channels_[c];
      const std::int64_t done = clock(worker)[channel.to.index()];
      for (; channel.known_reads < channel.reads.size() &&
             channel.reads[channel.known_reads].second < done;
           ++channel.known_reads)
        for (; channel.num_known <= channel.reads[channel.known_reads].first;
             ++channel.num_known)
          channel.messages[channel.num_known].life.known_read =
              state_.position(worker);
    }
  }

  void send(WorkerId worker, const Action& action) {
    ChannelHistory& channel = channel_of(action.transfer);
    channel.messages.push_back(
        {{action.transfer, state_.position(worker), -1, 0, -1}, clock(worker)});
    set_arrival(channel, channel.messages.size() - 1);
  }

  void post(WorkerId worker, const Action& action) {
    ChannelHistory& channel = channel_of(action.transfer);
    channel.posts.push_back(state_.position(worker));
    set_arrival(channel, channel.posts.size() - 1);
  }

  // Who reads a reduction learns from all its workers.
  void contribute(WorkerId worker, const Action& action) {
    auto& of_minibatches = contributed_[action.reduction.index()];
    const std::size_t minibatch = at(program_.minibatch_of(action.microbatch));
    if (of_minibatches.size() <= minibatch)
      of_minibatches.resize(minibatch + 1,
                            VectorClock(program_.workers.size(), 0));
    merge(of_minibatches[minibatch], clock(worker));
  }

  // Once both ends are known: the later of them, as the receiver sees it.
  static void set_arrival(ChannelHistory& channel, std::size_t number) {
    if (number >= channel.messages.size() || number >= channel.posts.size())
      return;
    SentMessage& message = channel.messages[number];
    message.life.arrives_from =
        std::max(channel.posts[number], message.clock[channel.to.index()]);
  }

  const ExecutionState& state_;
  const Program& program_;
  std::vector<ChannelHistory> channels_;
  std::vector<std::vector<std::size_t>> channels_from_;  // per worker
  std::vector<VectorClock> clocks_;                      // per worker
  // Per reduction and minibatch: all that its workers knew, together.
  std::vector<std::vector<VectorClock>> contributed_;
};

}  // namespace

std::vector<MessageLife> message_lives(const Program& program,
                                       int repetitions) {
  ExecutionState state(program, repetitions,
                       matched_messages(program, repetitions));
  Causality causality(state);
  walk(state, [&](WorkerId worker, const Action& action) {
    causality.visit(worker, action);
    return true;
  });
  PIPEWRIGHT_CHECK(state.is_finished(), "the program was not validated");
  return causality.lives();
}

}  // namespace pipewright
