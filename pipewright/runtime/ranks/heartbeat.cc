// Heartbeats and verdicts; see heartbeat.h.

#include "pipewright/runtime/ranks/heartbeat.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>

#include "pipewright/base/text.h"
#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/ranks/agreement.h"
#include "pipewright/runtime/ranks/listener_address.h"
#include "pipewright/runtime/ranks/sockets.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr Seconds kInterval{0.1};
// After a gap this long in our own heartbeats it was this rank that was
// stopped.
constexpr Seconds kOwnGap{0.6};
// Silence that is worth a line.
constexpr Seconds kStall{1};

enum class MessageKind : std::int32_t {
  Hello,
  Beat,
  Finished,
  Why,
  Verdict
};

// All ranks run the same build, so the struct is sent as it is.
struct Message {
  MessageKind kind = MessageKind::Beat;
  std::int32_t rank = 0;
  std::uint64_t token = 0;  // of this run: other programs do not know it
  Snapshot snapshot;
  std::int32_t signal = 0;
  // Of a verdict, or of what ends this rank.
  std::int32_t culprit = -1;
  std::int32_t code = 0;
  char text[256] = "";

  void set_text(const std::string& said) {
    constexpr std::size_t kMaxBytes = sizeof(text) - 1;
    const bool fits = said.size() <= kMaxBytes;
    const std::string kept =
        fits ? said : said.substr(0, kMaxBytes - 4) + " ...";
    std::memcpy(text, kept.data(), kept.size());
  }
};
// As it travels. One whose bits have changed on the way counts as not sent.
struct Frame {
  Message message;
  std::uint64_t checksum = 0;

  std::uint64_t own_checksum() const {
    MessageChecksum sum;
    sum.add(&message, sizeof(message));
    return sum.value();
  }
};
static_assert(std::is_trivially_copyable_v<Frame>);

void send_message(Socket& socket, const Message& message) {
  Frame frame;
  frame.message = message;
  frame.checksum = frame.own_checksum();
  socket.send(&frame, sizeof(frame));
}

// The next one that is intact.
bool next_message(MessageReader& reader, Message& message) {
  for (Frame frame; reader.next(&frame);)
    if (frame.checksum == frame.own_checksum()) {
      message = frame.message;
      return true;
    }
  return false;
}

Error lost(std::string message) {
  return {ErrorCode::WorkerLost,
          std::move(message),
          "",
          "can the hosts reach each other's ports?",
          {}};
}

