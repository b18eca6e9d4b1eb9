// Channels that order what devices do; see message_copies.h.

#include "pipewright/runtime/execution/message_copies.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "pipewright/runtime/channels/minibatch_slots.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/execution/message_values.h"

namespace pipewright {
namespace {

// Messages of a transfer that were copied or returned, as far as the host
// knows, and are kept until the GPU gets there.
constexpr std::size_t kMaxKept = 2;
// Messages that a worker has done with before it says so.
constexpr std::size_t kMaxUnreturned = 2;

bool is_held_elsewhere(const at::Tensor& tensor) {
  return tensor.defined() &&
         (tensor.use_count() > 1 || tensor.storage().use_count() > 1);
}

// The messages of one transfer: when those under way were sent, and those that
// the receiver has taken and may still be copying.
class MessageMoments {
 public:
  struct Sent {
    std::int32_t key = 0;
    MomentPointer moment;
    bool is_reused = false;  // the sender writes there again in its next step
    bool is_lent = false;
  };

  void sent(Sent message) {
    const std::lock_guard lock(mutex_);
    if (message.is_reused) ++num_sent_;
    under_way_.push_back(std::move(message));
  }
  Sent taken(std::int32_t key) {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(under_way_.begin(), under_way_.end(),
                     [&](const Sent& each) { return each.key == key; });
    Sent message = std::move(*found);
    under_way_.erase(found);
    return message;
  }
  void copied(Values&& values, const MomentPointer& moment, bool is_reused) {
    if (is_reused) returned(moment);
    const std::lock_guard lock(mutex_);
    lent_.push_back({std::move(values), moment});
  }
  // One whose memory is reused.
  void returned(const MomentPointer& moment) {
    const std::lock_guard lock(mutex_);
    last_copied_ = moment;
    ++num_copied_;
  }
  // By the sender's thread: whether all messages whose memory is reused have
  // been copied or returned, or will be before its device does more. That is
  // done in their order.
  bool are_copied(WorkerDevice& sender) {
    const std::lock_guard lock(mutex_);
    if (num_copied_ < num_sent_) return false;
    if (last_copied_) sender.wait_for(last_copied_);
    last_copied_ = nullptr;
    return true;
  }
  // By the sender's thread, for then its device may reuse the memory. Small
  // messages are not asked for: that is a call of the driver.
  void reclaim(WorkerDevice& sender, bool is_small) {
    const std::lock_guard lock(mutex_);
    for (; !lent_.empty(); lent_.pop_front()) {
      const MomentPointer& copied = lent_.front().copied;
      if (!is_small && (!copied || copied->has_passed())) continue;
      if (lent_.size() <= kMaxKept) return;
      sender.wait_for(copied);
    }
  }

 private:
  struct Lent {
    Values values;
    MomentPointer copied;
  };

  std::mutex mutex_;
  // Of those whose memory is reused.
  std::int64_t num_sent_ = 0, num_copied_ = 0;  // or returned
  MomentPointer last_copied_;                   // null: passed, or waited for
  std::vector<Sent> under_way_;                 // few
  std::deque<Lent> lent_;                       // oldest first
};

// A reduction of one minibatch.
struct MomentaryReduction {
  MicrobatchId microbatch;
  std::vector<WorkerContributions> parts;  // by place of the worker
  std::vector<MomentPointer> contributed, read;
  int num_contributed = 0;

  void end() { *this = MomentaryReduction(); }
};

// Contributions that others may still be reading.
struct LentGradients {
  std::vector<Contribution> contributions;
  std::vector<MomentPointer> read;
};

// What the channels of one run share.
struct CopiesShared {
  CopiesShared(const Program& p, const std::vector<WorkerDevice*>& d)
      : program(p),
        devices(d),
        transfers(p.transfers.size()),
        participants(participants_of(p)),
        reductions(p.reductions.size()),
        lent(p.workers.size()) {
    for (auto& of_worker : lent) of_worker.resize(p.reductions.size());
  }

