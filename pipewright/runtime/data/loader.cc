#include "pipewright/runtime/data/loader.h"

#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "pipewright/base/background.h"

namespace pipewright {

class Loader::Thread {
 public:
  Thread(MicrobatchSource source, int num_inputs, std::int64_t first, int ahead,
         int behind)
      : source_(std::move(source)),
        ahead_(ahead),
        behind_(behind),
        inputs_(num_inputs) {
    for (Input& input : inputs_) {
      input.next = first;
      input.asked = first - 1;
      input.ring.resize(ahead + behind + 1);
    }
    thread_ = std::thread([this] { run(); });
  }

  ~Thread() {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    asked_.notify_all();
    thread_.join();
  }

  at::Tensor answer(int number, std::int64_t microbatch) {
    {
      const std::lock_guard lock(mutex_);
      Input& input = inputs_[number];
      if (microbatch > input.asked) advance(input, microbatch);
      const Ready& ready = input.place(microbatch);
      if (ready.tensor.defined() && ready.microbatch == microbatch) {
        ++count_.ready;
        return ready.tensor;
      }
      ++count_.late;
    }
    return source_(number, microbatch);
  }

  Count count() const {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  std::size_t max_held() const {
    const std::lock_guard lock(mutex_);
    return max_held_;
  }

 private:
  struct Ready {
    std::int64_t microbatch = 0;
    at::Tensor tensor;
  };
  struct Input {
    std::int64_t asked = -1;  // the latest
    std::int64_t next = 0;    // to be prepared
    // From `behind` before the latest to `ahead` after it, each in its place.
    std::vector<Ready> ring;
    std::size_t num_held = 0;

    Ready& place(std::int64_t microbatch) {
      return ring[microbatch % ring.size()];
    }
  };

  void advance(Input& input, std::int64_t microbatch) {
    input.asked = microbatch;
    input.next = std::max(input.next, microbatch);
    for (Ready& ready : input.ring) {
      if (!ready.tensor.defined() || ready.microbatch >= microbatch - behind_)
        continue;
      ready.tensor.reset();
      --input.num_held;
    }
    // Woken seldom, for several at once: each time costs as much as a small
    // action.
    if (input.next - microbatch <= (ahead_ + 1) / 2) asked_.notify_one();
  }

  // Workers may have asked for later ones while this one was prepared.
  void keep(Input& input, std::int64_t microbatch, at::Tensor tensor) {
    if (!tensor.defined() || microbatch < input.asked - behind_) return;
    input.place(microbatch) = {microbatch, std::move(tensor)};
    max_held_ = std::max(max_held_, ++input.num_held);
  }

  // The input whose next microbatch is nearest to being asked for, or none.
  Input* most_urgent() {
    Input* best = nullptr;
    for (Input& input : inputs_) {
      const std::int64_t lead = input.next - input.asked;
      if (lead > ahead_) continue;
      if (best == nullptr || lead < best->next - best->asked) best = &input;
    }
    return best;
  }

  // Undefined if the source fails; it fails again, and is reported, where the
  // microbatch is asked for.
  at::Tensor prepared(int input, std::int64_t microbatch) const {
    try {
      return source_(input, microbatch);
    } catch (const std::exception&) {
      return {};
    }
  }

  void run() {
    run_in_background();
    const c10::InferenceMode guard;
    at::set_num_threads(1);
    std::unique_lock lock(mutex_);
    for (;;) {
      Input* input = nullptr;
      asked_.wait(lock, [&] {
        input = most_urgent();
        return ends_ || input != nullptr;
      });
      if (ends_) return;
      const std::int64_t microbatch = input->next++;
      const auto number = static_cast<int>(input - inputs_.data());
      lock.unlock();
      at::Tensor tensor = prepared(number, microbatch);
      lock.lock();
      keep(*input, microbatch, std::move(tensor));
    }
  }

  const MicrobatchSource source_;
  const std::int64_t ahead_, behind_;
  mutable std::mutex mutex_;  // of what follows
  std::condition_variable asked_;
  std::vector<Input> inputs_;
  Count count_;
  std::size_t max_held_ = 0;
  bool ends_ = false;
  std::thread thread_;
};

Loader::Loader(MicrobatchSource source, int num_inputs, std::int64_t first,
               int ahead, int behind)
    : thread_(std::make_unique<Thread>(std::move(source), num_inputs, first,
                                       ahead, behind)) {}
Loader::~Loader() = default;

MicrobatchSource Loader::microbatches() {
  return [thread = thread_.get()](int input, std::int64_t microbatch) {
    return thread->answer(input, microbatch);
  };
}
Loader::Count Loader::count() const { return thread_->count(); }
std::size_t Loader::max_held() const { return thread_->max_held(); }

}  // namespace pipewright
