#include "pipewright/runtime/channels/rank_gate.h"

#include <algorithm>
#include <cstring>

#include "pipewright/runtime/channels/message_checksum.h"

namespace pipewright {
namespace {

constexpr int kGateTag = 0;

}  // namespace

// No worker is further ahead of another than the pipeline is deep, so with this
// much allowed nobody waits for rank 0 who would not wait for tensors.
RankGate::RankGate(MessageEngine& engine, RankNetwork& network,
                   MessageSpace& space, const Program& program, int repetitions,
                   RunHooks hooks)
    : engine_(engine),
      space_(space),
      num_workers_(program.num_workers()),
      ahead_(program.minibatches_outside),
      asked_for_(repetitions),
      hooks_(std::move(hooks)),
      rank_(network.rank()),
      leaving_(network.requests()) {}

RankGate::~RankGate() {
  try {
    engine_.wait_until([this] { return has_sent_all(); });
  } catch (const std::exception&) {  // cancelled: the network has their memory
    for (std::unique_ptr<Word>& word : sent_) abandon(std::move(word));
    abandon(std::move(leaving_));
  }
}

std::uint64_t RankGate::Word::own_checksum() const {
  MessageChecksum sum;
  sum.add(static_cast<std::uint64_t>(number));
  for (const std::int32_t sample : {first, end})
    sum.add(static_cast<std::uint64_t>(sample));
  sum.add(&mean, sizeof(mean));
  sum.add(is_last ? 1 : 0);
  return sum.value();
}

void RankGate::send(int to, const Word& word) {
  has_sent_all();
  if (unused_.empty()) unused_.push_back(std::make_unique<Word>());
  sent_.push_back(std::move(unused_.back()));
  unused_.pop_back();
  Word& sent = *sent_.back();
  sent = word;
  sent.checksum = word.own_checksum();
  space_.send_text(*leaving_, to, kGateTag, &sent, sizeof(Word));
}

bool RankGate::has_sent_all() {
  leaving_->test([this](std::size_t at) {
    unused_.push_back(std::move(sent_[at]));
    sent_[at] = std::move(sent_.back());
    sent_.pop_back();
  });
  return leaving_->empty();
}

void RankGate::hear(int from) {
  while (space_.next_text(from, kGateTag, text_)) {
    Word word;
    std::memcpy(&word, text_.data(), std::min(text_.size(), sizeof(Word)));
    if (word.checksum != word.own_checksum())
      throw CorruptedMessage("what rank " + std::to_string(from) +
                             " has told rank " + std::to_string(rank_) +
                             " about the run has arrived with other bits than "
                             "it was sent with");
    if (!leads()) {
      allowed_ = static_cast<int>(word.number);
      is_decided_ = word.is_last;
    } else if (word.is_last) {
      ++num_silent_;
    } else if (hooks_.on_loss) {
      hooks_.on_loss(word.number, word.first, word.end, word.mean);
    }
  }
}

void RankGate::hear_losses() {
  for (int from = 1; from < num_workers_; ++from) hear(from);
}

void RankGate::allow(int repetitions, bool is_last) {
  allowed_ = repetitions;
  is_decided_ = is_last;
  for (int to = 1; to < num_workers_; ++to)
    send(to, {.number = allowed_, .is_last = is_last});
}

bool RankGate::begins(int repetition) {
  if (!leads()) {
    engine_.wait_until([&] {
      if (repetition >= allowed_ && !is_decided_) hear(0);
      return repetition < allowed_ || is_decided_;
    });
    return repetition < allowed_;
  }
  hear_losses();
  if (is_decided_) return repetition < allowed_;
  if (repetition > 0 && hooks_.is_to_end && hooks_.is_to_end(allowed_)) {
    allow(allowed_, true);
    if (hooks_.on_early_end) hooks_.on_early_end(allowed_);
  } else {
    const int further = std::min(repetition + 1 + ahead_, asked_for_);
    allow(further, further == asked_for_);
  }
  return repetition < allowed_;
}

void RankGate::add_loss(std::int64_t microbatch, std::int32_t first,
                        std::int32_t end, double mean) {
  if (!leads())
    send(0, {microbatch, first, end, mean, false});
  else if (hooks_.on_loss)
    hooks_.on_loss(microbatch, first, end, mean);
}

void RankGate::finish() {
  if (!leads()) return send(0, {.is_last = true});
  engine_.wait_until([this] {
    hear_losses();
    return num_silent_ == num_workers_ - 1;
  });
}

}  // namespace pipewright
