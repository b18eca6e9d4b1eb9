#include "cli/serve/bounded_server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <memory>

#include "cli/plan/watch.h"

namespace pipewright::cli {
namespace {

constexpr int kPollMs = 50;
constexpr double kLingerSeconds = 0.5;

// The socket whose request this thread answers: the library does not hand it to
// the functions that answer.
thread_local socket_t answered_socket = -1;

class ViewerStream final : public httplib::Stream {
 public:
  ViewerStream(socket_t socket, const BoundedServer& server)
      : socket_(socket), server_(server) {}

  bool is_readable() const override { return begin_ < end_ || can(POLLIN, 0); }
  bool is_writable() const override { return can(POLLOUT, 0); }

  ssize_t read(char* to, std::size_t size) override {
    if (begin_ == end_ && !fill()) return -1;
    const std::size_t count = std::min(size, end_ - begin_);
    std::copy_n(buffer_.data() + begin_, count, to);
    begin_ += count;
    return static_cast<ssize_t>(count);
  }

  ssize_t write(const char* from, std::size_t size) override {
    if (!wait_for(POLLOUT)) return -1;
    return ::send(socket_, from, size, MSG_NOSIGNAL | MSG_DONTWAIT);
  }

  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip.clear(), port = 0;
  }
  void get_local_ip_and_port(std::string& ip, int& port) const override {
    ip.clear(), port = 0;
  }
  socket_t socket() const override { return socket_; }

 private:
  bool can(short event, int timeout_ms) const {
    pollfd asked{socket_, event, 0};
    return ::poll(&asked, 1, timeout_ms) > 0;
  }

  bool wait_for(short event) {
    const double start = now_seconds();
    const double left = kMaxWaitingSeconds - waited_;
    bool ready = can(event, 0);
    while (!ready && !server_.is_stopping() && now_seconds() - start < left)
      ready = can(event, kPollMs);
    waited_ += now_seconds() - start;
    return ready;
  }

  bool fill() {
    if (num_read_ > kMaxRequestBytes || !wait_for(POLLIN)) return false;
    const ssize_t count = ::recv(socket_, buffer_.data(), buffer_.size(), 0);
    if (count <= 0) return false;
    begin_ = 0, end_ = static_cast<std::size_t>(count);
    num_read_ += end_;
    return true;
  }

  socket_t socket_;
  const BoundedServer& server_;
  std::array<char, 4096> buffer_;
  std::size_t begin_ = 0, end_ = 0, num_read_ = 0;
  double waited_ = 0;
};

// Closing a socket with unread bytes would take the answer back from a viewer
// that still sends: they are read and dropped for a moment.
void close_gently(socket_t socket) {
  ::shutdown(socket, SHUT_WR);
  std::array<char, 4096> dropped;
  const double end = now_seconds() + kLingerSeconds;
  pollfd asked{socket, POLLIN, 0};
  while (now_seconds() < end && ::poll(&asked, 1, kPollMs) >= 0)
    if ((asked.revents & (POLLIN | POLLERR | POLLHUP)) != 0 &&
        ::recv(socket, dropped.data(), dropped.size(), MSG_DONTWAIT) <= 0)
      break;
  ::close(socket);
}

bool has_hung_up(socket_t socket) {
  char byte = 0;
  const ssize_t count = ::recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return count == 0 || (count < 0 && errno != EAGAIN && errno != EWOULDBLOCK &&
                        errno != EINTR);
}

// A search asks before every simulation; the socket is asked less often.
class Absence {
 public:
  Absence(socket_t socket, const BoundedServer& server)
      : socket_(socket), server_(server) {}

  bool is_gone() {
    if (is_gone_ || server_.is_stopping()) return true;
    double asked = asked_;
    const double now = now_seconds();
    if (now - asked < kPollMs / 1000.0 ||
        !asked_.compare_exchange_strong(asked, now))
      return false;
    if (has_hung_up(socket_)) is_gone_ = true;
    return is_gone_;
  }

 private:
  socket_t socket_;
  const BoundedServer& server_;
  std::atomic<bool> is_gone_ = false;
  std::atomic<double> asked_ = 0;
};

}  // namespace

void BoundedServer::stop_all() {
  is_stopping_ = true;
  stop();
}

std::function<bool()> BoundedServer::viewer_is_gone() const {
  auto absence = std::make_shared<Absence>(answered_socket, *this);
  return [absence] { return absence->is_gone(); };
}

bool BoundedServer::process_and_close_socket(socket_t socket) {
  ViewerStream stream(socket, *this);
  answered_socket = socket;
  bool is_closed = false;
  const bool answered = process_request(
      stream, /*close_connection=*/true, is_closed,
      [](httplib::Request& request) {
        request.headers.erase("Accept-Encoding");  // nothing is compressed
        request.ranges.clear();                    // or sent in parts
      });
  answered_socket = -1;
  close_gently(socket);
  return answered;
}

}  // namespace pipewright::cli