// Another rank at the end of a connection.
struct Peer {
  int rank = 0;
  Socket socket;
  MessageReader reader{sizeof(Frame)};
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
    const ListenerAddress listener = unpacked_listener(transport.broadcast({}));
    token_ = listener.token;
    Socket socket =
        connected(listener.addresses, listener.port, limits_.set_up);
    if (!socket.is_open())
      return lost("no heartbeat connection from rank " + std::to_string(rank_) +
                  " on " + host_name() + " to rank 0 on " + listener.host +
                  " port " + std::to_string(listener.port));
    add_peer(0, std::move(socket));
    send_message(peers_[0].socket, message(MessageKind::Hello));
    return {};
  }

  void start_thread() {
    thread_ = std::thread([this] { beat(); });
  }

  void finish() override {
    if (finished_.exchange(true)) return;
    const std::lock_guard lock(mutex_);
    send_to_all(message(MessageKind::Finished));
  }

  void say_why(const Error& error) override {
    const std::lock_guard lock(mutex_);
    Message sent = message(MessageKind::Why);
    sent.code = static_cast<std::int32_t>(error.code);
    sent.set_text(error.where.empty() ? error.message
                                      : error.where + ": " + error.message);
    send_to_all(sent);
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

  Message message(MessageKind kind) const {
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
    const ListenerAddress own = own_listener(listener);
    token_ = own.token;
    transport.broadcast(packed(own));
    std::vector<bool> is_connected(size_, false);
    is_connected[0] = true;
    while (static_cast<int>(peers_.size()) < size_ - 1) {
      Socket socket = accepted(listener.socket, Seconds(0.5));
      if (socket.is_open()) greet(std::move(socket), is_connected);
      if (now() > limits_.set_up) return lost(missing_text(is_connected));
    }
    return {};
  }

  // Closes a connection that does not come from one of our ranks.
  void greet(Socket socket, std::vector<bool>& is_connected) {
    MessageReader reader(sizeof(Frame));
    Message hello;
    for (int i = 0; i < 20 && !next_message(reader, hello); ++i) {
      wait_for_any({&socket}, kInterval);
      reader.read(socket);
    }
    if (hello.kind != MessageKind::Hello || hello.token != token_ ||
        hello.rank <= 0 || hello.rank >= size_ || is_connected[hello.rank])
      return;
    is_connected[hello.rank] = true;
    add_peer(hello.rank, std::move(socket));
    // It may have read a part of the next message already.
    peers_.back().reader = std::move(reader);
  }

  std::string missing_text(const std::vector<bool>& is_connected) const {
    std::string text =
        "no heartbeat within " + to_text(limits_.set_up) + " from rank";
    for (std::size_t r = 0; r < is_connected.size(); ++r)
      if (!is_connected[r]) text += " " + std::to_string(r);
    return text;
  }

  void send_to_all(const Message& sent) {
    for (Peer& peer : peers_) send_message(peer.socket, sent);
  }

  void beat() {
    Seconds last = now(), next = last;
    while (!ends_) {
      wait_for_messages();
      const std::lock_guard lock(mutex_);
      const Seconds time = now(), gap = time - last;
      note_stall(rank_, gap, progress_.snapshot());
      if (gap > kOwnGap) allow_for(gap);
      last = time;
      receive(time);
      // Silence counts from the last heartbeat.
      if (gap > limits_.least - kInterval * 2) check_if_given_up(gap);
      if (time >= next && !finished_) {
        send_to_all(message(MessageKind::Beat));
        next = time + kInterval;
      }
      if (!finished_ && !is_over_) judge(time);
    }
  }

  void wait_for_messages() {
    std::vector<const Socket*> sockets;
    for (const Peer& peer : peers_)
      if (!peer.view.is_closed) sockets.push_back(&peer.socket);
    wait_for_any(sockets, kInterval / 4);
  }

  // The time in which this rank was stopped does not count as others' silence.
  void allow_for(Seconds gap) {
    own_changed_ += gap;
    for (Peer& peer : peers_) {
      peer.view.heard += gap;
      peer.view.changed += gap;
    }
  }

  void note_stall(int rank, Seconds silence, const Snapshot& last) const {
    if (rank_ == 0 && silence > kStall && last.phase != Phase::SetUp &&
        !is_over_ && !finished_ && hooks_.on_stall)
      hooks_.on_stall(rank, silence);
  }

  // A rank that ended while this one was stopped has given up on this one.
  void check_if_given_up(Seconds gap) {
    const auto is_gone = [](const Peer& peer) {
      return peer.view.is_closed && !peer.view.has_finished;
    };
    if (std::any_of(peers_.begin(), peers_.end(), is_gone))
      conclude({rank_,
                "was stopped for " + to_text(gap) +
                    ", and the other ranks have ended",
                ErrorCode::WorkerLost},
               false);
  }

  void receive(Seconds time) {
    for (Peer& peer : peers_) {
      if (peer.view.is_closed) continue;
      const bool is_open = peer.reader.read(peer.socket);
      for (Message received; next_message(peer.reader, received);) {
        const auto code = static_cast<ErrorCode>(received.code);
        if (received.kind == MessageKind::Verdict)
          conclude({received.culprit, received.text, code}, true);
        if (received.kind == MessageKind::Why)
          peer.view.why = Error{code, received.text, "", "", {}};
        if (received.kind == MessageKind::Finished)
          peer.view.has_finished = true;
        if (received.snapshot.count != peer.view.last.count)
          peer.view.changed = time;
        note_stall(peer.rank, time - peer.view.heard, peer.view.last);
        peer.view.last = received.snapshot;
        peer.view.heard = time;
        peer.signal = received.signal;
      }
      peer.view.is_closed = !is_open;
    }
  }

  // Rank 0 judges all ranks, the others judge rank 0.
  void judge(Seconds time) {
    const Snapshot own = progress_.snapshot();
    if (own.count != own_count_) {
      own_count_ = own.count;
      own_changed_ = time;
    }
    RankView mine{own, time, own_changed_, false, false, std::nullopt};
    std::vector<RankView> views(size_, mine);
    for (const Peer& peer : peers_) views[peer.rank] = peer.view;
    if (rank_ != 0) {
      // Only whether it is gone or silent: who makes no progress is for rank 0
      // to say.
      views.resize(1);
      views[0].changed = time;
    }
    if (const auto found = verdict(views, limits_, time))
      conclude(*found, false);
  }

  void conclude(const Verdict& found, bool from_leader) {
    if (is_over_ || finished_) return;
    is_over_ = true;
    if (rank_ == 0) {
      Message sent = message(MessageKind::Verdict);
      sent.culprit = found.rank;
      sent.code = static_cast<std::int32_t>(found.code);
      sent.set_text(found.text);
      send_to_all(sent);
    }
    if (hooks_.on_lost) hooks_.on_lost(found, from_leader);
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
  auto heartbeat =
      std::make_unique<SocketHeartbeat>(transport.rank(), transport.num_ranks(),
                                        progress, limits, std::move(hooks));
  if (auto done = heartbeat->connect(transport); !done) return done.error();
  heartbeat->start_thread();
  return std::unique_ptr<Heartbeat>(std::move(heartbeat));
}

}  // namespace pipewright
