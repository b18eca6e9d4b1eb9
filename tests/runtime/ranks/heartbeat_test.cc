// Heartbeats of three ranks, threads here, one of whose connections goes
// through a relay that delays, cuts into fragments, flips bits, or resets.

#include "pipewright/runtime/ranks/heartbeat.h"

#include <doctest/doctest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <random>
#include <thread>

#include "pipewright/runtime/ranks/packing.h"
#include "pipewright/runtime/ranks/sockets.h"

namespace pipewright {
namespace {

using Clock = std::chrono::steady_clock;

struct Roughness {
  std::size_t fragment = 1 << 16;  // bytes at most
  int delay_ms = 0, jitter_ms = 0;
  std::size_t first = 0;  // bytes to rank 0 that arrive together
};

// Between one rank and rank 0, on threads of its own.
class Relay {
 public:
  explicit Relay(const Roughness& rough)
      : rough_(rough), listener_(listening_socket().value()) {
    thread_ = std::thread([this] { run(); });
  }
  ~Relay() {
    ends_ = true;
    thread_.join();
  }
  int port() const { return listener_.port; }
  void lead_to(int port) { target_ = port; }
  void reset() { is_reset_ = true; }
  // In this share of fragments from the rank to rank 0, one bit each.
  void flip_from_now_on(double share) { flips_ = share; }
  int num_flipped() const { return num_flipped_; }

 private:
  struct Fragment {
    Clock::time_point due;
    std::string bytes;
  };
  struct Way {
    Socket* from;
    Socket* to;
    bool may_flip;  // to rank 0
    std::deque<Fragment> waiting = {};
    std::string read = {};  // not yet waiting
  };

  void run() {
    Socket rank;
    while (!rank.is_open() && !ends_)
      rank = accepted(listener_.socket, Seconds(0.05));
    while (target_ == 0 && !ends_) ::poll(nullptr, 0, 1);
    Socket leader = connected({"127.0.0.1"}, target_, Seconds(5));
    std::deque<Way> ways;
    ways.push_back({&rank, &leader, true});
    ways.push_back({&leader, &rank, false});
    while (!ends_ && !is_reset_) {
      wait_for_any({&rank, &leader}, Seconds(0.002));
      for (Way& way : ways) {
        if (!read(way)) return;
        pass_on(way);
      }
      ::poll(nullptr, 0, 1);
    }
    const linger at_once{1, 0};
    for (const Socket* socket : {&rank, &leader})
      ::setsockopt(socket->fd(), SOL_SOCKET, SO_LINGER, &at_once,
                   sizeof(at_once));
  }

