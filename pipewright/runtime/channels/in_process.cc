// Channels between threads; see in_process.h.
//
// How many messages wait in an inbox is bounded by the program: a worker that
// runs ahead comes to an action that reads what its receiver has yet to send.

#include "pipewright/runtime/channels/in_process.h"

#include <condition_variable>
#include <map>
#include <mutex>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/runtime/channels/reduction.h"

namespace pipewright {
namespace {

using Key = std::pair<std::int32_t, std::int32_t>;  // index, microbatch
using Values = std::vector<std::vector<at::Tensor>>;

// What has arrived at one worker and was not taken yet.
struct Inbox {
  std::mutex mutex;
  std::condition_variable arrival;
  std::map<Key, Values> messages;
  bool cancelled = false;
};

struct RunningReduction {
  std::vector<WorkerContributions> parts;
  int handed_in = 0, handed_out = 0;
  std::vector<at::Tensor> sums;
};

struct Shared {
  explicit Shared(const Program& p)
      : program(p),
        inboxes(static_cast<std::size_t>(p.num_workers())),
        participants(participants_of(p)) {}

  const Program& program;
  std::vector<Inbox> inboxes;
  std::vector<Participants> participants;  // by reduction

  std::mutex mutex;  // of what follows
  std::condition_variable completion;
  std::map<Key, RunningReduction> reductions;
  bool cancelled = false;
};

class InProcessChannel final : public Channel {
 public:
  InProcessChannel(std::shared_ptr<Shared> shared, WorkerId worker)
      : shared_(std::move(shared)), worker_(worker) {}

  void send(TransferId transfer, std::int32_t key, Values values) override {
    const Transfer& description = shared_->program.transfers[transfer.index()];
    Inbox& inbox = shared_->inboxes[description.to.index()];
    {
      const std::lock_guard lock(inbox.mutex);
      if (inbox.cancelled) throw Cancelled();
      inbox.messages.emplace(Key(transfer.value, key), std::move(values));
    }
    inbox.arrival.notify_one();
  }

  // Nothing to prepare: the sender leaves its tensors in the inbox itself.
  void post(TransferId, std::int32_t) override {}

  Values take(TransferId transfer, std::int32_t key) override {
    Inbox& inbox = shared_->inboxes[worker_.index()];
    std::unique_lock lock(inbox.mutex);
    auto message = inbox.messages.end();
    inbox.arrival.wait(lock, [&] {
      message = inbox.messages.find(Key(transfer.value, key));
      return inbox.cancelled || message != inbox.messages.end();
    });
    if (inbox.cancelled) throw Cancelled();
    return std::move(inbox.messages.extract(message).mapped());
  }

  // Who hands in the last part adds up.
  void contribute(std::int32_t reduction, std::int32_t microbatch,
                  std::vector<Contribution> contributions) override {
    const auto index = static_cast<std::size_t>(reduction);
    const std::lock_guard lock(shared_->mutex);
    RunningReduction& running = shared_->reductions[Key(reduction, microbatch)];
    running.parts.push_back({worker_, std::move(contributions)});
    if (++running.handed_in < shared_->participants[index].givers) return;
    running.sums =
        reduction_sums(shared_->program.reductions[index], running.parts);
    running.parts.clear();
    shared_->completion.notify_all();
  }

  std::vector<at::Tensor> reduced(std::int32_t reduction,
                                  std::int32_t microbatch) override {
    const Key key(reduction, microbatch);
    std::unique_lock lock(shared_->mutex);
    shared_->completion.wait(lock, [&] {
      return shared_->cancelled || !shared_->reductions[key].sums.empty();
    });
    if (shared_->cancelled) throw Cancelled();
    RunningReduction& running = shared_->reductions[key];
    std::vector<at::Tensor> sums = running.sums;
    const auto index = static_cast<std::size_t>(reduction);
    if (++running.handed_out == shared_->participants[index].readers)
      shared_->reductions.erase(key);
    return sums;
  }

  void cancel() override {
    for (Inbox& inbox : shared_->inboxes) {
      const std::lock_guard lock(inbox.mutex);
      inbox.cancelled = true;
      inbox.arrival.notify_all();
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->cancelled = true;
    shared_->completion.notify_all();
  }

 private:
  std::shared_ptr<Shared> shared_;
  WorkerId worker_;
};

}  // namespace

std::vector<std::unique_ptr<Channel>> in_process_channels(
    const Program& program) {
  const auto shared = std::make_shared<Shared>(program);
  std::vector<std::unique_ptr<Channel>> channels;
  for (int i = 0; i < program.num_workers(); ++i)
    channels.push_back(std::make_unique<InProcessChannel>(shared, WorkerId(i)));
  return channels;
}

}  // namespace pipewright
