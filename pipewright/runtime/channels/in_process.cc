// Channels between threads; see in_process.h.

#include "pipewright/runtime/channels/in_process.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <iterator>
#include <mutex>
#include <utility>

#include "pipewright/plan/program/send_capacity.h"
#include "pipewright/runtime/channels/in_turn.h"
#include "pipewright/runtime/channels/reduction.h"
#include "pipewright/runtime/channels/transport.h"
#include "pipewright/runtime/channels/waiting.h"
#include "pipewright/runtime/execution/cores.h"
#include "pipewright/runtime/execution/tensor_heap.h"

namespace pipewright {
namespace {

// Whether nobody holds the tensor but the message, of which several values may
// be one tensor, or views of one.
bool is_all_in(const Values& message, const at::Tensor& tensor) {
  std::size_t same = 0, views = 0;
  for (const Tensors& tensors : message)
    for (const at::Tensor& other : tensors) {
      if (!other.defined()) continue;
      same += other.is_same(tensor);
      views += !other.is_same(tensor) && other.is_alias_of(tensor);
    }
  return tensor.use_count() == same &&
         tensor.storage().use_count() == 1 + views;
}

// What the sender keeps, too, stays its memory.
void hand_over(const Values& message, TensorHeap& heap) {
  for (const Tensors& tensors : message)
    for (const at::Tensor& tensor : tensors)
      if (tensor.defined() && is_all_in(message, tensor))
        heap.take_over(tensor);
}

// What has been sent of one transfer and was not taken yet: few. Each list of
// tensors stays in its place, and only tensors go in and out.
class Line {
 public:
  Line(const Transfer& transfer, int num_expected)
      : messages_(static_cast<std::size_t>(num_expected)) {
    for (Message& message : messages_)
      message.values.reserve(transfer.values.size());
  }

  int num_waiting() const { return num_waiting_; }
  // A receive is posted in the order of sends.
  void post(std::int32_t key, TensorHeap* heap) {
    if (++num_posted_ > num_sent_ || !heap) return;
    if (const auto found = message(key); found != messages_.end())
      hand_over(found->values, *heap);
  }
  void add(std::int32_t key, Values& values, TensorHeap* heap) {
    if (num_sent_++ < num_posted_ && heap) hand_over(values, *heap);
    const auto place = static_cast<std::size_t>(num_waiting_++);
    if (place == messages_.size()) messages_.emplace_back();
    messages_[place].key = key;
    move_tensors(values, messages_[place].values);
  }
  // False if it is not there.
  bool take(std::int32_t key, Values& values) {
    const auto found = message(key);
    if (found == messages_.end()) return false;
    move_tensors(found->values, values);
    std::swap(*found, messages_[static_cast<std::size_t>(--num_waiting_)]);
    return true;
  }

 private:
  struct Message {
    std::int32_t key = 0;
    Values values;
  };
  // Of those that wait; the end if it is not among them.
  std::vector<Message>::iterator message(std::int32_t key) {
    const auto end = messages_.begin() + num_waiting_;
    const auto found = std::find_if(
        messages_.begin(), end, [&](const Message& m) { return m.key == key; });
    return found == end ? messages_.end() : found;
  }
  static void move_tensors(Values& from, Values& to) {
    to.resize(from.size());
    std::move(from.begin(), from.end(), to.begin());
  }

  std::vector<Message> messages_;  // the first ones are waiting
  int num_waiting_ = 0;
  std::int64_t num_posted_ = 0, num_sent_ = 0;
};

struct Inbox {
  explicit Inbox(bool spins) : arrival(spins), removal(spins) {}

  std::mutex mutex;  // of the lines to this worker
  Event arrival, removal;
};

struct RunningReduction {
  std::int32_t microbatch = kNoMicrobatch;
  std::vector<WorkerContributions> parts;  // by place of the worker
  int num_given = 0;
  Tensors sums;  // by parameter, as they get done
  std::size_t num_begun = 0, num_done = 0;
  int handed_out = 0;