  const Program& program;
  const std::vector<WorkerDevice*> devices;  // by worker
  std::deque<MessageMoments> transfers;      // by transfer
  std::vector<Participants> participants;    // by reduction

  std::mutex mutex;  // of what follows
  std::condition_variable contribution;
  std::vector<MinibatchSlots<MomentaryReduction>> reductions;
  std::vector<std::vector<LentGradients>> lent;  // by worker and reduction
  std::atomic<bool> cancelled = false;
};

class CopyingChannel final : public Channel {
 public:
  CopyingChannel(std::unique_ptr<Channel> inner,
                 std::shared_ptr<CopiesShared> shared, WorkerId worker)
      : inner_(std::move(inner)),
        shared_(std::move(shared)),
        worker_(worker),
        device_(*shared_->devices[worker.index()]),
        is_lent_(shared_->program.transfers.size(), false) {
    const std::vector<Transfer>& transfers = shared_->program.transfers;
    for (std::size_t t = 0; t < transfers.size(); ++t)
      if (transfers[t].from == worker && is_copied(TransferId(t)))
        sends_.push_back(TransferId(t));
  }

  void before(const Action& action, std::int64_t microbatch) override {
    inner_->before(action, microbatch);
  }

  void send(TransferId transfer, std::int32_t key, Values&& values) override {
    if (is_copied(transfer)) {
      own(values);
      begin_send({key, moment(), reuses_}, transfer);
    }
    inner_->send(transfer, key, std::move(values));
  }
  void lend(TransferId transfer, std::int32_t key, Values&& values) override {
    if (is_copied(transfer)) begin_send({key, moment(), true, true}, transfer);
    inner_->send(transfer, key, std::move(values));
  }
  void post(TransferId transfer, std::int32_t key) override {
    inner_->post(transfer, key);
  }
  void take(TransferId transfer, std::int32_t key, Values& values) override {
    take(transfer, key, values, values.empty() && is_small(transfer));
  }
  void borrow(TransferId transfer, std::int32_t key, Values& values) override {
    take(transfer, key, values, true);
  }

  bool is_lent(TransferId transfer) const override {
    return is_lent_[transfer.index()];
  }
  void return_messages() override {
    if (to_return_.empty() && borrowed_.empty()) return;
    const MomentPointer now = moment();
    for (const TransferId transfer : to_return_)
      shared_->transfers[transfer.index()].returned(now);
    to_return_.clear();
  }
  // Those of the last step have mostly been taken long ago.
  void reuse_messages() override {
    reuses_ = true;
    for (const TransferId transfer : sends_)
      while (!shared_->transfers[transfer.index()].are_copied(device_)) {
        if (shared_->cancelled) throw Cancelled();
        std::this_thread::yield();
      }
  }

  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions) override {
    const MomentPointer now = moment();
    const std::lock_guard lock(shared_->mutex);
    if (shared_->cancelled) throw Cancelled();
    reclaim(shared_->lent[worker_.index()][reduction.index()]);
    MomentaryReduction& to = running(reduction, microbatch);
    to.parts.resize(description(reduction).workers.size());
    WorkerContributions& part =
        to.parts[place_of(worker_, description(reduction))];
    part.worker = worker_;
    part.contributions = contributions;
    contributions.clear();
    to.contributed.push_back(now);
    ++to.num_contributed;
    shared_->contribution.notify_all();
  }