  // In the order of arrival, however late.
  bool read(Way& way) {
    char bytes[1 << 16];
    const ssize_t count =
        ::recv(way.from->fd(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (count == 0) return false;
    if (count > 0) way.read.append(bytes, static_cast<std::size_t>(count));
    if (way.may_flip && !has_first_) {
      if (way.read.size() < rough_.first) return true;
      has_first_ = true;
      way.waiting.push_back({Clock::now(), way.read.substr(0, rough_.first)});
      way.read.erase(0, rough_.first);
    }
    while (!way.read.empty()) {
      const auto size =
          std::min<std::size_t>(1 + draw_() % rough_.fragment, way.read.size());
      auto due = Clock::now() + std::chrono::milliseconds(late());
      if (!way.waiting.empty()) due = std::max(due, way.waiting.back().due);
      std::string part = way.read.substr(0, size);
      way.read.erase(0, size);
      if (way.may_flip && std::uniform_real_distribution<>()(draw_) < flips_)
        flip(part);
      way.waiting.push_back({due, std::move(part)});
    }
    return true;
  }

  int late() {
    if (rough_.jitter_ms == 0) return rough_.delay_ms;
    return rough_.delay_ms - rough_.jitter_ms +
           static_cast<int>(draw_() % (2U * rough_.jitter_ms + 1));
  }

  void flip(std::string& bytes) {
    const auto bit = draw_() % (8 * bytes.size());
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    ++num_flipped_;
  }

  static void pass_on(Way& way) {
    while (!way.waiting.empty() && way.waiting.front().due <= Clock::now()) {
      const std::string& bytes = way.waiting.front().bytes;
      static_cast<void>(
          !::send(way.to->fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL));
      way.waiting.pop_front();
    }
  }

  const Roughness rough_;
  bool has_first_ = false;
  const Listener listener_;
  std::mt19937 draw_{7};
  std::atomic<int> target_ = 0, num_flipped_ = 0;
  std::atomic<double> flips_ = 0;
  std::atomic<bool> ends_ = false, is_reset_ = false;
  std::thread thread_;
};

// What rank 0 says, to ranks that are threads.
struct Said {
  std::mutex mutex;
  std::condition_variable changed;
  std::string text;
};

// Rank 1 is told the relay's port instead of rank 0's.
class TestTransport final : public Transport {
 public:
  TestTransport(int rank, Said& said, Relay& relay)
      : rank_(rank), said_(said), relay_(relay) {}
  int rank() const override { return rank_; }
  int num_ranks() const override { return 3; }
  bool is_here(WorkerId worker) const override { return worker.value == rank_; }
  std::vector<std::unique_ptr<Channel>> connect(const Program&) override {
    return {};
  }
  std::vector<std::string> gather(std::string) override { return {}; }
  std::string broadcast(std::string leaders) override {
    std::unique_lock lock(said_.mutex);
    if (rank_ == 0) {
      said_.text = leaders;
      said_.changed.notify_all();
      return leaders;
    }
    said_.changed.wait(lock, [this] { return !said_.text.empty(); });
    return rank_ == 1 ? with_port_of_relay(said_.text) : said_.text;
  }

 private:
  std::string with_port_of_relay(const std::string& bytes) {
    Unpacker from(bytes);
    Packer to;
    to.text(from.text());
    const auto addresses = from.number<std::size_t>();
    to.number(addresses);
    for (std::size_t i = 0; i < addresses; ++i) to.text(from.text());
    relay_.lead_to(from.number<int>());
    to.number(relay_.port());
    to.number(from.number<std::uint64_t>());
    return to.take();
  }

  const int rank_;
  Said& said_;
  Relay& relay_;
};

// Three ranks, connected.
class Ranks {
 public:
  Ranks(Relay& relay, Seconds limit) {
    Limits limits;
    limits.least = limit;
    Said said;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank)
      threads.emplace_back([&, rank] {
        TestTransport transport(rank, said, relay);
        for (int m = 0; m < 9; ++m)  // some steps, so that set-up is over
          progress_[rank].begin(WorkerId(rank), Action(), m, 4);
        progress_[rank].enter(Phase::Waits);
        beats_[rank] =
            Heartbeat::start(transport, progress_[rank], limits, hooks_of(rank))
                .value();
      });
    for (std::thread& thread : threads) thread.join();
  }

  Heartbeat& operator[](int rank) { return *beats_[rank]; }
  void finish() {
    for (const auto& each : beats_) each->finish();
  }

  // Ranks go on from wait to wait, so that nobody misses progress.
  void live(double seconds) {
    const auto end = Clock::now() + std::chrono::duration<double>(seconds);
    while (Clock::now() < end) {
      ::poll(nullptr, 0, 20);
      for (Progress& each : progress_) each.enter(Phase::Waits);
    }
  }
  // Whether that rank has a verdict within the time.
  bool concludes(int rank, double seconds) {
    for (int i = 0; i < 50 * seconds && verdict(rank).empty(); ++i) live(0.02);
    return !verdict(rank).empty();
  }
  // "1 was lost, ...", or "".
  std::string verdict(int rank) {
    const std::lock_guard lock(mutex_);
    return verdicts_[rank];
  }
  ErrorCode code(int rank) {
    const std::lock_guard lock(mutex_);
    return codes_[rank];
  }

  struct Stall {
    int told = 0, rank = 0;
    Seconds silence;
  };
  std::vector<Stall> stalls() {
    const std::lock_guard lock(mutex_);
    return stalls_;
  }

  std::atomic<int> signal_of_1 = 0;

 private:
  Heartbeat::Hooks hooks_of(int rank) {
    return {[this, rank](const Verdict& found, bool) {
              const std::lock_guard lock(mutex_);
              verdicts_[rank] = std::to_string(found.rank) + " " + found.text;
              codes_[rank] = found.code;
            },
            [this, rank] { return rank == 1 ? signal_of_1.load() : 0; },
            [this, rank](int who, Seconds silence) {
              const std::lock_guard lock(mutex_);
              stalls_.push_back({rank, who, silence});
            }};
  }

  Progress progress_[3];
  std::mutex mutex_;
  std::string verdicts_[3];
  ErrorCode codes_[3] = {};
  std::vector<Stall> stalls_;
  std::unique_ptr<Heartbeat> beats_[3];
};

double cpu_seconds() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * double(time.tv_nsec);
}

void check_nobody_is_lost(Ranks& ranks) {
  for (int rank = 0; rank < 3; ++rank) CHECK(ranks.verdict(rank) == "");
}

// A message has over 300 bytes.
TEST_CASE("delays of 10 to 30 ms and fragments: nobody is lost or busy") {
  for (const std::size_t fragment : {std::size_t{1000}, std::size_t{40}}) {
    Relay relay({fragment, 20, 10});
    Ranks ranks(relay, Seconds(1));
    const double before = cpu_seconds();
    ranks.live(1.5);
    CHECK(cpu_seconds() - before < 1.5 * 0.05 * 4);  // four wait
    ranks.signal_of_1 = SIGTERM;
    ranks.live(0.5);
    CHECK(ranks[0].signal() == SIGTERM);
    check_nobody_is_lost(ranks);
    ranks.finish();
  }
}

// A limit that no thread of a busy machine is silent for.
constexpr Seconds kNoSilence(30);

TEST_CASE("a reset: the rank is lost, and the others hear of it") {
  Relay relay({1000, 20, 10});
  Ranks ranks(relay, kNoSilence);
  ranks.live(0.3);
  relay.reset();
  for (const int rank : {0, 1, 2}) REQUIRE(ranks.concludes(rank, 10));
  CHECK(ranks.verdict(0).find("1 was lost") == 0);
  CHECK(ranks.verdict(1).find("0 was lost") == 0);
  CHECK(ranks.verdict(2) == ranks.verdict(0));
}

// Also the reason of one that is not rank 0, in a verdict of rank 0.
TEST_CASE("a rank says why it ends: all others end for that, by its code") {
  for (const int who : {0, 1, 2}) {
    CAPTURE(who);
    Relay relay({100, 20, 10});
    Ranks ranks(relay, kNoSilence);
    ranks.live(0.3);
    const std::string place = "step 5, worker " + std::to_string(who);
    const std::string numbers(300, '7');
    ranks[who].say_why({ErrorCode::OutOfMemory,
                        "no memory for " + numbers,
                        place,
                        "a way out",
                        {}});
    for (const int rank : {0, 1, 2}) {
      if (rank == who) continue;
      CAPTURE(rank);
      REQUIRE(ranks.concludes(rank, 10));
      CHECK(ranks.code(rank) == ErrorCode::OutOfMemory);
      const std::string said = ranks.verdict(rank);
      const std::string start =
          std::to_string(who) + " ended: " + place + ": no memory for 777";
      CHECK(said.find(start) == 0);
      CHECK(said.substr(said.size() - 5) == "7 ...");
    }
    ranks.finish();
  }
}

TEST_CASE(
    "a part of the second message that comes with the first is not lost") {
  for (const std::size_t first : {500, 600, 700}) {
    CAPTURE(first);
    Relay relay({1 << 16, 0, 0, first});
    Ranks ranks(relay, kNoSilence);
    ranks.signal_of_1 = SIGTERM;
    for (int i = 0; i < 100 && ranks[0].signal() == 0; ++i) ranks.live(0.1);
    CHECK(ranks[0].signal() == SIGTERM);
    check_nobody_is_lost(ranks);
    ranks.finish();
  }
}

TEST_CASE("flipped bits: such messages count as not sent, nothing else") {
  for (const double share : {0.1, 1.0}) {
    CAPTURE(share);
    Relay relay({150, 0, 0});
    Ranks ranks(relay, Seconds(2));
    ranks.live(0.2);
    relay.flip_from_now_on(share);
    const bool is_lost = ranks.concludes(0, share < 1 ? 2.5 : 10);
    CHECK(relay.num_flipped() > 5);
    CHECK(ranks[0].signal() == 0);
    CHECK(is_lost == (share == 1));
    if (is_lost)
      CHECK(ranks.verdict(0).find("1 has been silent for") == 0);
    else
      check_nobody_is_lost(ranks);
    ranks.finish();
  }
}

TEST_CASE("silence within the limit: rank 0 is told who and how long") {
  Relay relay({1000, 0, 0});
  Ranks ranks(relay, Seconds(60));
  ranks.live(0.3);
  CHECK(ranks.stalls().empty());
  relay.flip_from_now_on(1);
  ranks.live(1.5);
  relay.flip_from_now_on(0);
  for (int i = 0; i < 100 && ranks.stalls().empty(); ++i) ranks.live(0.1);
  check_nobody_is_lost(ranks);
  const auto stalls = ranks.stalls();
  REQUIRE(!stalls.empty());
  for (const auto& stall : stalls) CHECK(stall.told == 0);
  CHECK(std::any_of(stalls.begin(), stalls.end(), [](const auto& stall) {
    return stall.rank == 1 && stall.silence > Seconds(1.2);
  }));
  ranks.finish();
}

// Messages that a full buffer does not take are dropped whole.
TEST_CASE("a receiver that does not read never gets a part of a message") {
  const Listener listener = listening_socket().value();
  Socket sender = connected({"127.0.0.1"}, listener.port, Seconds(5));
  const Socket receiver = accepted(listener.socket, Seconds(5));
  const int small = 4096;
  ::setsockopt(sender.fd(), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
  constexpr std::size_t kSize = 389;
  struct Numbered {
    std::uint64_t number = 0;
    char rest[kSize - sizeof(std::uint64_t)] = "";
  };
  MessageReader reader(sizeof(Numbered));
  std::uint64_t next = 1, last = 0;
  int received = 0, dropped = 0;
  for (int round = 0; round < 20; ++round) {
    for (int failed = 0; failed < 50;) {
      Numbered message;
      message.number = next++;
      std::memset(message.rest, static_cast<int>(message.number % 251),
                  sizeof(message.rest));
      if (!sender.send(&message, sizeof(message))) ++failed, ++dropped;
    }
    ::poll(nullptr, 0, 5);
    CHECK(reader.read(receiver));
    for (Numbered message; reader.next(&message); ++received) {
      REQUIRE(message.number > last);
      REQUIRE(message.number < next);
      last = message.number;
      for (const char each : message.rest)
        REQUIRE(each == static_cast<char>(message.number % 251));
    }
  }
  CHECK(received > 100);
  CHECK(dropped >= 1000);
}

}  // namespace
}  // namespace pipewright
