// Channels between threads; see in_process.h.

#include "pipewright/runtime/channels/in_process.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>

#include "pipewright/plan/program/send_capacity.h"
#include "pipewright/runtime/channels/event.h"
#include "pipewright/runtime/channels/minibatch_slots.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/execution/cores.h"

namespace pipewright {
namespace {

// The messages of one transfer that were sent and not taken yet: few. Each list
// of tensors stays in its slot, and only tensors move in and out.
class SentMessages {
 public:
  SentMessages(const Transfer& transfer, int num_expected)
      : messages_(num_expected) {
    for (Message& message : messages_)
      message.values.reserve(transfer.values.size());
  }

  int size() const { return static_cast<int>(num_used_); }
  void add(std::int32_t key, Values& values) {
    if (num_used_ == messages_.size()) messages_.emplace_back();
    Message& message = messages_[num_used_++];
    message.key = key;
    move_tensors(values, message.values);
  }
  // False if the message is not there.
  bool take(std::int32_t key, Values& values) {
    const auto end = messages_.begin() + num_used_;
    const auto found = std::find_if(
        messages_.begin(), end, [&](const Message& m) { return m.key == key; });
    if (found == end) return false;
    move_tensors(found->values, values);
    std::swap(*found, messages_[--num_used_]);
    return true;
  }

 private:
  struct Message {
    std::int32_t key = 0;
    Values values;
  };
  static void move_tensors(Values& from, Values& to) {
    to.resize(from.size());
    std::move(from.begin(), from.end(), to.begin());
  }

  std::vector<Message> messages_;  // the first ones are in use
  std::size_t num_used_ = 0;
};

struct Inbox {
  explicit Inbox(bool polls) : arrival(polls), removal(polls) {}

  std::mutex mutex;  // of the messages to this worker
  Event arrival, removal;
};

// A reduction of one minibatch.
struct RunningReduction {
  MicrobatchId microbatch;
  std::vector<WorkerContributions> parts;  // by place of the worker
  int num_contributed = 0;
  Tensors sums;  // by parameter, as they get done
  std::size_t num_begun = 0, num_done = 0;
  int num_read = 0;

  // Once all is added up: a worker that steps first begins the gradients of
  // its next minibatch while others have not read these sums.
  void drop_contributions() {
    for (WorkerContributions& part : parts) part.contributions.clear();
  }
  // Keeps its lists.
  void end() {
    microbatch = MicrobatchId();
    sums.clear();
    num_begun = num_done = 0;
    num_contributed = num_read = 0;
  }
};

// What the channels of all workers share.
struct Shared {
  Shared(const Program& p, bool polls)
      : program(p),
        capacity(p),
        participants(participants_of(p)),
        completion(polls),
        reductions(p.reductions.size()) {
    for (int i = 0; i < p.num_workers(); ++i) inboxes.emplace_back(polls);
    for (const Transfer& transfer : p.transfers)
      sent.emplace_back(transfer, SendCapacity::expected(p));
  }

  const Program& program;
  SendCapacity capacity;
  std::deque<Inbox> inboxes;
  std::vector<SentMessages> sent;          // by transfer
  std::vector<Participants> participants;  // by reduction

  std::mutex mutex;  // of what follows
  Event completion;
  std::vector<MinibatchSlots<RunningReduction>> reductions;

  std::atomic<bool> cancelled = false;
};

class InProcessChannel final : public Channel {
 public:
  InProcessChannel(std::shared_ptr<Shared> shared, WorkerId worker)
      : shared_(std::move(shared)), worker_(worker) {}

  void send(TransferId transfer, std::int32_t key, Values&& values) override {
    const Transfer& description = shared_->program.transfers[transfer.index()];
    Inbox& inbox = shared_->inboxes[description.to.index()];
    SentMessages& sent = shared_->sent[transfer.index()];
    std::unique_lock lock(inbox.mutex);
    if (sent.size() >= SendCapacity::kMinimum &&
        !description.is_keyed_by_version())
      inbox.removal.wait(lock, [&] {
        return shared_->cancelled ||
               sent.size() < shared_->capacity.of(transfer);
      });
    if (shared_->cancelled) throw Cancelled();
    sent.add(key, values);
    inbox.arrival.happened();
  }

