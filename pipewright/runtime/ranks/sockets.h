// TCP sockets between ranks: just what the heartbeat and ranks without MPI
// need.

#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), rest_(std::move(other.rest_)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  void close();
  int fd() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }

  // Never waits. What the connection does not take now is sent before the next
  // message; while there is such a rest, messages are dropped whole. False if
  // this one was, or the connection is closed.
  bool send(const void* bytes, std::size_t size);

 private:
  bool send_rest();

  int fd_ = -1;
  std::string rest_;
};

// Listens on all interfaces, on a port that is free.
struct Listener {
  Socket socket;
  int port = 0;
};
Result<Listener> listening_socket();
// The next connection within the time, or none.
Socket accepted(const Socket& listener, Seconds within);

// IPv4 addresses of this host, loopback last.
std::vector<std::string> own_addresses();
// The first of the addresses that answers within the time, or none.
Socket connected(const std::vector<std::string>& addresses, int port,
                 Seconds within);

// Sends or receives so many bytes, and no more; false where that does not work
// within the time.
bool send_whole(const Socket& socket, const void* bytes, std::size_t size,
                Seconds within);
bool receive_whole(const Socket& socket, void* bytes, std::size_t size,
                   Seconds within);

// Splits what has arrived into messages.
class MessageReader {
 public:
  explicit MessageReader(std::size_t size) : size_(size) {}
  // Reads what is there without waiting. False when the connection is closed.
  bool read(const Socket& socket);
  bool next(void* message);

 private:
  std::size_t size_;
  std::string bytes_;
};

// Waits until one of the sockets has something, at most that long.
void wait_for_any(const std::vector<const Socket*>& sockets, Seconds at_most);

}  // namespace pipewright
