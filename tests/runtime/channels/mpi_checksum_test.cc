// Checksums over MPI, with a transport that flips bits: this program has its
// own MPI_Isend and MPI_Issend (MPI's profiling interface), which alter one bit
// of a message when they are asked to. Every such message is found.

#include <doctest/doctest.h>

#include <array>
#include <cstring>
#include <deque>
#include <random>

#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/channels/mpi_include.h"
#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/channels/ranks.h"

namespace {

std::mt19937 draw(11);
int sends_until_flip = -1;              // -1: none is asked for
std::deque<std::vector<char>> altered;  // MPI may still read them

const void* as_transported(const void* data, int count) {
  if (sends_until_flip < 0 || count == 0 || sends_until_flip-- > 0) return data;
  const auto* bytes = static_cast<const char*>(data);
  std::vector<char>& copy = altered.emplace_back(bytes, bytes + count);
  const auto bit = draw() % (8 * copy.size());
  copy[bit / 8] = static_cast<char>(copy[bit / 8] ^ (1 << bit % 8));
  return copy.data();
}

}  // namespace

extern "C" {

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag,
              MPI_Comm comm, MPI_Request* request) {
  return PMPI_Isend(as_transported(data, count), count, type, to, tag, comm,
                    request);
}

int MPI_Issend(const void* data, int count, MPI_Datatype type, int to, int tag,
               MPI_Comm comm, MPI_Request* request) {
  return PMPI_Issend(as_transported(data, count), count, type, to, tag, comm,
                     request);
}

}  // extern "C"

namespace pipewright {
namespace {

using namespace testing;

bool is_corrupted(Channel& channel, TransferId transfer, int key) {
  try {
    channel.take(transfer, key);
    return false;
  } catch (const CorruptedMessage& error) {
    const std::string text = error.what();
    return text.find("from rank 0 to rank 1") != std::string::npos;
  }
}

// Of each kind of transfer: one tensor, several, a megabyte, in pieces.
Values message(int kind, int key) {
  constexpr std::array<std::int64_t, 4> kSizes = {1, 77, 5000, 300'000};
  Values values = {{at::full({kSizes[static_cast<std::size_t>(kind)]},
                             0.1 * key + kind, at::kFloat)}};
  if (kind < 2)
    values.push_back({at::arange(key, key + 9), at::ones({3}, at::kHalf)});
  return values;
}
int num_sends(int kind) { return kind < 2 ? 4 : kind == 2 ? 2 : 3; }

TEST_CASE("1,000 of 1,000 flipped bits are found in tensors") {
  const auto transport = session().connect({.checksum = true});
  const Program program = reducing(session().size(), {0}, {0});
  const auto channels = transport->connect(program);
  Channel& channel = *channels[0];
  constexpr int kTrials = 1000, kWarmUp = 8;
  int found = 0, clean = 0;
  for (int key = 0; key < kWarmUp + 2 * kTrials; ++key) {
    const int kind = key / 2 % 4;
    const bool flips = key >= kWarmUp && key % 2 == 0;
    if (session().rank() == 0) {
      if (flips)
        sends_until_flip = static_cast<int>(draw() % unsigned(num_sends(kind)));
      channel.send(onwards(0, kind), key, message(kind, key));
      channel.take(back_to(0), key);  // it has arrived
      REQUIRE(sends_until_flip == -1);
    } else if (session().rank() == 1) {
      if (flips) {
        found += is_corrupted(channel, onwards(0, kind), key);
      } else {
        const Values values = channel.take(onwards(0, kind), key);
        const Values sent = message(kind, key);
        REQUIRE(values.size() == sent.size());
        clean += values[0][0].equal(sent[0][0]);
      }
      channel.send(back_to(0), key, {{at::ones({1})}});
    }
  }
  if (session().rank() != 1) return;
  CHECK(found == kTrials);
  CHECK(clean == kWarmUp + kTrials);
}

// Without a checksum the same message is taken as it comes: it was altered.
TEST_CASE("without checksums nobody notices") {
  const auto transport = session().connect({});
  const Program program = reducing(session().size(), {0}, {0});
  const auto channels = transport->connect(program);
  const at::Tensor zeros = at::zeros({100}, at::kLong);
  for (int key = 0; key < 20; ++key) {
    if (session().rank() == 0) {
      if (key > 0) sends_until_flip = 0;
      channels[0]->send(onwards(0), key, {{zeros}});
      channels[0]->take(back_to(0), key);
    } else if (session().rank() == 1) {
      CHECK(channels[0]->take(onwards(0), key)[0][0].equal(zeros) ==
            (key == 0));
      channels[0]->send(back_to(0), key, {{at::ones({1})}});
    }
  }
}

TEST_CASE("flipped bits are found in gradients of replicas") {
  const auto transport = session().connect({.checksum = true});
  const int workers = session().size();
  const Program program = reducing(workers, {0, 1}, {1});
  for (int trial = 0; trial < 100; ++trial) {
    const auto channels = transport->connect(program);
    if (session().rank() > 1) continue;
    for (const int minibatch : {0, 4}) {
      // The first message of a reduction also carries its layout.
      if (session().rank() == 0 && minibatch > 0)
        sends_until_flip = static_cast<int>(draw() % 3);
      channels[0]->contribute(ReductionId(0), MicrobatchId(minibatch),
                              {{ParameterId(0), LayerId(1), at::ones({6})},
                               {ParameterId(4), LayerId(2), at::ones({900})}});
    }
    if (session().rank() == 0) continue;
    CHECK(channels[0]
              ->reduced(ReductionId(0), MicrobatchId(0))
              .at(0)
              .equal(at::full({6}, 2.0)));
    CHECK_THROWS_AS(channels[0]->reduced(ReductionId(0), MicrobatchId(4)),
                    CorruptedMessage);
  }
}

TEST_CASE("flipped bits are found in layouts, always") {
  for (int trial = 0; trial < 10; ++trial) {
    const auto transport = session().connect({.checksum = trial % 2 == 0});
    const Program program = reducing(session().size(), {0}, {0});
    const auto channels = transport->connect(program);
    if (session().rank() == 0) {
      sends_until_flip = 0;
      channels[0]->send(onwards(0), 0, {{at::ones({8})}});
    } else if (session().rank() == 1) {
      CHECK(is_corrupted(*channels[0], onwards(0), 0));
    }
    channels[0]->cancel();
  }
}

TEST_CASE("every bit counts in a checksum, and so does every length") {
  std::vector<char> bytes(75);
  for (char& byte : bytes) byte = static_cast<char>(draw());
  for (std::size_t size = 0; size <= bytes.size(); ++size) {
    const std::uint64_t whole = checksum_of({bytes.data(), size});
    for (std::size_t bit = 0; bit < 8 * size; ++bit) {
      const char flip = static_cast<char>(1 << bit % 8);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ flip);
      CHECK(checksum_of({bytes.data(), size}) != whole);
      bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ flip);
    }
    CHECK(checksum_of(std::string_view(bytes.data(), size)) == whole);
    if (size > 0) CHECK(checksum_of({bytes.data(), size - 1}) != whole);
  }
}

}  // namespace
}  // namespace pipewright
