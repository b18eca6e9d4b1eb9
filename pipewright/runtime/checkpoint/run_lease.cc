// Leases of run folders; see run_lease.h.

#include "pipewright/runtime/checkpoint/run_lease.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <thread>

#include "pipewright/base/files.h"
#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

constexpr double kRenewalsPerLimit = 6, kLooksPerLimit = 60;
constexpr const char* kLeaseFile = "lease.json";

// State letter and start time of a process; nothing if there is none.
struct ProcessState {
  char letter = '?';
  std::int64_t started = 0;
};

std::optional<ProcessState> state_of_process(std::int64_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return std::nullopt;
  // The name, in brackets, may have any characters in it.
  std::istringstream rest(text.substr(text.rfind(')') + 1));
  ProcessState state;
  rest >> state.letter;
  std::string skipped;
  for (int field = 4; field < 22; ++field) rest >> skipped;
  rest >> state.started;
  return state;
}

bool is_alive(const LeaseHolder& holder) {
  if (::kill(static_cast<pid_t>(holder.process), 0) != 0 && errno == ESRCH)
    return false;
  const auto state = state_of_process(holder.process);
  if (!state) return true;  // /proc hides the processes of others
  return state->letter != 'Z' && state->letter != 'X' &&
         state->started == holder.started;
}

std::string random_token() {
  std::random_device random;
  std::ostringstream text;
  text << std::hex << random() << random() << random() << random();
  return text.str();
}

std::string to_lease(const LeaseHolder& holder) {
  Json json = Json::object();
  json.set("format", "pipewright/lease").set("version", 1);
  json.set("host", holder.host).set("process", holder.process);
  json.set("started", holder.started).set("processes", holder.processes);
  json.set("token", holder.token);
  return json.to_text();
}

Result<LeaseHolder> parse_lease(const std::string& text,
                                const std::string& file) {
  return read_json(text, file, [](JsonCursor& root) {
    LeaseHolder holder;
    root.require_format("pipewright/lease", 1);
    holder.host = root.at("host").text();
    holder.process = root.at("process").integer(0, 1 << 30);
    holder.started = root.at("started").integer(0);
    holder.processes = root.at("processes").text();
    holder.token = root.at("token").text();
    return holder;
  });
}

// The lease file at one moment. To open it makes a network file system ask for
// its present state.
struct Seen {
  bool exists = false;
  std::string text;
  std::int64_t seconds = 0, nanoseconds = 0;  // of its modification
  bool operator==(const Seen&) const = default;
};

Seen look_at(const fs::path& file) {
  Seen seen;
  const int fd = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) {
    seen.exists = errno != ENOENT;
    return seen;
  }
  struct stat status {};
  ::fstat(fd, &status);
  char buffer[4096];
  const ssize_t size = ::read(fd, buffer, sizeof buffer);
  ::close(fd);
  return {true, std::string(buffer, size > 0 ? size : 0), status.st_mtim.tv_sec,
          status.st_mtim.tv_nsec};
}

