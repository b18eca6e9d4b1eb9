// Channels that report progress; see watched_transport.h.

#include "pipewright/runtime/ranks/watched_transport.h"

#include <atomic>
#include <limits>
#include <utility>

namespace pipewright {
namespace {

// Replaces the first tensor of real numbers by one of NaNs. The original may be
// in use elsewhere.
bool poison(Values& values) {
  for (auto& tensors : values)
    for (at::Tensor& tensor : tensors) {
      if (!tensor.defined() || !tensor.is_floating_point()) continue;
      tensor = at::full_like(tensor, std::numeric_limits<double>::quiet_NaN());
      return true;
    }
  return false;
}

// The worker waits while this object lives.
class Waiting {
 public:
  explicit Waiting(Progress& progress) : progress_(progress) {
    progress_.enter(Phase::Waits);
  }
  ~Waiting() { progress_.enter(Phase::Computes); }

 private:
  Progress& progress_;
};

// A run ends when the last of its channels has gone.
class RunEnd {
 public:
  explicit RunEnd(Progress& progress) : progress_(progress) {}
  ~RunEnd() { progress_.enter(Phase::Between); }
  RunEnd(const RunEnd&) = delete;
  RunEnd& operator=(const RunEnd&) = delete;

 private:
  Progress& progress_;
};

class WatchedChannel final : public Channel {
 public:
  WatchedChannel(std::unique_ptr<Channel> inner, Progress& progress,
                 std::shared_ptr<const RunEnd> end,
                 const std::optional<Injection>& injection,
                 std::atomic<int>& num_injected, WorkerId worker, int rank,
                 int num_microbatches)
      : end_(std::move(end)),
        inner_(std::move(inner)),
        progress_(progress),
        injection_(injection),
        num_injected_(num_injected),
        worker_(worker),
        rank_(rank),
        num_microbatches_(num_microbatches) {}

  // Messages under way are waited for.
  ~WatchedChannel() override { progress_.enter(Phase::Waits); }

  void receive_at(at::Device place) override { inner_->receive_at(place); }
  void before(const Action& action, std::int64_t microbatch) override {
    progress_.begin(worker_, action, microbatch, num_microbatches_);
    if (injection_ && !is_injected_) inject_here(action, microbatch);
    inner_->before(action, microbatch);
  }
  void send(TransferId transfer, std::int32_t key, Values&& values) override {
    if (is_poisoned_ && poison(values)) is_poisoned_ = false;
    const Waiting waiting(progress_);  // a receiver may be far behind
    inner_->send(transfer, key, std::move(values));
  }
  void post(TransferId transfer, std::int32_t key) override {
    inner_->post(transfer, key);
  }
  void take(TransferId transfer, std::int32_t key, Values& values) override {
    const Waiting waiting(progress_);
    inner_->take(transfer, key, values);
    if (is_poisoned_ && poison(values)) is_poisoned_ = false;
  }
  void reuse_messages() override {
    const Waiting waiting(progress_);
    inner_->reuse_messages();
  }
  void contribute(ReductionId reduction, MicrobatchId microbatch,
                  std::vector<Contribution>&& contributions) override {
    inner_->contribute(reduction, microbatch, std::move(contributions));
  }
  void reduced(ReductionId reduction, MicrobatchId microbatch,
               Tensors& sums) override {
    const Waiting waiting(progress_);
    inner_->reduced(reduction, microbatch, sums);
  }
  void cancel() override { inner_->cancel(); }

 private:
  void inject_here(const Action& action, std::int64_t microbatch) {
    const Place place =
        place_of(worker_, action, microbatch, num_microbatches_);
    if (!injection_->is_at(rank_, place)) return;
    is_injected_ = true;
    const int before = num_injected_++;
    if (injection_->times > 0 && before >= injection_->times) return;
    if (injection_->kind == Injection::Kind::Nan) is_poisoned_ = true;
    inject(*injection_);
  }

