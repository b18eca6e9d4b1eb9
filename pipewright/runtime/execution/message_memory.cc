// Channels that tell devices about messages; see message_memory.h.

#include "pipewright/runtime/execution/message_memory.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

#include "pipewright/plan/program/send_capacity.h"

namespace pipewright {
namespace {

using Message = std::vector<at::Tensor>;  // its defined tensors

// Whether nobody holds the tensor but the message and our list of its tensors.
// Several of them may be one tensor, or views of one.
bool is_only_in(const Message& message, const at::Tensor& tensor) {
  std::size_t same = 0, views = 0;
  for (const at::Tensor& other : message) {
    same += other.is_same(tensor);
    views += !other.is_same(tensor) && other.is_alias_of(tensor);
  }
  return tensor.use_count() == 2 * same &&
         tensor.storage().use_count() == 1 + views;
}

void hand_over(const Message& message, WorkerDevice& receiver) {
  for (const at::Tensor& tensor : message)
    if (is_only_in(message, tensor)) receiver.take_over(tensor);
}

// The messages of one transfer that were sent and not posted yet: few. Lists
// keep their memory, so that after the first messages none is allocated.
class UnpostedMessages {
 public:
  explicit UnpostedMessages(int num_expected) {
    for (int i = 0; i < num_expected; ++i) messages_.emplace_back();
  }

  // Receives are posted in the order of sends.
  void send(std::int32_t key, const Values& values, WorkerDevice& receiver) {
    const std::lock_guard lock(mutex_);
    if (num_unposted_ == messages_.size()) messages_.emplace_back();
    Unposted& added = messages_[num_unposted_++];
    added.key = key;
    copy_tensors(values, added.message);
    if (num_sent_++ < num_posted_) hand_over(added, receiver);
  }
  void post(std::int32_t key, WorkerDevice& receiver) {
    const std::lock_guard lock(mutex_);
    if (++num_posted_ > num_sent_) return;
    const auto end = messages_.begin() + num_unposted_;
    const auto found =
        std::find_if(messages_.begin(), end,
                     [&](const Unposted& each) { return each.key == key; });
    if (found != end) hand_over(*found, receiver);
  }

 private:
  struct Unposted {
    std::int32_t key = 0;
    Message message;
  };

  void hand_over(Unposted& unposted, WorkerDevice& receiver) {
    pipewright::hand_over(unposted.message, receiver);
    unposted.message.clear();
    std::swap(unposted, messages_[--num_unposted_]);
  }
  // All messages of a transfer have the same number of tensors.
  void copy_tensors(const Values& values, Message& message) {
    for (const Tensors& tensors : values)
      for (const at::Tensor& tensor : tensors)
        if (tensor.defined()) message.push_back(tensor);
    if (num_sent_ > 0) return;
    for (Unposted& each : messages_) each.message.reserve(message.size());
  }

  std::mutex mutex_;
  std::vector<Unposted> messages_;  // the first ones are in use
  std::size_t num_unposted_ = 0;
  std::int64_t num_posted_ = 0, num_sent_ = 0;
};

// What the channels of one run share.
struct Counting {
  Counting(const Program& p, const std::vector<WorkerDevice*>& d)
      : program(p), devices(d) {
    for (std::size_t t = 0; t < p.transfers.size(); ++t)
      transfers.emplace_back(SendCapacity::expected(p));
  }
  WorkerDevice& receiver(TransferId transfer) const {
    return *devices[program.transfer(transfer).to.index()];
  }

  const Program& program;
  const std::vector<WorkerDevice*> devices;  // by worker
  std::deque<UnpostedMessages> transfers;    // by transfer
};

class CountedChannel final : public Channel {
 public:
  CountedChannel(std::unique_ptr<Channel> inner, std::shared_ptr<Counting> all)
      : inner_(std::move(inner)), counting_(std::move(all)) {}

  void before(const Action& action, std::int64_t microbatch) override {
    inner_->before(action, microbatch);
  }
  void send(TransferId transfer, std::int32_t key, Values&& values) override {
    counting_->transfers[transfer.index()].send(key, values,
                                                counting_->receiver(transfer));
    inner_->send(transfer, key, std::move(values));
  }
  void post(TransferId transfer, std::int32_t key) override {
    counting_->transfers[transfer.index()].post(key,
                                                counting_->receiver(transfer));
    inner_->post(transfer, key);
  }
  void take(TransferId transfer, std::int32_t key, Values& values) override {
    inner_->take(transfer, key, values);
  }
  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions) override {
    inner_->contribute(reduction, microbatch, std::move(contributions));
  }
  void reduced(ReductionId reduction, MicrobatchId microbatch,
               Tensors& sums) override {
    inner_->reduced(reduction, microbatch, sums);
  }
  void cancel() override { inner_->cancel(); }

 private:
  const std::unique_ptr<Channel> inner_;
  const std::shared_ptr<Counting> counting_;
};

}  // namespace

std::vector<std::unique_ptr<Channel>> counted_channels(
    std::vector<std::unique_ptr<Channel>> channels, const Program& program,
    const std::vector<WorkerDevice*>& devices) {
  const auto counting = std::make_shared<Counting>(program, devices);
  for (std::unique_ptr<Channel>& channel : channels)
    channel = std::make_unique<CountedChannel>(std::move(channel), counting);
  return channels;
}

}  // namespace pipewright
