// Beats and verdicts; see heartbeat.h.

#include "pipewright/runtime/ranks/heartbeat.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "pipewright/base/text.h"
#include "pipewright/runtime/ranks/agreement.h"
#include "pipewright/runtime/ranks/packing.h"
#include "pipewright/runtime/ranks/sockets.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds kInterval{0.1};
// A gap this long in our own beats means that it was us who were stopped.
constexpr Seconds kOwnGap{0.6};

enum class Kind : std::int32_t {
  Hello,
  Beat,
  Finished,
  Verdict
};

// All processes are of one build: the struct itself travels.
struct Message {
  Kind kind = Kind::Beat;
  std::int32_t rank = 0;
  std::uint64_t token = 0;  // of this run, against strangers
  Snapshot snapshot;
  std::int32_t signal = 0;
  std::int32_t culprit = -1;
  char text[256] = "";
};
static_assert(std::is_trivially_copyable_v<Message>);

Error lost(std::string message) {
  return {ErrorCode::WorkerLost,
          std::move(message),
          "",
          "can the hosts reach each other's ports?",
          {}};
}

// Where the leader listens, as it tells the others over MPI.
struct Meeting {
  std::string host;
  std::vector<std::string> addresses;
  int port = 0;
  std::uint64_t token = 0;
};

std::string packed(const Meeting& meeting) {
  Packer packer;
  packer.text(meeting.host);
  packer.number(meeting.addresses.size());
  for (const std::string& address : meeting.addresses) packer.text(address);
  packer.number(meeting.port);
  packer.number(meeting.token);
  return packer.take();
}

Meeting unpacked_meeting(const std::string& bytes) {
  Unpacker unpacker(bytes);
  Meeting meeting;
  meeting.host = unpacker.text();
  meeting.addresses.resize(unpacker.number<std::size_t>());
  for (std::string& address : meeting.addresses) address = unpacker.text();
  meeting.port = unpacker.number<int>();
  meeting.token = unpacker.number<std::uint64_t>();
  // Loopback is last: on the same host it is the nearest. Containers of one
  // host may have one name and not reach each other that way, though.
  if (meeting.host == host_name())
    std::rotate(meeting.addresses.begin(), meeting.addresses.end() - 1,
                meeting.addresses.end());
  else
    meeting.addresses.pop_back();
  return meeting;
}

// Another process at the end of a connection.
struct Peer {
  int rank = 0;
  Socket socket;
  MessageReader reader{sizeof(Message)};
  RankView view;
  int signal = 0;
};

class SocketHeartbeat final : public Heartbeat {
 public:
  SocketHeartbeat(int rank, int size, const Progress& progress,
                  const Limits& limits, Hooks hooks)
      : rank_(rank),
        size_(size),
        progress_(progress),
        limits_(limits),
        hooks_(std::move(hooks)),
        start_(Clock::now()) {}

