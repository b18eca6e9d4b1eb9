// Leases of run folders: one process at a time, whoever and wherever it is.

#include "pipewright/runtime/checkpoint/run_lease.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;

// As a process of another host would ask.
LeaseOptions from_host(const std::string& host, Seconds limit) {
  LeaseOptions options;
  options.limit = limit;
  options.holder.host = host;
  options.holder.processes = "boot of " + host;
  return options;
}

std::string file_text(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

// A lease that a process of this host has left when it ended.
void leave_behind(const fs::path& run, LeaseOptions options) {
  const pid_t child = ::fork();
  if (child == 0) {
    const LeaseHolder self = this_process();
    options.holder.process = self.process;
    options.holder.started = self.started;
    auto lease = RunLease::take(run, options);
    ::_exit(lease ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  REQUIRE(fs::exists(run / "lease.json"));
}

TEST_CASE(
    "a second process of this host is refused at once, and told by whom") {
  const TemporaryFolder folder("lease");
  auto first = RunLease::take(folder.path());
  REQUIRE(first.ok());
  CHECK((*first)->check().ok());
  const auto second = RunLease::take(folder.path());
  REQUIRE(!second.ok());
  CHECK(second.error().code == ErrorCode::InUse);
  CHECK(second.error().message.find("process " + std::to_string(::getpid())) !=
        std::string::npos);
  first->reset();  // gives it back
  CHECK(fs::is_empty(folder.path()));
  CHECK(RunLease::take(folder.path()).ok());
}

TEST_CASE("a dead process of this host is succeeded at once") {
  const TemporaryFolder folder("dead");
  leave_behind(folder.path(), {});
  LeaseOptions options;
  options.limit = Seconds(1e6);  // it need not be waited for
  CHECK(RunLease::take(folder.path(), options).ok());
}

TEST_CASE("a process id that is used again is not the holder") {
  const TemporaryFolder folder("again");
  LeaseOptions before;
  before.holder.started -= 1;  // this process, had it begun earlier
  {
    auto lease = RunLease::take(folder.path(), before);
    REQUIRE(lease.ok());
    fs::copy(folder.path() / "lease.json", folder.path() / "copy");
  }
  fs::rename(folder.path() / "copy", folder.path() / "lease.json");
  CHECK(RunLease::take(folder.path()).ok());
}

TEST_CASE("a live holder on another host is waited for, and wins") {
  const TemporaryFolder folder("elsewhere");
  auto first = RunLease::take(folder.path(), from_host("red", Seconds(1.2)));
  REQUIRE(first.ok());
  LeaseOptions blue = from_host("blue", Seconds(30));
  std::string said;
  blue.on_wait = [&said](const std::string& text) { said += text; };
  const auto second = RunLease::take(folder.path(), blue);
  REQUIRE(!second.ok());
  CHECK(second.error().code == ErrorCode::InUse);
  CHECK(second.error().message.find("on red") != std::string::npos);
  CHECK(said.find("on red") != std::string::npos);
  CHECK((*first)->check().ok());
}

TEST_CASE("a silent holder on another host is succeeded after the limit") {
  const TemporaryFolder folder("silent");
  // Its clock is an hour ahead, or behind: only changes count.
  for (const int hours : {1, -1}) {
    leave_behind(folder.path(), from_host("red", Seconds(60)));
    const fs::path file = folder.path() / "lease.json";
    fs::last_write_time(file,
                        fs::last_write_time(file) + std::chrono::hours(hours));
    const auto start = std::chrono::steady_clock::now();
    CHECK(RunLease::take(folder.path(), from_host("blue", Seconds(0.5))).ok());
    CHECK(std::chrono::steady_clock::now() - start >=
          std::chrono::milliseconds(500));
  }
}

TEST_CASE("of many that wait for a silent holder one wins") {
  const TemporaryFolder folder("many");
  leave_behind(folder.path(), from_host("red", Seconds(60)));
  std::atomic<int> winners = 0, refused = 0;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<RunLease>> held(8);
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      auto lease = RunLease::take(
          folder.path(), from_host("host" + std::to_string(i), Seconds(0.6)));
      if (lease)
        held[i] = *std::move(lease);
      else if (lease.error().code == ErrorCode::InUse)
        ++refused;
      winners += held[i] != nullptr;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(winners == 1);
  CHECK(refused == 7);
}

TEST_CASE("a holder that was stopped for too long finds out, and leaves it") {
  const TemporaryFolder folder("stopped");
  const fs::path file = folder.path() / "lease.json";
  auto stopped = RunLease::take(folder.path(), from_host("red", Seconds(1e6)));
  REQUIRE(stopped.ok());
  auto next = RunLease::take(folder.path(), from_host("blue", Seconds(0.3)));
  REQUIRE(next.ok());
  const auto lost = (*stopped)->check();
  REQUIRE(!lost.ok());
  CHECK(lost.error().code == ErrorCode::WorkerLost);
  CHECK(lost.error().message.find("on blue") != std::string::npos);
  const std::string text = file_text(file);
  stopped->reset();
  CHECK(file_text(file) == text);
  CHECK((*next)->check().ok());
}

TEST_CASE("a lease that nobody can read is waited for, too") {
  const TemporaryFolder folder("garbled");
  std::ofstream(folder.path() / "lease.json") << "{\"host\": 3";
  CHECK(RunLease::take(folder.path(), from_host("blue", Seconds(0.2))).ok());
}

TEST_CASE("waiting ends with a signal") {
  const TemporaryFolder folder("signal");
  leave_behind(folder.path(), from_host("red", Seconds(60)));
  LeaseOptions options = from_host("blue", Seconds(60));
  options.signal = [] { return SIGINT; };
  CHECK(static_cast<int>(RunLease::take(folder.path(), options).error().code) ==
        130);
}

TEST_CASE("a folder that cannot be written") {
  const auto lease = RunLease::take("/proc/self");
  REQUIRE(!lease.ok());
  CHECK(lease.error().code == ErrorCode::CannotCreate);
}

}  // namespace
}  // namespace pipewright