  // Every reader adds up all parts, in the fixed order, in its own stream.
  void reduced(ReductionId reduction, MicrobatchId microbatch,
               Tensors& sums) override {
    const Participants& participants = shared_->participants[reduction.index()];
    std::unique_lock lock(shared_->mutex);
    MomentaryReduction& from = running(reduction, microbatch);
    shared_->contribution.wait(lock, [&] {
      return shared_->cancelled ||
             from.num_contributed == participants.num_contributors();
    });
    if (shared_->cancelled) throw Cancelled();
    lock.unlock();  // from here on nobody writes to `from.parts`
    for (const MomentPointer& moment : from.contributed)
      device_.wait_for(moment);
    sums = reduction_sums(description(reduction), brought(from.parts));
    for (at::Tensor& sum : sums)
      if (is_contribution(sum, from.parts)) sum = device_.copy(sum);
    const MomentPointer now = moment();
    lock.lock();
    from.read.push_back(now);
    if (static_cast<int>(from.read.size()) == participants.num_readers())
      end(reduction, from);
  }

  void cancel() override {
    {
      const std::lock_guard lock(shared_->mutex);
      shared_->cancelled = true;
    }
    shared_->contribution.notify_all();
    inner_->cancel();
  }

 private:
  const Reduction& description(ReductionId reduction) const {
    return shared_->program.reduction(reduction);
  }
  bool is_copied(TransferId id) const {
    const Transfer& transfer = shared_->program.transfer(id);
    const WorkerDevice& from = *shared_->devices[transfer.from.index()];
    const WorkerDevice& to = *shared_->devices[transfer.to.index()];
    return !to.reads_memory_of(from) || !from.computes_at_once() ||
           !to.computes_at_once();
  }
  bool is_small(TransferId id) const {
    const Transfer& transfer = shared_->program.transfer(id);
    return transfer.bytes.value() * shared_->program.num_microbatches <=
           kSmallStep;
  }
  // What a worker passes on as it has come is returned when all others have
  // done with it, too: a sender that reuses its memory must not wait for them.
  void own(Values& values) {
    const auto is_borrowed = [&](const at::Tensor& tensor) {
      for (const Borrowed& message : borrowed_)
        for (const at::Tensor& each : message.tensors)
          if (message.is_reused && each.defined() && each.is_alias_of(tensor))
            return true;
      return false;
    };
    for (Tensors& tensors : values)
      for (at::Tensor& tensor : tensors)
        if (tensor.defined() && is_borrowed(tensor))
          tensor = device_.copy(tensor);
  }
  void begin_send(MessageMoments::Sent message, TransferId transfer) {
    MessageMoments& moments = shared_->transfers[transfer.index()];
    moments.reclaim(device_, is_small(transfer));
    moments.sent(std::move(message));
  }
  void take(TransferId transfer, std::int32_t key, Values& values,
            bool is_borrowed) {
    if (!is_copied(transfer)) return inner_->take(transfer, key, values);
    Values lent;
    inner_->take(transfer, key, lent);
    MessageMoments& moments = shared_->transfers[transfer.index()];
    const MessageMoments::Sent message = moments.taken(key);
    device_.wait_for(message.moment);
    const WorkerId from = shared_->program.transfer(transfer).from;
    const bool is_readable =
        device_.reads_memory_of(*shared_->devices[from.index()]);
    is_lent_[transfer.index()] = message.is_lent && is_readable;
    if (is_lent(transfer)) {
      values = std::move(lent);
      to_return_.push_back(transfer);
    } else if (is_borrowed && is_readable) {
      borrow(transfer, std::move(lent), message.is_reused, values);
    } else {
      copy(lent, values);
      moments.copied(std::move(lent), moment(), message.is_reused);
    }
  }
  void borrow(TransferId transfer, Values&& lent, bool is_reused,
              Values& values) {
    Borrowed& message = borrowed_.emplace_back();
    message.transfer = transfer;
    message.is_reused = is_reused;
    values.resize(lent.size());
    for (std::size_t i = 0; i < lent.size(); ++i) {
      values[i].clear();
      for (const at::Tensor& tensor : lent[i]) {
        message.tensors.push_back(borrowed(tensor));
        values[i].push_back(message.tensors.back());
      }
    }
    message.lent = std::move(lent);
    const auto num_done =
        std::count_if(borrowed_.begin(), borrowed_.end(),
                      [](const Borrowed& each) { return each.is_done(); });
    if (num_done > static_cast<std::ptrdiff_t>(kMaxUnreturned)) moment();
  }
  void copy(const Values& from, Values& to) {
    to.resize(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      to[i].resize(from[i].size());
      for (std::size_t j = 0; j < from[i].size(); ++j)
        copy(from[i][j], to[i][j]);
    }
  }
  // To where `to` is, or to a new tensor.
  void copy(const at::Tensor& from, at::Tensor& to) {
    if (from.defined() && to.defined() && to.sizes() == from.sizes())
      device_.fill(to, from);
    else
      to = from.defined() ? device_.copy(from) : at::Tensor();
  }
  // With the mutex held.
  MomentaryReduction& running(ReductionId reduction, MicrobatchId microbatch) {
    return shared_->reductions[reduction.index()].of(
        microbatch, shared_->program.num_microbatches);
  }
  void reclaim(LentGradients& lent) {
    for (const MomentPointer& moment : lent.read) device_.wait_for(moment);
    lent.read.clear();
    lent.contributions.clear();
  }
  // Each worker gets its own back, to reuse once all have read them.
  void end(ReductionId reduction, MomentaryReduction& from) {
    for (WorkerContributions& part : from.parts) {
      if (part.contributions.empty()) continue;
      LentGradients& lent =
          shared_->lent[part.worker.index()][reduction.index()];
      lent.contributions.insert(
          lent.contributions.end(),
          std::make_move_iterator(part.contributions.begin()),
          std::make_move_iterator(part.contributions.end()));
      lent.read.insert(lent.read.end(), from.read.begin(), from.read.end());
    }
    from.end();
  }
  std::vector<WorkerContributions> brought(
      std::vector<WorkerContributions> parts) {
    for (WorkerContributions& part : parts)
      for (Contribution& each : part.contributions)
        each.gradient = device_.bring(each.gradient);
    return parts;
  }
  static bool is_contribution(const at::Tensor& sum,
                              const std::vector<WorkerContributions>& parts) {
    for (const WorkerContributions& part : parts)
      for (const Contribution& each : part.contributions)
        if (each.gradient.is_same(sum)) return true;
    return false;
  }