  ~SocketHeartbeat() override {
    ends_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Result<void> connect(Transport& transport) {
    if (transport.leads()) return gather_peers(transport);
    const Meeting meeting = unpacked_meeting(transport.broadcast({}));
    token_ = meeting.token;
    Socket socket = connected(meeting.addresses, meeting.port, limits_.set_up);
    if (!socket.is_open())
      return lost("no heartbeat connection from rank " + std::to_string(rank_) +
                  " on " + host_name() + " to rank 0 on " + meeting.host +
                  " port " + std::to_string(meeting.port));
    add_peer(0, std::move(socket));
    Message hello = message(Kind::Hello);
    peers_[0].socket.send(&hello, sizeof(hello));
    return {};
  }

  void start_thread() {
    thread_ = std::thread([this] { beat(); });
  }

  void finish() override {
    if (finished_.exchange(true)) return;
    const std::lock_guard lock(mutex_);
    tell_all(message(Kind::Finished));
  }

  int signal() const override {
    const std::lock_guard lock(mutex_);
    int found = hooks_.signal ? hooks_.signal() : 0;
    for (const Peer& peer : peers_)
      if (found == 0) found = peer.signal;
    return found;
  }

 private:
  Seconds now() const {
    return Seconds(
        std::chrono::duration<double>(Clock::now() - start_).count());
  }

  Message message(Kind kind) const {
    Message message;
    message.kind = kind;
    message.rank = rank_;
    message.token = token_;
    message.snapshot = progress_.snapshot();
    message.signal = hooks_.signal ? hooks_.signal() : 0;
    return message;
  }

  void add_peer(int rank, Socket socket) {
    Peer& peer = peers_.emplace_back();
    peer.rank = rank;
    peer.socket = std::move(socket);
    peer.view.heard = peer.view.changed = now();
  }

  Result<void> gather_peers(Transport& transport) {
    PIPEWRIGHT_TRY(Listener listener, listening_socket());
    std::random_device random;
    token_ = (std::uint64_t{random()} << 32) | random();
    transport.broadcast(
        packed(Meeting{host_name(), own_addresses(), listener.port, token_}));
    std::vector<bool> here(static_cast<std::size_t>(size_), false);
    here[0] = true;
    while (static_cast<int>(peers_.size()) < size_ - 1) {
      Socket socket = accepted(listener.socket, Seconds(0.5));
      if (socket.is_open()) greet(std::move(socket), here);
      if (now() > limits_.set_up) return lost(missing_text(here));
    }
    return {};
  }

  // A stranger's connection is closed again.
  void greet(Socket socket, std::vector<bool>& here) {
    MessageReader reader(sizeof(Message));
    Message hello;
    for (int i = 0; i < 20 && !reader.next(&hello); ++i) {
      wait_for_any({&socket}, kInterval);
      reader.read(socket);
    }
    if (hello.kind != Kind::Hello || hello.token != token_ || hello.rank <= 0 ||
        hello.rank >= size_ || here[static_cast<std::size_t>(hello.rank)])
      return;
    here[static_cast<std::size_t>(hello.rank)] = true;
    add_peer(hello.rank, std::move(socket));
  }

  std::string missing_text(const std::vector<bool>& here) const {
    std::string text =
        "no heartbeat within " + to_text(limits_.set_up) + " from rank";
    for (std::size_t r = 0; r < here.size(); ++r)
      if (!here[r]) text += " " + std::to_string(r);
    return text;
  }

  void tell_all(const Message& said) {
    for (const Peer& peer : peers_) peer.socket.send(&said, sizeof(said));
  }

  void beat() {
    Seconds last = now(), next = last;
    while (!ends_) {
      wait_for_news();
      const std::lock_guard lock(mutex_);
      const Seconds time = now(), gap = time - last;
      if (gap > kOwnGap) forgive(gap);
      last = time;
      hear(time);
      // Silence counts from the last beat.
      if (gap > limits_.least - kInterval * 2) see_who_waited(gap);
      if (time >= next && !finished_) {
        tell_all(message(Kind::Beat));
        next = time + kInterval;
      }
      if (!finished_ && !is_over_) judge(time);
    }
  }

  void wait_for_news() {
    std::vector<const Socket*> sockets;
    for (const Peer& peer : peers_)
      if (!peer.view.is_closed) sockets.push_back(&peer.socket);
    wait_for_any(sockets, kInterval / 4);
  }

  // Beats that came while we were stopped say nothing about the others.
  void forgive(Seconds gap) {
    own_changed_ += gap;
    for (Peer& peer : peers_) {
      peer.view.heard += gap;
      peer.view.changed += gap;
    }
  }

  // Who has gone meanwhile has given this process up, not the other way round.
  void see_who_waited(Seconds gap) {
    const auto is_gone = [](const Peer& peer) {
      return peer.view.is_closed && !peer.view.has_finished;
    };
    if (std::any_of(peers_.begin(), peers_.end(), is_gone))
      conclude({rank_, "was stopped for " + to_text(gap) +
                           ", and the others have given it up"},
               false);
  }

  void hear(Seconds time) {
    for (Peer& peer : peers_) {
      if (peer.view.is_closed) continue;
      const bool goes_on = peer.reader.read(peer.socket);
      for (Message heard; peer.reader.next(&heard);) {
        if (heard.kind == Kind::Verdict)
          conclude({heard.culprit, std::string(heard.text)}, true);
        if (heard.kind == Kind::Finished) peer.view.has_finished = true;
        if (heard.snapshot.count != peer.view.last.count)
          peer.view.changed = time;
        peer.view.last = heard.snapshot;
        peer.view.heard = time;
        peer.signal = heard.signal;
      }
      peer.view.is_closed = !goes_on;
    }
  }

  // The leader judges all, the others the leader: without it nobody would.
  void judge(Seconds time) {
    const Snapshot own = progress_.snapshot();
    if (own.count != own_count_) {
      own_count_ = own.count;
      own_changed_ = time;
    }
    RankView mine{own, time, own_changed_, false, false};
    std::vector<RankView> views(static_cast<std::size_t>(size_), mine);
    for (const Peer& peer : peers_)
      views[static_cast<std::size_t>(peer.rank)] = peer.view;
    if (rank_ != 0) {
      // Only whether it is gone or silent: who does not get on is its to say.
      views.resize(1);
      views[0].changed = time;
    }
    if (const auto found = verdict(views, limits_, time))
      conclude(*found, false);
  }

  void conclude(const Verdict& found, bool is_told) {
    if (is_over_ || finished_) return;
    is_over_ = true;
    if (rank_ == 0) {
      Message said = message(Kind::Verdict);
      said.culprit = found.rank;
      std::strncpy(said.text, found.text.c_str(), sizeof(said.text) - 1);
      tell_all(said);
    }
    if (hooks_.on_lost) hooks_.on_lost(found, is_told);
  }

  const int rank_, size_;
  const Progress& progress_;
  const Limits limits_;
  const Hooks hooks_;
  const Clock::time_point start_;
  std::uint64_t token_ = 0;
  mutable std::mutex mutex_;
  std::deque<Peer> peers_;
  std::int64_t own_count_ = -1;
  Seconds own_changed_;
  bool is_over_ = false;
  std::atomic<bool> finished_{false}, ends_{false};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Heartbeat>> Heartbeat::start(Transport& transport,
                                                    const Progress& progress,
                                                    const Limits& limits,
                                                    Hooks hooks) {
  auto heartbeat = std::make_unique<SocketHeartbeat>(
      transport.process(), transport.num_processes(), progress, limits,
      std::move(hooks));
  if (auto done = heartbeat->connect(transport); !done) return done.error();
  heartbeat->start_thread();
  return std::unique_ptr<Heartbeat>(std::move(heartbeat));
}

}  // namespace pipewright
