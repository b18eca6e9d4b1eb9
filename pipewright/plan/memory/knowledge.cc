#include "pipewright/plan/memory/knowledge.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/action_cursor.h"

namespace pipewright {
namespace {

// How many actions of each worker are known to be done.
using Known = std::vector<std::int64_t>;

void learn(Known& mine, const Known& told) {
  for (std::size_t w = 0; w < mine.size(); ++w)
    mine[w] = std::max(mine[w], told[w]);
}

struct OnTheWay {
  MessageLife life;
  Known told;
};

struct Carried {
  WorkerId from, to;
  std::vector<OnTheWay> messages;   // by number
  std::vector<std::int64_t> posts;  // receiver's positions
  // Numbers that the receiver has read (the highest so far), with its position.
  std::vector<std::pair<std::int64_t, std::int64_t>> reads;
  std::size_t known_reads = 0;  // of those, to the sender
  std::int64_t known = 0;       // messages that it knows to have arrived
};

class Learning {
 public:
  Learning(const Program& program, int repetitions)
      : program_(program),
        minibatches_(program.minibatches_outside + repetitions) {
    const auto fault = match_messages(program, repetitions, messages_);
    PIPEWRIGHT_CHECK(!fault, "the program was not validated");
    channels_.resize(static_cast<std::size_t>(messages_.num_channels));
    for (std::size_t t = 0; t < program.transfers.size(); ++t) {
      Carried& channel = channel_of(TransferId(t));
      channel.from = program.transfers[t].from;
      channel.to = program.transfers[t].to;
    }
    channels_from_.resize(program.workers.size());
    for (std::size_t c = 0; c < channels_.size(); ++c)
      channels_from_[channels_[c].from.index()].push_back(c);
    for (std::size_t w = 0; w < program.workers.size(); ++w) {
      cursors_.emplace_back(program, WorkerId(w), repetitions);
      known_.emplace_back(program.workers.size(), 0);
    }
    for (const Reduction& reduction : program.reductions)
      reductions_.emplace_back(reduction.workers.size());
  }

  std::vector<MessageLife> lives() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < cursors_.size(); ++w)
        moved = advance(w) || moved;
    }
    std::vector<MessageLife> all;
    for (const ActionCursor& cursor : cursors_)
      PIPEWRIGHT_CHECK(cursor.at_end(), "the program was not validated");
    for (const Carried& channel : channels_)
      for (const OnTheWay& message : channel.messages)
        all.push_back(message.life);
    return all;
  }

 private:
  Carried& channel_of(TransferId transfer) {
    return channels_[static_cast<std::size_t>(
        messages_.channel_of[transfer.index()])];
  }

  bool advance(std::size_t w) {
    const std::int64_t before = cursors_[w].position();
    for (ActionCursor& at = cursors_[w]; !at.at_end(); at.advance()) {
      const Action action = at.action();
      if (is_compute(action.kind) || action.kind == ActionKind::Step) {
        if (!can_read(action)) break;
        if (action.joined) {  // both start together
          ActionCursor next = at;
          next.advance();
          if (!can_read(next.action())) break;
        }
        read(w, action);
      } else {
        pass_on(w, action);
      }
      known_[w][w] = at.position() + 1;
    }
    return cursors_[w].position() != before;
  }

  // Calls visit(channel, number) for each message that the action reads.
  template <typename Visit>
  bool all_messages(const Action& action, Visit visit) {
    const ReadSet& set = program_.reads(action);
    for (TransferId id : set.transfers) {
      const Transfer& transfer = program_.transfers[id.index()];
      std::int32_t key = key_read(transfer, set, action);
      if (transfer.is_keyed_by_version()) {
        if (key <= 0) continue;
        key = std::min(key, minibatches_);
      }
      if (!visit(channel_of(id), messages_.number(id, key))) return false;
    }
    return true;
  }

  bool can_read(const Action& action) {
    const auto is_there = [](const Carried& channel, std::int64_t number) {
      return channel.messages.size() > static_cast<std::size_t>(number) &&
             channel.posts.size() > static_cast<std::size_t>(number);
    };
    if (!all_messages(action, is_there)) return false;
    const ReadSet& set = program_.reads(action);
    const int minibatch = action.microbatch / program_.num_microbatches;
    for (ReductionId r : set.reductions)
      for (const auto& parts : reductions_[r.index()])
        if (static_cast<int>(parts.size()) <= minibatch) return false;
    return true;
  }

  void read(std::size_t w, const Action& action) {
    const std::int64_t position = cursors_[w].position();
    all_messages(action, [&](Carried& channel, std::int64_t number) {
      OnTheWay& message = channel.messages[static_cast<std::size_t>(number)];
      message.life.last_read = std::max(message.life.last_read, position);
      if (channel.reads.empty() || channel.reads.back().first < number)
        channel.reads.emplace_back(number, position);
      learn(known_[w], message.told);
      return true;
    });
    const ReadSet& set = program_.reads(action);
    const auto minibatch =
        static_cast<std::size_t>(action.microbatch / program_.num_microbatches);
    for (ReductionId r : set.reductions)
      for (const auto& parts : reductions_[r.index()])
        learn(known_[w], parts[minibatch]);
    find_arrived(w, position);
  }

  // Channels carry messages in order: one that was read tells of all before.
  void find_arrived(std::size_t w, std::int64_t position) {
    for (std::size_t c : channels_from_[w]) {
      Carried& channel = channels_[c];
      const std::int64_t done = known_[w][channel.to.index()];
      for (; channel.known_reads < channel.reads.size() &&
             channel.reads[channel.known_reads].second < done;
           ++channel.known_reads)
        for (; channel.known <= channel.reads[channel.known_reads].first;
             ++channel.known)
          channel.messages[static_cast<std::size_t>(channel.known)]
              .life.known_read = position;
    }
  }

  void pass_on(std::size_t w, const Action& action) {
    const std::int64_t position = cursors_[w].position();
    if (action.kind == ActionKind::Reduce) {
      const std::size_t r = action.reduction.index();
      const auto& workers = program_.reductions[r].workers;
      const auto place = std::find(workers.begin(), workers.end(), WorkerId(w));
      reductions_[r][static_cast<std::size_t>(place - workers.begin())]
          .push_back(known_[w]);
      return;
    }
    Carried& channel = channel_of(action.transfer);
    if (action.kind == ActionKind::Receive) {
      channel.posts.push_back(position);
      set_arrival(channel, channel.posts.size() - 1);
    } else {
      channel.messages.push_back(
          {{action.transfer, position, -1, 0, -1}, known_[w]});
      set_arrival(channel, channel.messages.size() - 1);
    }
  }

  // Once both ends are known: the later of them, as the receiver sees it.
  static void set_arrival(Carried& channel, std::size_t number) {
    if (number >= channel.messages.size() || number >= channel.posts.size())
      return;
    OnTheWay& message = channel.messages[number];
    message.life.arrives_from =
        std::max(channel.posts[number], message.told[channel.to.index()]);
  }

  const Program& program_;
  const std::int32_t minibatches_;
  Messages messages_;
  std::vector<Carried> channels_;
  std::vector<std::vector<std::size_t>> channels_from_;  // per worker
  std::vector<ActionCursor> cursors_;
  std::vector<Known> known_;  // to each worker
  // Per reduction, worker and minibatch: what that worker knew.
  std::vector<std::vector<std::vector<Known>>> reductions_;
};

}  // namespace

std::vector<MessageLife> message_lives(const Program& program,
                                       int repetitions) {
  return Learning(program, repetitions).lives();
}

}  // namespace pipewright
