// What moves bytes between the ranks of a training: MPI (mpi_network.h) or
// sockets (socket_network.h). For channels/ alone; layouts and programs are not
// known here.
//
// Nothing blocks unless it says so, and bytes move only while a rank asks
// whether its requests are complete or whether a text has come. Several threads
// may call at once, each with lists of its own. Memory that is sent or received
// into must stay until the request is complete. One test checks every
// implementation (tests/runtime/channels/rank_network_test.cc).

#pragma once

#include <c10/util/FunctionRef.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/runtime/tensors.h"

namespace pipewright {

// Requests that are not known to be complete, numbered from 0.
class RequestList {
 public:
  virtual ~RequestList() = default;
  virtual std::size_t size() const = 0;
  bool empty() const { return size() == 0; }
  virtual void reserve(std::size_t count) = 0;
  // Calls `completed` with the number of each request that is complete now, the
  // largest first. It leaves the list, and the last request takes its number.
  virtual void test(c10::function_ref<void(std::size_t)> completed) = 0;
  // Polls with pauses until the list is empty: a checkpoint may take rank 0
  // minutes.
  void wait();
};

enum class Delivery {
  Copied,   // its memory may be written to
  Received  // and its receive has been posted
};

// Messages of one space do not mix with those of others, nor messages with
// texts. Messages of a rank with one tag arrive in the order in which they were
// sent, and so do its texts. Ranks are those of the whole network.
class MessageSpace {
 public:
  virtual ~MessageSpace() = default;

  // A receive has the size of its message.
  virtual void send(RequestList& requests, int to, int tag, const void* bytes,
                    std::size_t size, Delivery until) = 0;
  virtual void receive(RequestList& requests, int from, int tag, void* bytes,
                       std::size_t size) = 0;

  // Texts are small and are not waited for; this one has not been copied until
  // the request is complete.
  virtual void send_text(RequestList& requests, int to, int tag,
                         const void* bytes, std::size_t size) = 0;
  // The next one, if one has come.
  virtual bool next_text(int from, int tag, std::string& text) = 0;

  // Blocks until all ranks of the space have called it.
  virtual void barrier() = 0;

  // Where the network adds_up(): the sum over all ranks of the space, in place.
  // Numbers are float or double.
  virtual void all_reduce(RequestList& requests, const at::Tensor& numbers);
};

// A word from any rank to all others, once.
class Cancellation {
 public:
  virtual ~Cancellation() = default;
  virtual void send() = 0;
  virtual bool has_come() = 0;
};

struct HostRanks {
  int mine = 0, count = 1;  // on this host
};

class RankNetwork {
 public:
  // The largest size of a message or text.
  static constexpr std::size_t kMaxSize = std::size_t{1} << 30;

  virtual ~RankNetwork() = default;
  virtual std::string name() const = 0;  // "MPI" or "sockets"
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual int largest_tag() const = 0;
  virtual HostRanks ranks_on_host() const = 0;
  // Whether its spaces have all_reduce().
  virtual bool adds_up() const { return false; }

  virtual std::unique_ptr<RequestList> requests() = 0;
  // A space of these ranks, ascending; null on others. Every rank asks for the
  // same spaces in the same order. Only members wait for each other, so ranks
  // cannot deadlock here.
  virtual std::unique_ptr<MessageSpace> space(
      const std::vector<int>& ranks) = 0;
  std::unique_ptr<MessageSpace> space_of_all();
  // Every rank asks at the same time, as for a space.
  virtual std::unique_ptr<Cancellation> cancellation() = 0;
};

// Keeps it to the end of the process: messages of a cancelled run may still use
// its memory.
template <class T>
void abandon(std::unique_ptr<T> kept) {
  static auto* const all = new std::vector<std::unique_ptr<T>>;
  all->push_back(std::move(kept));
}

}  // namespace pipewright
