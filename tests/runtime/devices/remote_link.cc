// Links over sockets of one host; see remote_link.h.

#include "tests/runtime/devices/remote_link.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace pipewright::testing {
namespace {

std::atomic<int> linked_tensors = 0;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(std::string("remote link: ") + what);
}

bool read_all(int socket, void* to, std::size_t size) {
  auto* at = static_cast<char*>(to);
  while (size > 0) {
    const ssize_t got = ::read(socket, at, size);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool write_all(int socket, const void* from, std::size_t size) {
  const auto* at = static_cast<const char*>(from);
  while (size > 0) {
    const ssize_t put = ::send(socket, at, size, MSG_NOSIGNAL);
    if (put <= 0) return false;
    at += put;
    size -= static_cast<std::size_t>(put);
  }
  return true;
}

// Keeps no tensor: whoever sends it does, until it has been received. The
// receiver asks for a number of bytes, and a thread here answers.
class RemoteSender final : public DirectLink {
 public:
  explicit RemoteSender(int socket)
      : socket_(socket), thread_([this] { serve(); }) {}
  ~RemoteSender() override {
    ::shutdown(socket_, SHUT_RDWR);
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    sent_.notify_all();
    thread_.join();
    ::close(socket_);
  }

  void send(const Tensors& tensors) override {
    std::vector<Bytes> message;
    for (const at::Tensor& tensor : tensors) {
      require(tensor.is_privateuseone(), "a tensor is not on the device");
      require(tensor.is_non_overlapping_and_dense(), "a tensor has gaps");
      message.push_back({tensor.const_data_ptr(), tensor.nbytes()});
    }
    {
      const std::lock_guard lock(mutex_);
      under_way_.push_back(std::move(message));
      ++num_sent_;
    }
    sent_.notify_all();
  }
  std::int64_t num_received() override { return num_received_; }
  bool lets_write() override { return num_received_ == num_sent_; }
  void receive(const Tensors&) override { require(false, "a sender receives"); }

 private:
  struct Bytes {
    const void* from = nullptr;
    std::size_t size = 0;
  };

  void serve() {
    std::uint64_t num_tensors = 0;
    while (read_all(socket_, &num_tensors, sizeof(num_tensors))) {
      std::unique_lock lock(mutex_);
      sent_.wait(lock, [this] { return ends_ || !under_way_.empty(); });
      if (ends_) return;
      const std::vector<Bytes> message = std::move(under_way_.front());
      under_way_.pop_front();
      lock.unlock();
      if (message.size() != num_tensors) return;  // ends the connection
      for (const Bytes& each : message) {
        const std::uint64_t size = each.size;
        if (!write_all(socket_, &size, sizeof(size)) ||
            !write_all(socket_, each.from, each.size))
          return;
      }
      ++num_received_;
    }
  }

  const int socket_;
  std::mutex mutex_;
  std::condition_variable sent_;
  std::deque<std::vector<Bytes>> under_way_;
  bool ends_ = false;
  std::atomic<std::int64_t> num_sent_ = 0, num_received_ = 0;
  std::thread thread_;
};

class RemoteReceiver final : public DirectLink {
 public:
  explicit RemoteReceiver(int socket) : socket_(socket) {}
  ~RemoteReceiver() override { ::close(socket_); }

  void send(const Tensors&) override { require(false, "a receiver sends"); }
  std::int64_t num_received() override { return 0; }
  bool lets_write() override { return true; }
  void receive(const Tensors& tensors) override {
    const std::uint64_t num_tensors = tensors.size();
    require(write_all(socket_, &num_tensors, sizeof(num_tensors)), "it ended");
    for (const at::Tensor& tensor : tensors) {
      std::uint64_t size = 0;
      require(read_all(socket_, &size, sizeof(size)),
              "other tensors were sent");
      require(size == tensor.nbytes(), "a tensor of another size was sent");
      require(read_all(socket_, tensor.data_ptr(), size), "it ended");
      ++linked_tensors;
    }
  }

 private:
  const int socket_;
};

sockaddr_un address_of(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // without a file: the first byte is zero
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  return address;
}

// What the receiver does not do.
enum class Fails {
  Nothing,
  Preparing,  // whoever opens it waits for ever
  Opening
};

class RemoteLinkKind final : public LinkKind {
 public:
  RemoteLinkKind(std::string name, Fails fails)
      : name_(std::move(name)), fails_(fails) {}

  std::string name() const override { return name_; }
  std::string end_at(at::Device) override { return "remote"; }
  std::string why_not(const std::string& sender,
                      const std::string& receiver) override {
    return sender == receiver ? "" : "one end is not of tests";
  }
  std::string invitation(at::Device) override {
    static int num_invitations = 0;
    const std::string name = "pipewright-" + std::to_string(::getpid()) + "-" +
                             std::to_string(++num_invitations);
    listener_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(name);
    require(::bind(listener_, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) == 0 &&
                ::listen(listener_, 1) == 0,
            "cannot listen");
    return name;
  }
  void prepare(at::Device, bool is_sender) override {
    require(is_sender || fails_ != Fails::Preparing, "it is not ready");
  }
  std::unique_ptr<DirectLink> open(at::Device, const std::string& invitation,
                                   bool is_sender) override {
    const bool is_broken = fails_ == Fails::Opening;
    require(is_sender || !is_broken, "it is broken");
    if (is_broken) {
      ::close(listener_);
      return std::make_unique<RemoteReceiver>(::dup(0));  // never used
    }
    if (is_sender) {
      const int socket = ::accept(listener_, nullptr, nullptr);
      ::close(listener_);
      require(socket >= 0, "nobody came");
      return std::make_unique<RemoteSender>(socket);
    }
    const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(invitation);
    require(::connect(socket, reinterpret_cast<const sockaddr*>(&address),
                      sizeof(address)) == 0,
            "cannot connect");
    return std::make_unique<RemoteReceiver>(socket);
  }

 private:
  const std::string name_;
  const Fails fails_;
  int listener_ = -1;
};

}  // namespace

void use_remote_links(RemoteLinks links) {
  LinkKinds kinds;
  const auto add = [&](const char* name, Fails fails) {
    kinds.push_back(std::make_shared<RemoteLinkKind>(name, fails));
  };
  if (links == RemoteLinks::FirstBroken) {
    add("Unready", Fails::Preparing);
    add("Broken", Fails::Opening);
  }
  if (links != RemoteLinks::None) add("Pipe", Fails::Nothing);
  use_link_kinds(c10::DeviceType::PrivateUse1, std::move(kinds));
}

int num_linked_tensors() { return linked_tensors; }

}  // namespace pipewright::testing
