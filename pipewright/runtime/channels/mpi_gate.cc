#include "pipewright/runtime/channels/mpi_gate.h"

#include <algorithm>
#include <string>

#include "pipewright/runtime/channels/message_checksum.h"

namespace pipewright {
namespace {

constexpr int kGateTag = 0;

}  // namespace

// No worker is further ahead of another than the pipeline is deep, so with this
// much allowed nobody waits for rank 0 who would not wait for tensors.
MpiGate::MpiGate(MpiEngine& engine, MPI_Comm comm, const Program& program,
                 int repetitions, RunHooks hooks)
    : engine_(engine),
      comm_(comm),
      num_workers_(program.num_workers()),
      ahead_(program.minibatches_outside),
      asked_for_(repetitions),
      hooks_(std::move(hooks)) {
  MPI_Comm_rank(comm, &rank_);
}

MpiGate::~MpiGate() {
  try {
    engine_.wait_until([this] { return has_sent_all(); });
  } catch (const std::exception&) {  // cancelled: MPI still has their memory
    static auto* const abandoned = new std::vector<std::deque<Sent>>;
    abandoned->push_back(std::move(sent_));
  }
}

std::uint64_t MpiGate::Word::own_checksum() const {
  MessageChecksum sum;
  sum.add(static_cast<std::uint64_t>(number));
  for (const std::int32_t sample : {first, end})
    sum.add(static_cast<std::uint64_t>(sample));
  sum.add(&mean, sizeof(mean));
  sum.add(is_last ? 1 : 0);
  return sum.value();
}

void MpiGate::send(int to, const Word& word) {
  const auto unused =
      std::find_if(sent_.begin(), sent_.end(),
                   [this](Sent& sent) { return has_left(sent); });
  Sent& sent = unused == sent_.end() ? sent_.emplace_back() : *unused;
  sent.word = word;
  sent.word.checksum = word.own_checksum();
  check_mpi(MPI_Isend(&sent.word, sizeof(Word), MPI_BYTE, to, kGateTag, comm_,
                      &sent.request),
            "MPI_Isend");
}

bool MpiGate::has_left(Sent& sent) {
  int done = 0;
  check_mpi(MPI_Test(&sent.request, &done, MPI_STATUS_IGNORE), "MPI_Test");
  return done != 0;
}

bool MpiGate::has_sent_all() {
  return std::all_of(sent_.begin(), sent_.end(),
                     [this](Sent& sent) { return has_left(sent); });
}

void MpiGate::hear(int from) {
  int is_there = 0;
  const auto probe = [&] {
    check_mpi(MPI_Iprobe(from, kGateTag, comm_, &is_there, MPI_STATUS_IGNORE),
              "MPI_Iprobe");
    return is_there != 0;
  };
  while (probe()) {
    Word word;
    check_mpi(MPI_Recv(&word, sizeof(Word), MPI_BYTE, from, kGateTag, comm_,
                       MPI_STATUS_IGNORE),
              "MPI_Recv");
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

void MpiGate::hear_losses() {
  for (int from = 1; from < num_workers_; ++from) hear(from);
}

void MpiGate::allow(int repetitions, bool is_last) {
  allowed_ = repetitions;
  is_decided_ = is_last;
  for (int to = 1; to < num_workers_; ++to)
    send(to, {.number = allowed_, .is_last = is_last});
}

bool MpiGate::begins(int repetition) {
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

void MpiGate::add_loss(std::int64_t microbatch, std::int32_t first,
                       std::int32_t end, double mean) {
  if (!leads())
    send(0, {microbatch, first, end, mean, false});
  else if (hooks_.on_loss)
    hooks_.on_loss(microbatch, first, end, mean);
}

void MpiGate::finish() {
  if (!leads()) return send(0, {.is_last = true});
  engine_.wait_until([this] {
    hear_losses();
    return num_silent_ == num_workers_ - 1;
  });
}

}  // namespace pipewright
