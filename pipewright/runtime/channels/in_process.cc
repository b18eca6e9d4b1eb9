// Channels between threads; see in_process.h.

#include "pipewright/runtime/channels/in_process.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <list>
#include <mutex>
#include <utility>

#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/channels/room.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/channels/waiting.h"
#include "pipewright/runtime/cores.h"

namespace pipewright {
namespace {

using Values = std::vector<std::vector<at::Tensor>>;

struct Message {
  TransferId transfer;
  std::int32_t key = 0;
  Values values;
};

// What has arrived at one worker and was not taken yet: few.
struct Inbox {
  Inbox(bool spins, std::size_t num_transfers)
      : arrival(spins), removal(spins), waiting(num_transfers, 0) {}

  std::mutex mutex;
  Event arrival, removal;
  std::vector<Message> messages;
  std::vector<int> waiting;  // messages, by transfer
};

struct RunningReduction {
  std::int32_t reduction = 0, microbatch = 0;
  std::vector<WorkerContributions> parts;
  std::vector<at::Tensor> sums;  // by parameter, as they get done
  std::size_t num_begun = 0, num_done = 0;
  int handed_out = 0;
};

struct Shared {
  Shared(const Program& p, bool spins)
      : program(p),
        room(p),
        participants(participants_of(p)),
        completion(spins) {
    for (int i = 0; i < p.num_workers(); ++i)
      inboxes.emplace_back(spins, p.transfers.size());
  }

  // With the mutex held.
  RunningReduction& running(std::int32_t reduction, std::int32_t microbatch) {
    for (RunningReduction& known : reductions)
      if (known.reduction == reduction && known.microbatch == microbatch)
        return known;
    RunningReduction& made = reductions.emplace_back();
    made.reduction = reduction;
    made.microbatch = microbatch;
    return made;
  }

  const Program& program;
  Room room;
  std::deque<Inbox> inboxes;
  std::vector<Participants> participants;  // by reduction

  std::mutex mutex;  // of what follows
  Event completion;
  std::list<RunningReduction> reductions;  // few

  std::atomic<bool> cancelled = false;
};

class InProcessChannel final : public Channel {
 public:
  InProcessChannel(std::shared_ptr<Shared> shared, WorkerId worker)
      : shared_(std::move(shared)), worker_(worker) {}

  void send(TransferId transfer, std::int32_t key, Values values) override {
    const Transfer& description = shared_->program.transfers[transfer.index()];
    Inbox& inbox = shared_->inboxes[description.to.index()];
    std::unique_lock lock(inbox.mutex);
    int& waiting = inbox.waiting[transfer.index()];
    if (waiting >= Room::kLeast && !description.is_keyed_by_version())
      inbox.removal.wait(lock, [&] {
        return shared_->cancelled || waiting < shared_->room.of(transfer);
      });
    if (shared_->cancelled) throw Cancelled();
    ++waiting;
    inbox.messages.push_back({transfer, key, std::move(values)});
    inbox.arrival.happened();
  }

  // Nothing to prepare: the sender leaves its tensors in the inbox itself.
  void post(TransferId, std::int32_t) override {}

  Values take(TransferId transfer, std::int32_t key) override {
    Inbox& inbox = shared_->inboxes[worker_.index()];
    std::unique_lock lock(inbox.mutex);
    auto message = inbox.messages.end();
    inbox.arrival.wait(lock, [&] {
      message = std::find_if(inbox.messages.begin(), inbox.messages.end(),
                             [&](const Message& m) {
                               return m.transfer == transfer && m.key == key;
                             });
      return shared_->cancelled || message != inbox.messages.end();
    });
    if (shared_->cancelled) throw Cancelled();
    Values values = std::move(message->values);
    *message = std::move(inbox.messages.back());
    inbox.messages.pop_back();
    --inbox.waiting[transfer.index()];
    inbox.removal.happened();
    return values;
  }

  void contribute(std::int32_t reduction, std::int32_t microbatch,
                  std::vector<Contribution> contributions) override {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->cancelled) throw Cancelled();
    shared_->running(reduction, microbatch)
        .parts.push_back({worker_, std::move(contributions)});
    shared_->completion.happened();
  }

  // All who wait for the sums make them, parameter by parameter.
  std::vector<at::Tensor> reduced(std::int32_t reduction,
                                  std::int32_t microbatch) override {
    const auto index = static_cast<std::size_t>(reduction);
    const Reduction& description = shared_->program.reductions[index];
    const Participants& participants = shared_->participants[index];
    const std::size_t count = num_sums(description);
    std::unique_lock lock(shared_->mutex);
    RunningReduction& running = shared_->running(reduction, microbatch);
    wait(lock, [&] {
      return static_cast<int>(running.parts.size()) == participants.givers;
    });
    running.sums.resize(count);
    while (running.num_begun < count) {
      const std::size_t mine = running.num_begun++;
      lock.unlock();
      at::Tensor sum = reduction_sum(description, mine, running.parts);
      lock.lock();
      running.sums[mine] = std::move(sum);
      if (++running.num_done == count) shared_->completion.happened();
    }
    wait(lock, [&] { return running.num_done == count; });
    std::vector<at::Tensor> sums = running.sums;
    if (++running.handed_out == participants.readers)
      shared_->reductions.remove_if(
          [&](const RunningReduction& r) { return &r == &running; });
    return sums;
  }

  void cancel() override {
    // First for all: whoever one inbox wakes must not send to the next.
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
  int process() const override { return 0; }
  int num_processes() const override { return 1; }
  bool is_here(WorkerId) const override { return true; }
  std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) override {
    return in_process_channels(program);
  }
  std::vector<std::string> gathered(std::string mine) override {
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
