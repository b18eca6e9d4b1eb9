// Messages between ranks: nonblocking sends and receives of tensors, moved on
// whenever someone asks, or by a thread of its own. For channels/mpi_*.cc
// alone; transfers, reductions and programs are not known here.
//
// Who waits polls: first without giving up the core, unless ranks share cores,
// then sleeping for short times.

#pragma once

#include <c10/util/FunctionRef.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "pipewright/runtime/channels/message_layout.h"
#include "pipewright/runtime/channels/mpi_group.h"
#include "pipewright/runtime/channels/ring.h"

namespace pipewright {

// One pause of a loop that waits for something to change elsewhere.
class Patience {
 public:
  void pause();
  // Whether ranks of this host have a core each; they have until it is said.
  static void set_cores_shared(bool are_shared);

 private:
  std::chrono::steady_clock::time_point since_;
  int rounds_ = 0;
};

// What is not High goes in pieces, in turn within its own kind, when nothing of
// high priority goes to the same rank.
enum class Priority {
  High,
  Saved,
  Weights
};

class MpiEngine {
 public:
  // A receive: complete when nothing is outstanding.
  struct Receive {
    Values buffers;
    const MessageLayout* layout = nullptr;  // of who wanted it
    int outstanding = 0;
    // What was sent, on its device; once, without the mutex.
    at::Tensor taken(std::size_t value, std::size_t place);
  };

  // Where messages go, or come from: a rank of a group, and a tag up to
  // largest_tag(). Texts and tensors of a line do not meet.
  struct Line {
    const MpiGroup* group = nullptr;
    int rank = 0, tag = 0;
  };

  // Duplicates the communicator: every rank constructs at the same time.
  explicit MpiEngine(MPI_Comm world);
  ~MpiEngine();

  std::mutex& mutex() { return mutex_; }

  // Whether MPI takes memory of devices as it is.
  bool sends_directly() const { return sends_directly_; }

  // All below: with mutex() held. A tensor is kept until it has left; it is one
  // that as_sent() has made. `waiting` counts messages whose receive has not
  // been posted.
  void send(const Line& to, const Values& values, Priority priority,
            const std::shared_ptr<int>& waiting = nullptr);
  void send_text(const Line& to, std::string text);
  // The layout outlives the use of what has arrived.
  void receive(const Line& from, const MessageLayout& layout, Priority priority,
               const std::shared_ptr<Receive>& into);
  // Calls `arrived` once with the text of that line, while moving on.
  void expect_text(const Line& from,
                   std::function<void(const std::string&)> arrived);
  // Of a request of the caller's own: one thing less is outstanding when it is
  // complete; until then the tensor is kept.
  void add_request(MPI_Request request, at::Tensor kept,
                   const std::shared_ptr<Receive>& into);
  // So many messages of that form may be under way at once: from now on they
  // ask for no memory of the engine's own.
  void expect_sends(int rank, const MessageLayout& layout, Priority priority,
                    int count);
  void expect_receives(const MessageLayout& layout, Priority priority,
                       int count);
  void move_on();
  bool is_idle() const {
    return active_.empty() && texts_.empty() && is_queue_empty();
  }
  void tell_cancelled();
  bool is_cancelled() const { return cancelled_; }

  // Without the mutex: moves on until `done`, or throws Cancelled. `done` is
  // asked with the mutex held.
  void wait_until(c10::function_ref<bool()> done);

  void start_thread();
  const MpiGroup& everyone() const { return everyone_; }
  int largest_tag() const { return largest_tag_; }

 private:
  // What a request keeps alive, and who learns that it is complete.
  struct Pending {
    at::Tensor tensor = {};
    std::shared_ptr<const std::string> text = nullptr;
    int* under_way = nullptr;
    std::shared_ptr<int> waiting = nullptr;  // of the last piece of a message
    std::shared_ptr<Receive> into = nullptr;
  };
  struct Outgoing {
    at::Tensor tensor;  // keeps the memory
    const char* from = nullptr;
    int bytes = 0;
    Line to;
    std::shared_ptr<int> waiting;
    std::chrono::steady_clock::time_point since;
  };
  struct Expected {
    Line from;
    std::function<void(const std::string&)> arrived;
  };
  // Of one kind of low priority: receivers take them in this order.
  struct Queue {
    int under_way = 0;
    std::size_t room = 0;  // for pieces that wait
    std::chrono::steady_clock::time_point last_start;
    Ring<Outgoing> waiting;
  };
  struct Peer {
    int high = 0;  // sends under way
    Queue queues[2];
  };

  static Queue& queue_of(Peer& peer, Priority priority);
  void add_request(MPI_Request request, Pending pending);
  void start(Outgoing outgoing, int& under_way);
  void start_low(Peer& peer, Queue& queue);
  void test_requests();
  void probe_texts();
  void post_cancel_receive();
  bool is_queue_empty() const;

  std::mutex mutex_;
  MpiGroup everyone_;
  MPI_Comm control_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1, largest_tag_ = 0;
  std::vector<MPI_Request> active_;
  std::vector<Pending> pending_;  // beside active_
  std::vector<int> completed_;
  std::vector<Outgoing> pieces_;  // of the message that is sent now
  std::size_t room_ = 0;          // for requests
  std::vector<Expected> texts_;
  std::vector<Peer> peers_;
  MPI_Request cancel_request_ = MPI_REQUEST_NULL;
  int cancel_word_ = 0;
  bool cancelled_ = false;
  const bool sends_directly_;
  std::chrono::steady_clock::time_point last_move_;
  std::string failure_;  // of the thread
  std::atomic<bool> ends_{false};
  std::thread thread_;
};

}  // namespace pipewright