  // Keeps its lists.
  void end() {
    microbatch = kNoMicrobatch;
    for (WorkerContributions& part : parts) part.contributions.clear();
    sums.clear();
    num_begun = num_done = 0;
    num_given = handed_out = 0;
  }
};

struct Shared {
  Shared(const Program& p, bool spins)
      : program(p),
        capacity(p),
        participants(participants_of(p)),
        completion(spins),
        reductions(p.reductions.size()) {
    for (int i = 0; i < p.num_workers(); ++i) inboxes.emplace_back(spins);
    for (const Transfer& transfer : p.transfers)
      lines.emplace_back(transfer, SendCapacity::expected(p));
  }

  const Program& program;
  SendCapacity capacity;
  std::deque<Inbox> inboxes;
  std::vector<Line> lines;                 // by transfer
  std::vector<TensorHeap*> heaps;          // by worker, or none
  std::vector<Participants> participants;  // by reduction

  std::mutex mutex;  // of what follows
  Event completion;
  std::vector<InTurn<RunningReduction>> reductions;

  std::atomic<bool> cancelled = false;
};

class InProcessChannel final : public Channel {
 public:
  InProcessChannel(std::shared_ptr<Shared> shared, WorkerId worker)
      : shared_(std::move(shared)), worker_(worker) {}

  void send(TransferId transfer, std::int32_t key, Values&& values) override {
    const Transfer& description = shared_->program.transfers[transfer.index()];
    Inbox& inbox = shared_->inboxes[description.to.index()];
    Line& line = shared_->lines[transfer.index()];
    std::unique_lock lock(inbox.mutex);
    if (line.num_waiting() >= SendCapacity::kMinimum &&
        !description.is_keyed_by_version())
      inbox.removal.wait(lock, [&] {
        return shared_->cancelled ||
               line.num_waiting() < shared_->capacity.of(transfer);
      });
    if (shared_->cancelled) throw Cancelled();
    line.add(key, values, heap_of(description.to));
    inbox.arrival.happened();
  }

  void count_in(std::vector<TensorHeap*> heaps) override {
    shared_->heaps = std::move(heaps);
  }

  // Only for the count: the sender leaves its tensors in the inbox itself.
  void post(TransferId transfer, std::int32_t key) override {
    const std::lock_guard lock(shared_->inboxes[worker_.index()].mutex);
    shared_->lines[transfer.index()].post(key, heap_of(worker_));
  }

  void take(TransferId transfer, std::int32_t key, Values& values) override {
    Inbox& inbox = shared_->inboxes[worker_.index()];
    Line& line = shared_->lines[transfer.index()];
    std::unique_lock lock(inbox.mutex);
    inbox.arrival.wait(
        lock, [&] { return shared_->cancelled || line.take(key, values); });
    if (shared_->cancelled) throw Cancelled();
    inbox.removal.happened();
  }

  void contribute(ReductionId reduction, std::int32_t microbatch,
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
    ++to.num_given;
    shared_->completion.happened();
  }

  // All who wait for the sums make them, parameter by parameter.
  void reduced(ReductionId reduction, std::int32_t microbatch,
               Tensors& sums) override {
    const Participants& participants = shared_->participants[reduction.index()];
    const std::size_t count = num_sums(description(reduction));
    std::unique_lock lock(shared_->mutex);
    RunningReduction& from = running(reduction, microbatch);
    wait(lock, [&] { return from.num_given == participants.givers; });
    from.sums.resize(count);
    while (from.num_begun < count) {
      const std::size_t mine = from.num_begun++;
      lock.unlock();
      at::Tensor sum = reduction_sum(description(reduction), mine, from.parts);
      lock.lock();
      from.sums[mine] = std::move(sum);
      if (++from.num_done == count) shared_->completion.happened();
    }
    wait(lock, [&] { return from.num_done == count; });
    sums = from.sums;
    if (++from.handed_out == participants.readers) from.end();
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
  const Reduction& description(ReductionId reduction) const {
    return shared_->program.reduction(reduction);
  }
  TensorHeap* heap_of(WorkerId worker) const {
    return shared_->heaps.empty() ? nullptr : shared_->heaps[worker.index()];
  }
  // With the mutex held.
  RunningReduction& running(ReductionId reduction, std::int32_t microbatch) {
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
