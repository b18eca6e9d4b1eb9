// Requests, spaces and progress over connections; see socket_network.h.

#include "pipewright/runtime/channels/socket_network.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>

#include "pipewright/runtime/channels/backoff.h"
#include "pipewright/runtime/channels/rendezvous.h"
#include "pipewright/runtime/channels/socket_link.h"

namespace pipewright {
namespace {

constexpr Seconds kShutdown{5};  // for others to end, too
constexpr int kBarrierTag = -1;  // callers' tags are positive
constexpr int kMaxLooks = 64;    // connections that one look reads

// What all lists and spaces share. Every call of theirs holds the mutex.
class SocketHub {
 public:
  SocketHub(int rank, std::vector<Socket> sockets)
      : rank_(rank), events_(::epoll_create1(EPOLL_CLOEXEC)) {
    for (std::size_t r = 0; r < sockets.size(); ++r) {
      SocketLink& link = *links_.emplace_back(std::make_unique<SocketLink>(
          std::move(sockets[r]), static_cast<int>(r)));
      if (link.fd() < 0) continue;  // this rank
      epoll_event event{EPOLLIN, {.ptr = &link}};
      ::epoll_ctl(events_, EPOLL_CTL_ADD, link.fd(), &event);
    }
  }
  ~SocketHub() {
    for (const auto& link : links_) link->shut_down();
    for (const auto& link : links_) link->drain(kShutdown);
    ::close(events_);
  }
  SocketHub(const SocketHub&) = delete;
  SocketHub& operator=(const SocketHub&) = delete;

  std::mutex& mutex() { return mutex_; }
  int rank() const { return rank_; }
  SocketLink& link(int rank) { return *links_[static_cast<std::size_t>(rank)]; }
  const auto& links() const { return links_; }

  // Moves whatever can be moved now. A closed connection leaves the events.
  void make_progress() {
    std::array<epoll_event, kMaxLooks> found;
    const int count = ::epoll_wait(events_, found.data(), kMaxLooks, 0);
    for (int i = 0; i < count; ++i)
      static_cast<SocketLink*>(found[i].data.ptr)->read(cancelled_);
    for (const auto& link : links_) link->write();
  }

  SocketRequest& request(const MessageKey& key, const void* bytes,
                         std::size_t size) {
    if (unused_.empty()) unused_.push_back(&requests_.emplace_back());
    SocketRequest& request = *unused_.back();
    unused_.pop_back();
    request = {key, static_cast<char*>(const_cast<void*>(bytes)), size, 0,
               false};
    return request;
  }
  void reuse(SocketRequest& request) { unused_.push_back(&request); }
  void reserve(std::size_t count) {
    unused_.reserve(std::max(count, requests_.size()));
    while (requests_.size() < count)
      unused_.push_back(&requests_.emplace_back());
    for (const auto& link : links_) link->reserve(count);
  }

  bool is_cancelled(std::uint32_t space) const {
    return std::find(cancelled_.begin(), cancelled_.end(), space) !=
           cancelled_.end();
  }

 private:
  std::mutex mutex_;
  const int rank_, events_;
  std::vector<std::unique_ptr<SocketLink>> links_;  // by rank
  std::deque<SocketRequest> requests_;
  std::vector<SocketRequest*> unused_;
  std::vector<std::uint32_t> cancelled_;
};

class SocketRequests final : public RequestList {
 public:
  explicit SocketRequests(std::shared_ptr<SocketHub> hub)
      : hub_(std::move(hub)) {}

  std::size_t size() const override { return active_.size(); }
  void reserve(std::size_t count) override {
    const std::lock_guard lock(hub_->mutex());
    active_.reserve(count);
    hub_->reserve(count);
  }
  void add(SocketRequest& request) { active_.push_back(&request); }

  void test(c10::function_ref<void(std::size_t)> completed) override {
    const std::lock_guard lock(hub_->mutex());
    hub_->make_progress();
    for (std::size_t at = active_.size(); at-- > 0;) {
      if (!active_[at]->is_complete) continue;
      hub_->reuse(*active_[at]);
      active_[at] = active_.back();
      active_.pop_back();
      completed(at);
    }
  }

 private:
  const std::shared_ptr<SocketHub> hub_;
  std::vector<SocketRequest*> active_;
};

class SocketSpace final : public MessageSpace {
 public:
  SocketSpace(std::shared_ptr<SocketHub> hub, std::uint32_t number,
              std::vector<int> ranks)
      : hub_(std::move(hub)), number_(number), ranks_(std::move(ranks)) {}