// Nobody else on this host changes the lease while this object lives. Where a
// file system has no such locks the new holder looks again after a while.
class FolderLock {
 public:
  explicit FolderLock(const fs::path& run)
      : fd_(::open(run.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
    if (fd_ >= 0) static_cast<void>(::flock(fd_, LOCK_EX));
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

std::string who(const std::optional<LeaseHolder>& holder) {
  if (!holder) return "an unknown process";
  return "process " + std::to_string(holder->process) + " on " +
         printable(holder->host);
}

Error in_use(const fs::path& run, const std::optional<LeaseHolder>& holder) {
  return {ErrorCode::InUse,
          "is in use by " + who(holder),
          run.string(),
          "wait until it ends, or choose another --run",
          {}};
}

void sleep_for(Seconds time) {
  std::this_thread::sleep_for(std::chrono::duration<double>(time.value()));
}

class HeldLease final : public RunLease {
 public:
  HeldLease(fs::path run, LeaseOptions options)
      : run_(std::move(run)),
        file_(run_ / kLeaseFile),
        options_(std::move(options)),
        thread_([this] { renew_often(); }) {}

  ~HeldLease() override {
    {
      const std::lock_guard lock(mutex_);
      ends_ = true;
    }
    wakes_.notify_all();
    thread_.join();
    const FolderLock lock(run_);
    if (look_at(file_).text == to_lease(options_.holder))
      ::unlink(file_.c_str());
  }

  Result<void> check() const override {
    const Seen seen = look_at(file_);
    // A file that cannot be read just now says nothing.
    if (seen.exists && seen.text.empty()) return {};
    if (seen.text == to_lease(options_.holder)) return {};
    const auto holder = parse_lease(seen.text, file_.string());
    return Error{
        ErrorCode::WorkerLost,
        (seen.exists ? "was taken over by " +
                           who(holder ? std::optional(*holder) : std::nullopt)
                     : std::string("has lost its lease.json")) +
            ", as this process did not renew its lease",
        run_.string(),
        "nothing was written since; start again with --resume when "
        "the other run has ended",
        {}};
  }

 private:
  void renew_often() {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> interval(options_.limit.value() /
                                                 kRenewalsPerLimit);
    while (!wakes_.wait_for(lock, interval, [this] { return ends_; })) renew();
  }

  // A full disk does not keep a time from being set.
  void renew() const {
    const FolderLock lock(run_);
    if (look_at(file_).text == to_lease(options_.holder))
      ::utimensat(AT_FDCWD, file_.c_str(), nullptr, 0);
  }

  const fs::path run_, file_;
  const LeaseOptions options_;
  std::mutex mutex_;
  std::condition_variable wakes_;
  bool ends_ = false;
  std::thread thread_;
};

// One attempt after the other, until the lease is ours or another's.
class Taking {
 public:
  Taking(const fs::path& run, LeaseOptions options)
      : run_(run), file_(run / kLeaseFile), options_(std::move(options)) {}

  Result<std::unique_ptr<RunLease>> run() {
    while (true) {
      PIPEWRIGHT_TRY(const bool is_taken, take_now());
      if (is_taken) break;
      PIPEWRIGHT_TRY(const bool is_silent, watch());
      if (!is_silent) continue;
      PIPEWRIGHT_TRY(const bool is_ours, take_over());
      if (is_ours) break;
    }
    return std::unique_ptr<RunLease>(
        std::make_unique<HeldLease>(run_, std::move(options_)));
  }

 private:
  std::optional<LeaseHolder> holder() const {
    const auto found = parse_lease(seen_.text, file_.string());
    return found ? std::optional(*found) : std::nullopt;
  }

  // False: it is held, perhaps, by a process of another host.
  Result<bool> take_now() {
    const FolderLock lock(run_);
    seen_ = look_at(file_);
    if (!seen_.exists) return create();
    const auto found = holder();
    if (!found || found->processes != options_.holder.processes) return false;
    if (is_alive(*found)) return in_use(run_, found);
    return replace();
  }

  // Exactly one of several processes succeeds, also on a network file system.
  Result<bool> create() const {
    const fs::path mine = file_.string() + "." + options_.holder.token;
    if (auto written = write_file(mine, to_lease(options_.holder)); !written)
      return written.error();
    const bool is_first = ::link(mine.c_str(), file_.c_str()) == 0;
    const int reason = errno;
    ::unlink(mine.c_str());
    if (is_first) return true;
    if (reason == EEXIST) return false;
    return replace();  // a file system without links
  }

  Result<bool> replace() const {
    if (auto written = write_file(file_, to_lease(options_.holder)); !written)
      return written.error();
    return true;
  }

  // True: nothing has changed for the limit. False: there is no lease now.
  Result<bool> watch() {
    if (options_.on_wait)
      std::exchange(options_.on_wait, {})(run_.string() + " was last used by " +
                                          who(holder()) + ": waiting up to " +
                                          to_text(options_.limit) +
                                          " to see whether it still is");
    const auto start = std::chrono::steady_clock::now();
    const std::chrono::duration<double> limit(options_.limit.value());
    while (std::chrono::steady_clock::now() - start < limit) {
      if (const int signal = options_.signal ? options_.signal() : 0)
        return Error{static_cast<ErrorCode>(signal == SIGINT ? 130 : 75),
                     "interrupted while waiting for " + who(holder()),
                     run_.string(),
                     "",
                     {}};
      sleep_for(options_.limit / kLooksPerLimit);
      const Seen now = look_at(file_);
      if (now == seen_) continue;
      if (!now.exists) return false;
      seen_ = now;
      return in_use(run_, holder());
    }
    return true;
  }

  // False: somebody else has been quicker.
  Result<bool> take_over() {
    {
      const FolderLock lock(run_);
      if (look_at(file_) != seen_) return false;
      PIPEWRIGHT_TRY(const bool is_written, replace());
      if (!is_written) return false;
    }
    sleep_for(options_.limit / kLooksPerLimit * 2);
    return look_at(file_).text == to_lease(options_.holder);
  }

  const fs::path run_, file_;
  LeaseOptions options_;
  Seen seen_;
};

std::string first_line_of(const char* file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  return line;
}

}  // namespace

LeaseHolder this_process() {
  LeaseHolder holder;
  char name[256] = "";
  ::gethostname(name, sizeof name - 1);
  holder.host = name;
  std::error_code ignored;
  const std::string boot = first_line_of("/proc/sys/kernel/random/boot_id");
  holder.process = ::getpid();
  if (const auto state = state_of_process(holder.process))
    holder.started = state->started;
  holder.token = random_token();
  holder.processes =
      boot.empty()
          ? holder.token  // unknown: nobody else's
          : boot + " " +
                fs::read_symlink("/proc/self/ns/pid", ignored).string();
  return holder;
}

Result<std::unique_ptr<RunLease>> RunLease::take(const fs::path& run,
                                                 LeaseOptions options) {
  return Taking(run, std::move(options)).run();
}

}  // namespace pipewright