  // The sender puts its tensors into the inbox, posted or not.
  void post(TransferId, std::int32_t) override {}

  void take(TransferId transfer, std::int32_t key, Values& values) override {
    Inbox& inbox = shared_->inboxes[worker_.index()];
    SentMessages& sent = shared_->sent[transfer.index()];
    std::unique_lock lock(inbox.mutex);
    inbox.arrival.wait(
        lock, [&] { return shared_->cancelled || sent.take(key, values); });
    if (shared_->cancelled) throw Cancelled();
    inbox.removal.happened();
  }

  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions) override {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->cancelled) throw Cancelled();
    RunningReduction& to = running(reduction, microbatch);
    to.parts.resize(description(reduction).workers.size());
    WorkerContributions& part =
        to.parts[place_of(worker_, description(reduction))];
    part.worker = worker_;
    part.contributions.assign(std::make_move_iterator(contributions.begin()),
                              std::make_move_iterator(contributions.end()));
    ++to.num_contributed;
    shared_->completion.happened();
  }

  // Everyone who waits for the sums adds up some of them, parameter by
  // parameter.
  void reduced(ReductionId reduction, MicrobatchId microbatch,
               Tensors& sums) override {
    const Participants& participants = shared_->participants[reduction.index()];
    const std::size_t count = num_sums(description(reduction));
    std::unique_lock lock(shared_->mutex);
    RunningReduction& from = running(reduction, microbatch);
    wait(lock, [&] {
      return from.num_contributed == participants.num_contributors();
    });
    from.sums.resize(count);
    while (from.num_begun < count) {
      const std::size_t mine = from.num_begun++;
      lock.unlock();
      at::Tensor sum = reduction_sum(description(reduction), mine, from.parts);
      lock.lock();
      from.sums[mine] = std::move(sum);
      if (++from.num_done < count) continue;
      from.drop_contributions();
      shared_->completion.happened();
    }
    wait(lock, [&] { return from.num_done == count; });
    sums = from.sums;
    if (++from.num_read == participants.num_readers()) from.end();
  }

  void cancel() override {
    // Set before any wake-up: a worker woken by one inbox must not send to the
    // next.
    shared_->cancelled = true;
    for (Inbox& inbox : shared_->inboxes) {
      const std::lock_guard lock(inbox.mutex);
      inbox.arrival.happened();
      inbox.removal.happened();
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->completion.happened();
  }

 private:
  const Reduction& description(ReductionId reduction) const {
    return shared_->program.reduction(reduction);
  }
  // With the mutex held.
  RunningReduction& running(ReductionId reduction, MicrobatchId microbatch) {
    return shared_->reductions[reduction.index()].of(
        microbatch, shared_->program.num_microbatches);
  }
  template <typename Condition>
  void wait(std::unique_lock<std::mutex>& lock, Condition is_met) {
    shared_->completion.wait(lock,
                             [&] { return shared_->cancelled || is_met(); });
    if (shared_->cancelled) throw Cancelled();
  }

  std::shared_ptr<Shared> shared_;
  WorkerId worker_;
};

class InProcessTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int num_ranks() const override { return 1; }
  bool is_here(WorkerId) const override { return true; }
  std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) override {
    return in_process_channels(program);
  }
  std::vector<std::string> gather(std::string mine) override {
    return {std::move(mine)};
  }
  std::string broadcast(std::string leaders) override { return leaders; }
};

}  // namespace

std::unique_ptr<Transport> in_process_transport() {
  return std::make_unique<InProcessTransport>();
}

std::vector<std::unique_ptr<Channel>> in_process_channels(
    const Program& program) {
  const auto shared = std::make_shared<Shared>(
      program, program.num_workers() <= num_usable_cores());
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < program.num_workers(); ++i)
    channels.push_back(std::make_unique<InProcessChannel>(shared, WorkerId(i)));
  return channels;
}

}  // namespace pipewright