  const std::shared_ptr<const RunEnd> end_;  // after inner_
  const std::unique_ptr<Channel> inner_;
  Progress& progress_;
  const std::optional<Injection>& injection_;
  std::atomic<int>& num_injected_;
  const WorkerId worker_;
  const int rank_, num_microbatches_;
  bool is_injected_ = false, is_poisoned_ = false;
};

// A rank that waits at a gate waits for rank 0.
class WatchedGate final : public RunGate {
 public:
  WatchedGate(std::unique_ptr<RunGate> inner, Progress& progress)
      : inner_(std::move(inner)), progress_(progress) {}

  bool begins(int repetition) override {
    const Waiting waiting(progress_);
    return inner_->begins(repetition);
  }
  void add_loss(std::int64_t microbatch, std::int32_t first, std::int32_t end,
                double mean) override {
    inner_->add_loss(microbatch, first, end, mean);
  }
  void finish() override {
    const Waiting waiting(progress_);
    inner_->finish();
  }
  int repetitions() const override { return inner_->repetitions(); }

 private:
  const std::unique_ptr<RunGate> inner_;
  Progress& progress_;
};

class WatchedTransport final : public Transport {
 public:
  WatchedTransport(std::unique_ptr<Transport> inner, Progress& progress,
                   std::optional<Injection> injection,
                   CorruptionHook on_corrupted, StallHooks stalls)
      : inner_(std::move(inner)),
        progress_(progress),
        injection_(std::move(injection)),
        on_corrupted_(std::move(on_corrupted)),
        stalls_(std::move(stalls)) {}

  const StallHooks& stalls() const override { return stalls_; }
  int rank() const override { return inner_->rank(); }
  int num_ranks() const override { return inner_->num_ranks(); }
  std::string name() const override { return inner_->name(); }
  std::string message_path() const override { return inner_->message_path(); }
  bool is_here(WorkerId worker) const override {
    return inner_->is_here(worker);
  }

  int first_core() const override { return inner_->first_core(); }

  std::vector<std::unique_ptr<Channel>> connect(
      const Program& program) override {
    progress_.enter(Phase::Between);
    auto channels = inner_->connect(program);
    const auto end = std::make_shared<const RunEnd>(progress_);
    std::size_t next = 0;
    for (int w = 0; w < program.num_workers(); ++w) {
      if (!is_here(WorkerId(w))) continue;
      // Without a launcher, --inject rank=N means worker N.
      const int injected = inner_->is_alone() ? w : inner_->rank();
      auto& channel = channels[next++];
      channel = std::make_unique<WatchedChannel>(
          std::move(channel), progress_, end, injection_, num_injected_,
          WorkerId(w), injected, program.num_microbatches);
    }
    return channels;
  }

  void drop_messages() override { inner_->drop_messages(); }

  std::unique_ptr<RunGate> gate(const Program& program, int repetitions,
                                RunHooks hooks) override {
    return std::make_unique<WatchedGate>(
        inner_->gate(program, repetitions, std::move(hooks)), progress_);
  }

  std::vector<std::string> gather(std::string mine) override {
    progress_.enter(Phase::Between);
    return checked([&] { return inner_->gather(std::move(mine)); });
  }
  std::string broadcast(std::string leaders) override {
    progress_.enter(Phase::Between);
    return checked([&] { return inner_->broadcast(std::move(leaders)); });
  }

 private:
  const std::unique_ptr<Transport> inner_;
  Progress& progress_;
  template <typename Work>
  auto checked(Work work) -> decltype(work()) {
    try {
      return work();
    } catch (const CorruptedMessage& message) {
      if (on_corrupted_) on_corrupted_(message);
      throw;
    }
  }

  const std::optional<Injection> injection_;
  std::atomic<int> num_injected_ = 0;
  const CorruptionHook on_corrupted_;
  const StallHooks stalls_;
};

}  // namespace

std::unique_ptr<Transport> watched_transport(std::unique_ptr<Transport> inner,
                                             Progress& progress,
                                             std::optional<Injection> injection,
                                             CorruptionHook on_corrupted,
                                             StallHooks stalls) {
  return std::make_unique<WatchedTransport>(
      std::move(inner), progress, std::move(injection), std::move(on_corrupted),
      std::move(stalls));
}

}  // namespace pipewright
