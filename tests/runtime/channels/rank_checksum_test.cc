// Checksums over sockets that flip bits: this program has its own sendmsg(),
// which alters one bit of a tensor when it is asked to. Every such message is
// found. Not over MPI, which sends by itself: see mpi_checksum_test.cc.

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <random>
#include <vector>

#include "pipewright/runtime/channels/message_checksum.h"
#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/channels/ranks.h"

namespace {

constexpr std::size_t kTensorBytes = 20'000;

bool flips_next = false;

ssize_t send_as_it_is(int socket, const msghdr* message, int flags) {
  return ::syscall(SYS_sendmsg, socket, message, flags);
}

// Headers are shorter than the tensor.
iovec* tensor_of(const msghdr& message) {
  for (std::size_t i = 0; i < message.msg_iovlen; ++i)
    if (message.msg_iov[i].iov_len == kTensorBytes) return &message.msg_iov[i];
  return nullptr;
}

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  static std::mt19937 draw(13);
  iovec* const tensor = flips_next ? tensor_of(*message) : nullptr;
  if (tensor == nullptr) return send_as_it_is(socket, message, flags);
  flips_next = false;
  const auto* bytes = static_cast<const char*>(tensor->iov_base);
  std::vector<char> altered(bytes, bytes + kTensorBytes);
  const auto bit = draw() % (8 * altered.size());
  altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << bit % 8));
  const iovec before = *tensor;
  tensor->iov_base = altered.data();
  const ssize_t sent = send_as_it_is(socket, message, flags);
  *tensor = before;
  return sent;
}

namespace pipewright {
namespace {

using namespace testing;

bool is_found(Channel& channel, TransferId transfer, int key) {
  try {
    channel.take(transfer, key);
    return false;
  } catch (const CorruptedMessage& error) {
    const std::string text = error.what();
    return text.find("from rank 0 to rank 1") != std::string::npos;
  }
}

TEST_CASE("200 of 200 bits that flip on their way are found") {
  REQUIRE(session().network().name() == "sockets");
  const auto transport =
      session().connect({.progress_thread = false, .checksum = true});
  const Program program = reducing(session().size(), {0}, {0});
  const auto channels = transport->connect(program);
  Channel& channel = *channels[0];
  constexpr int kTrials = 200;
  const at::Tensor sent = at::full({kTensorBytes / 4}, 1.5f);
  int found = 0, clean = 0;
  for (int key = 0; key < 2 * kTrials; ++key) {
    const bool flips = key % 2 == 1;
    if (session().rank() == 0) {
      flips_next = flips;
      channel.send(onwards(0), key, {{sent}});
      channel.take(back_to(0), key);  // it has arrived
      REQUIRE(!flips_next);
    } else if (session().rank() == 1) {
      if (flips)
        found += is_found(channel, onwards(0), key);
      else
        clean += channel.take(onwards(0), key)[0][0].equal(sent);
      channel.send(back_to(0), key, {{at::ones({1})}});
    }
  }
  if (session().rank() != 1) return;
  CHECK(found == kTrials);
  CHECK(clean == kTrials);
}

}  // namespace
}  // namespace pipewright