  // After all that the device was given. What the worker has done with until
  // then goes back to its senders.
  MomentPointer moment() {
    MomentPointer now = device_.moment();
    std::erase_if(borrowed_, [&](Borrowed& each) {
      if (!each.is_done()) return false;
      shared_->transfers[each.transfer.index()].copied(std::move(each.lent),
                                                       now, each.is_reused);
      return true;
    });
    return now;
  }

  struct Borrowed {
    TransferId transfer;
    bool is_reused = false;
    Values lent;      // the sender's
    Tensors tensors;  // the same memory, as the worker has it

    bool is_done() const {
      return std::none_of(tensors.begin(), tensors.end(), is_held_elsewhere);
    }
  };

  const std::unique_ptr<Channel> inner_;
  const std::shared_ptr<CopiesShared> shared_;
  const WorkerId worker_;
  WorkerDevice& device_;
  bool reuses_ = false;                // memory that it has sent from before
  std::vector<Borrowed> borrowed_;     // and not returned yet
  std::vector<TransferId> sends_;      // of this worker, that are copied
  std::vector<bool> is_lent_;          // by transfer: the last message taken
  std::vector<TransferId> to_return_;  // of lent messages, one for each
};

}  // namespace

std::vector<std::unique_ptr<Channel>> copying_channels(
    std::vector<std::unique_ptr<Channel>> channels, const Program& program,
    const std::vector<WorkerDevice*>& devices) {
  const auto shared = std::make_shared<CopiesShared>(program, devices);
  for (std::size_t w = 0; w < channels.size(); ++w)
    channels[w] = std::make_unique<CopyingChannel>(std::move(channels[w]),
                                                   shared, WorkerId(w));
  return channels;
}

}  // namespace pipewright
