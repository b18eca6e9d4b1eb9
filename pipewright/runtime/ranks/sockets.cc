#include "pipewright/runtime/ranks/sockets.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace pipewright {
namespace {

int milliseconds(Seconds time) { return static_cast<int>(time.value() * 1e3); }

void set_options(int fd) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

bool becomes_ready(int fd, short what, Seconds within) {
  pollfd entry{fd, what, 0};
  return ::poll(&entry, 1, milliseconds(within)) == 1;
}

bool would_block() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

Socket try_address(const std::string& address, int port, Seconds within) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::inet_pton(AF_INET, address.c_str(), &to.sin_addr) != 1) return {};
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return {};
  set_options(socket.fd());
  if (::connect(socket.fd(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0)
    return socket;
  if (errno != EINPROGRESS || !becomes_ready(socket.fd(), POLLOUT, within))
    return {};
  int error = 0;
  socklen_t size = sizeof(error);
  ::getsockopt(socket.fd(), SOL_SOCKET, SO_ERROR, &error, &size);
  return error == 0 ? std::move(socket) : Socket();
}

}  // namespace

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
    rest_ = std::move(other.rest_);
  }
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

// A part of a message, and then the next one, would shift all that follow.
bool Socket::send(const void* bytes, std::size_t size) {
  if (fd_ < 0 || !send_rest()) return false;
  rest_.assign(static_cast<const char*>(bytes), size);
  send_rest();
  return true;
}

bool Socket::send_rest() {
  if (rest_.empty()) return true;
  const ssize_t sent =
      ::send(fd_, rest_.data(), rest_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (sent > 0) rest_.erase(0, static_cast<std::size_t>(sent));
  return rest_.empty();
}

Result<Listener> listening_socket() {
  Socket socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  socklen_t size = sizeof(any);
  if (!socket.is_open() ||
      ::bind(socket.fd(), reinterpret_cast<sockaddr*>(&any), size) != 0 ||
      ::listen(socket.fd(), 1024) != 0 ||
      ::getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&any), &size) != 0)
    return Error{
        ErrorCode::WorkerLost,
        std::string("cannot listen for other ranks: ") + std::strerror(errno),
        "",
        "",
        {}};
  return Listener{std::move(socket), ntohs(any.sin_port)};
}

Socket accepted(const Socket& listener, Seconds within) {
  if (!becomes_ready(listener.fd(), POLLIN, within)) return {};
  Socket socket(::accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (socket.is_open()) set_options(socket.fd());
  return socket;
}

std::vector<std::string> own_addresses() {
  std::vector<std::string> addresses;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {"127.0.0.1"};
  for (const ifaddrs* each = all; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr || each->ifa_addr->sa_family != AF_INET)
      continue;
    const auto* in = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
    char text[INET_ADDRSTRLEN] = "";
    ::inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
    if (std::strncmp(text, "127.", 4) != 0) addresses.emplace_back(text);
  }
  ::freeifaddrs(all);
  addresses.emplace_back("127.0.0.1");
  return addresses;
}

Socket connected(const std::vector<std::string>& addresses, int port,
                 Seconds within) {
  for (const std::string& address : addresses)
    if (Socket socket = try_address(
            address, port, within / static_cast<double>(addresses.size()));
        socket.is_open())
      return socket;
  return {};
}

bool send_whole(const Socket& socket, const void* bytes, std::size_t size,
                Seconds within) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t n = ::send(socket.fd(), static_cast<const char*>(bytes) + at,
                             size - at, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) at += static_cast<std::size_t>(n);
    if (n < 0 && !would_block()) return false;
    if (n < 0 && !becomes_ready(socket.fd(), POLLOUT, within)) return false;
  }
  return true;
}

bool receive_whole(const Socket& socket, void* bytes, std::size_t size,
                   Seconds within) {
  for (std::size_t at = 0; at < size;) {
    const ssize_t n = ::recv(socket.fd(), static_cast<char*>(bytes) + at,
                             size - at, MSG_DONTWAIT);
    if (n > 0) at += static_cast<std::size_t>(n);
    if (n == 0 || (n < 0 && !would_block())) return false;
    if (n < 0 && !becomes_ready(socket.fd(), POLLIN, within)) return false;
  }
  return true;
}

bool MessageReader::read(const Socket& socket) {
  char buffer[4096];
  while (true) {
    const ssize_t n = ::recv(socket.fd(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n > 0) {
      bytes_.append(buffer, n);
      continue;
    }
    return n < 0 && would_block();
  }
}

bool MessageReader::next(void* message) {
  if (bytes_.size() < size_) return false;
  std::memcpy(message, bytes_.data(), size_);
  bytes_.erase(0, size_);
  return true;
}

void wait_for_any(const std::vector<const Socket*>& sockets, Seconds at_most) {
  std::vector<pollfd> entries;
  for (const Socket* socket : sockets)
    if (socket->is_open()) entries.push_back({socket->fd(), POLLIN, 0});
  ::poll(entries.data(), entries.size(), milliseconds(at_most));
}

}  // namespace pipewright