  // Nothing is sent before it is received: both ends of Delivery are one.
  void send(RequestList& requests, int to, int tag, const void* bytes,
            std::size_t size, Delivery) override {
    const std::lock_guard lock(hub_->mutex());
    hub_->link(to).send(added(requests, tag, bytes, size));
  }
  void receive(RequestList& requests, int from, int tag, void* bytes,
               std::size_t size) override {
    const std::lock_guard lock(hub_->mutex());
    hub_->link(from).receive(added(requests, tag, bytes, size));
  }
  void send_text(RequestList& requests, int to, int tag, const void* bytes,
                 std::size_t size) override {
    const std::lock_guard lock(hub_->mutex());
    hub_->link(to).send_text(added(requests, tag, bytes, size));
  }
  bool next_text(int from, int tag, std::string& text) override {
    const std::lock_guard lock(hub_->mutex());
    const MessageKey key{number_, tag};
    if (hub_->link(from).next_text(key, text)) return true;
    hub_->make_progress();
    return hub_->link(from).next_text(key, text);
  }

  // All report to the first, which then answers.
  void barrier() override {
    SocketRequests requests(hub_);
    const int first = ranks_.front();
    const bool leads = hub_->rank() == first;
    for (const bool is_answer : {false, true})
      for (const int rank : ranks_) {
        if (leads ? rank == first : rank != first) continue;
        if (leads == is_answer)
          send_text(requests, rank, kBarrierTag, nullptr, 0);
        else
          wait_for_text(rank);
      }
    requests.wait();
  }

 private:
  SocketRequest& added(RequestList& requests, int tag, const void* bytes,
                       std::size_t size) {
    SocketRequest& request = hub_->request({number_, tag}, bytes, size);
    static_cast<SocketRequests&>(requests).add(request);
    return request;
  }

  void wait_for_text(int from) {
    std::string text;
    for (Backoff backoff; !next_text(from, kBarrierTag, text);) backoff.pause();
  }

  const std::shared_ptr<SocketHub> hub_;
  const std::uint32_t number_;
  const std::vector<int> ranks_;
};

class SocketCancellation final : public Cancellation {
 public:
  SocketCancellation(std::shared_ptr<SocketHub> hub, std::uint32_t space)
      : hub_(std::move(hub)), space_(space) {}

  void send() override {
    const std::lock_guard lock(hub_->mutex());
    for (const auto& link : hub_->links()) link->cancel(space_);
  }
  bool has_come() override {
    const std::lock_guard lock(hub_->mutex());
    return hub_->is_cancelled(space_);
  }

 private:
  const std::shared_ptr<SocketHub> hub_;
  const std::uint32_t space_;
};

class SocketNetwork final : public RankNetwork {
 public:
  SocketNetwork(int rank, RankConnections connections)
      : ranks_on_host_(connections.on_host),
        size_(static_cast<int>(connections.sockets.size())),
        hub_(std::make_shared<SocketHub>(rank,
                                         std::move(connections.sockets))) {}

  std::string name() const override { return "sockets"; }
  int rank() const override { return hub_->rank(); }
  int size() const override { return size_; }
  int largest_tag() const override { return (1 << 30) - 1; }
  HostRanks ranks_on_host() const override { return ranks_on_host_; }

  std::unique_ptr<RequestList> requests() override {
    return std::make_unique<SocketRequests>(hub_);
  }
  std::unique_ptr<MessageSpace> space(const std::vector<int>& ranks) override {
    const std::uint32_t number = ++num_spaces_;
    if (!std::binary_search(ranks.begin(), ranks.end(), rank())) return nullptr;
    return std::make_unique<SocketSpace>(hub_, number, ranks);
  }
  std::unique_ptr<Cancellation> cancellation() override {
    return std::make_unique<SocketCancellation>(hub_, ++num_spaces_);
  }

 private:
  const HostRanks ranks_on_host_;
  const int size_;
  const std::shared_ptr<SocketHub> hub_;
  std::uint32_t num_spaces_ = 0;
};

}  // namespace

Result<std::unique_ptr<RankNetwork>> socket_network(const MeetingPlace& place,
                                                    Seconds limit) {
  PIPEWRIGHT_TRY(RankConnections connections, meet(place, limit));
  return std::unique_ptr<RankNetwork>(
      std::make_unique<SocketNetwork>(place.rank, std::move(connections)));
}

}  // namespace pipewright
