// Messages between ranks: nonblocking sends and receives of tensors. They make
// progress when a caller asks for it, or on a thread of their own. For
// channels/ alone; transfers, reductions and programs are not known
// here.

#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pipewright/runtime/channels/message_layout.h"
#include "pipewright/runtime/channels/rank_network.h"
#include "pipewright/runtime/channels/ring.h"

namespace pipewright {

// Messages that are not High are sent in pieces, in order within their own
// priority, when no message of high priority is on its way to the same rank.
enum class Priority {
  High,
  Kept,
  Weights
};

class MessageEngine {
 public:
  // Complete when nothing is outstanding.
  struct Receive {
    Values buffers;
    at::Device place = at::kCPU;  // of the worker's tensors
    int outstanding = 0;
    // The tensor that was sent, at that place; once, without the mutex.
    at::Tensor take(std::size_t value, std::size_t index);
  };

  // Where a message goes, or comes from: a rank of a space, and a tag up to the
  // network's largest. Texts and tensors of one envelope do not mix.
  struct Envelope {
    MessageSpace* space = nullptr;
    int rank = 0, tag = 0;
  };

  // Asks for spaces: every rank constructs one at the same time. The network
  // must outlive it.
  MessageEngine(RankNetwork& network, bool has_checksums);
  ~MessageEngine();

  std::mutex& mutex() { return mutex_; }

  int rank() const { return rank_; }
  // Whether messages carry checksums.
  bool has_checksums() const { return has_checksums_; }

  // All calls below: with mutex() held. The worker's tensors are at this place,
  // for receives from now on.
  void set_place(at::Device place) { place_ = place; }
  at::Device place() const { return place_; }  // also without it, in a run
  // The tensors and the event come from as_sent(): they leave, in the order of
  // these calls, once they have been copied, and are kept until then.
  // `unreceived` counts messages whose receive has not been posted.
  void send(const Envelope& to, const Values& values, Priority priority,
            const std::shared_ptr<int>& unreceived = nullptr,
            const CopiesEvent& copied = nullptr);
  // Texts always carry a checksum.
  void send_text(const Envelope& to, std::string text);
  void receive(const Envelope& from, const MessageLayout& layout,
               Priority priority, const std::shared_ptr<Receive>& into);
  // Calls `arrived` once with the text, during make_progress().
  void expect_text(const Envelope& from,
                   std::function<void(const std::string&)> arrived);
  // The next one that nobody expects, if one has come.
  bool next_text(const Envelope& from, std::string& text);
  // Adds up the numbers of all ranks of the space, in place: outstanding in
  // `into` until then.
  void all_reduce(MessageSpace& space, const at::Tensor& numbers,
                  const std::shared_ptr<Receive>& into);
  // Reserves the engine's own memory for `count` messages of that layout under
  // way at once.
  void expect_sends(int rank, const MessageLayout& layout, Priority priority,
                    int count);
  void expect_receives(const MessageLayout& layout, Priority priority,
                       int count);
  void make_progress();
  // By the worker's thread, while it records nothing: frees what has been sent
  // from pinned memory. LibTorch puts an event into the worker's stream there,
  // which would become part of a recording.
  void free_sent() { sent_.clear(); }
  bool is_idle() const {
    return active_->empty() && texts_.empty() && copying_.empty() &&
           is_queue_empty();
  }
  void cancel_all();  // on all ranks
  // Before the engine is destroyed on all ranks, some of which may not have
  // heard that others cancelled. Without the mutex.
  void abandon();
  bool is_cancelled() const { return cancelled_; }

  // Without the mutex: makes progress until `done`, or throws Cancelled. `done`
  // is called with the mutex held.
  void wait_until(c10::function_ref<bool()> done);
  // Called without the mutex, by threads that wait, while they do: others may
  // be waiting for it.
  void set_idle_work(std::function<void()> work) {
    idle_work_ = std::move(work);
  }

  void start_thread();
  MessageSpace& everyone() const { return *everyone_; }
  int largest_tag() const { return network_.largest_tag(); }

 private:
  // What a request keeps alive, and what it counts down when it is complete.
  struct Pending {
    at::Tensor tensor = {};
    std::shared_ptr<const std::string> text = nullptr;
    std::int64_t* under_way = nullptr;
    std::size_t bytes = 0;                      // of a piece
    std::shared_ptr<int> unreceived = nullptr;  // of a message's last piece
    std::shared_ptr<Receive> into = nullptr;
  };
  struct Outgoing {
    at::Tensor tensor;  // keeps the memory
    const char* from = nullptr;
    std::size_t bytes = 0;
    Envelope to;
    std::shared_ptr<int> unreceived;
    std::chrono::steady_clock::time_point since;
  };
  // A message that its device is still copying.
  struct Copying {
    CopiesEvent copied;
    Envelope to;
    Values values;
    Priority priority = Priority::High;
    std::shared_ptr<int> unreceived;
  };
  struct Expected {
    Envelope from;
    std::function<void(const std::string&)> arrived;
  };
  // The pieces of one low priority, in the order of sends.
  struct Queue {
    std::int64_t under_way = 0;    // bytes
    std::size_t num_expected = 0;  // pieces that wait at once
    std::chrono::steady_clock::time_point last_start;
    Ring<Outgoing> waiting;
  };
  struct Peer {
    std::int64_t high = 0;  // bytes under way
    Queue queues[2];
  };

  static Queue& queue_of(Peer& peer, Priority priority);
  void start(Outgoing outgoing, std::int64_t& under_way);
  void start_message(const Envelope& to, const Values& values,
                     Priority priority, const std::shared_ptr<int>& unreceived);
  void start_copied();
  void start_low(Peer& peer, Queue& queue);
  void test_requests();
  void probe_texts();
  bool is_queue_empty() const;

  std::function<void()> idle_work_;
  std::mutex mutex_;
  RankNetwork& network_;
  const int rank_;
  std::unique_ptr<MessageSpace> everyone_;
  std::unique_ptr<Cancellation> cancellation_;
  std::unique_ptr<RequestList> active_;
  std::vector<Pending> pending_;  // beside active_
  Tensors sent_;                  // from pinned memory
  std::string text_;              // that has come
  std::vector<Outgoing> pieces_;  // of the message that is sent now
  std::size_t num_expected_ = 0;  // requests at once
  Ring<Copying> copying_;         // in the order of sends
  std::vector<Expected> texts_;
  std::vector<Peer> peers_;
  bool cancelled_ = false;
  const bool has_checksums_;
  at::Device place_ = at::kCPU;
  std::chrono::steady_clock::time_point last_progress_;
  std::exception_ptr failure_;  // of the thread
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace pipewright
