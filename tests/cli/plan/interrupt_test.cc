// pipewright plan and compare while they run: the progress line on a terminal,
// and Ctrl-C, which prints the best plan so far.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <vector>

#include "tests/answer.h"

namespace pipewright::cli {
namespace {

// A command whose standard error is a terminal or a pipe.
class Command {
 public:
  Command(const std::vector<std::string>& arguments, bool terminal) {
    int out[2], err[2];
    REQUIRE(::pipe(out) == 0);
    if (terminal) {
      err[0] = ::posix_openpt(O_RDWR | O_NOCTTY);
      REQUIRE(err[0] >= 0);
      REQUIRE(::grantpt(err[0]) == 0);
      REQUIRE(::unlockpt(err[0]) == 0);
      err[1] = ::open(::ptsname(err[0]), O_RDWR | O_NOCTTY);
      REQUIRE(err[1] >= 0);
    } else {
      REQUIRE(::pipe(err) == 0);
    }
    child_ = ::fork();
    REQUIRE(child_ >= 0);
    if (child_ == 0) {
      ::dup2(out[1], STDOUT_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      for (int fd : {out[0], out[1], err[0], err[1]}) ::close(fd);
      std::vector<char*> words = {const_cast<char*>(PIPEWRIGHT_BINARY)};
      for (const std::string& word : arguments)
        words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execv(PIPEWRIGHT_BINARY, words.data());
      ::_exit(127);
    }
    ::close(out[1]);
    ::close(err[1]);
    ends_ = {out[0], err[0]};
  }
  ~Command() {
    for (int fd : ends_) ::close(fd);
  }

  // Waits until standard error contains the text, or the command ends.
  bool says(const std::string& text) {
    while (!contains(said_[1], text) && read_some()) {
    }
    return contains(said_[1], text);
  }
  void interrupt() { ::kill(child_, SIGINT); }
  int exit_code() {
    while (read_some()) {
    }
    int status = 0;
    ::waitpid(child_, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }
  const std::string& printed() const { return said_[0]; }
  const std::string& complained() const { return said_[1]; }

 private:
  bool read_some() {
    std::array<pollfd, 2> polled = {
        pollfd{open_[0] ? ends_[0] : -1, POLLIN, 0},
        pollfd{open_[1] ? ends_[1] : -1, POLLIN, 0}};
    if (!open_[0] && !open_[1]) return false;
    ::poll(polled.data(), polled.size(), -1);
    for (std::size_t i = 0; i < 2; ++i) {
      if (polled[i].revents == 0) continue;
      std::array<char, 4096> buffer;
      const ssize_t n = ::read(ends_[i], buffer.data(), buffer.size());
      if (n > 0)
        said_[i].append(buffer.data(), n);
      else
        open_[i] = false;  // end of file, or a closed terminal
    }
    return true;
  }

  pid_t child_ = -1;
  std::array<int, 2> ends_ = {-1, -1};
  std::array<bool, 2> open_ = {true, true};
  std::array<std::string, 2> said_;
};

// Takes far longer than a second.
std::vector<std::string> long_search(const std::string& command) {
  return {command,     "--model",        "resnet152",   "--method", "sync",
          "--cluster", "16xV100@10GB/s", "--minibatch", "512",      "--budget",
          "600"};
}

}  // namespace

TEST_CASE("a terminal sees progress after a second; Ctrl-C gives the best") {
  for (const char* command : {"plan", "compare"}) {
    CAPTURE(command);
    Command running(long_search(command), true);
    REQUIRE(running.says(" plans simulated, "));
    running.interrupt();
    CHECK(running.exit_code() == 130);
    CHECK(contains(running.complained(), "best plan so far"));
    CHECK(contains(running.printed(), "sync"));
    CHECK(!contains(running.printed(), "ran out"));
    CHECK(!contains(running.printed(), "budget"));
  }
}

TEST_CASE("Ctrl-C ends the search for a minibatch, and all that follows it") {
  for (const char* command : {"plan", "compare"}) {
    CAPTURE(command);
    std::vector<std::string> arguments = long_search(command);
    *(std::find(arguments.begin(), arguments.end(), "512")) = "auto";
    Command running(arguments, true);
    REQUIRE(running.says(" plans simulated, "));
    running.interrupt();
    CHECK(running.exit_code() == 130);
    CHECK(contains(running.complained(), "interrupted: "));
    CHECK(contains(running.printed(), "larger minibatches were not tried"));
    CHECK(!contains(running.printed(), "The smallest minibatch"));
  }
}

TEST_CASE("a pipe sees no progress; Ctrl-C works there, too") {
  Command running(long_search("plan"), false);
  ::usleep(1'500'000);
  running.interrupt();
  CHECK(running.exit_code() == 130);
  CHECK(!contains(running.complained(), "plans simulated"));
  CHECK(!contains(running.complained(), "\r"));
}

}  // namespace pipewright::cli
