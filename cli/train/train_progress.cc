#include "cli/train/train_progress.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>

#include "cli/command.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

// Set by mpirun, and by srun with PMI or PMIx.
constexpr const char* kMpiRanks[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                                     "PMI_RANK"};
constexpr const char* kClearLine = "\r\x1b[K";
constexpr const char* kAskedToEnd =
    "\npipewright: asked to end: finishes the steps in progress, then saves";

std::atomic<int> received = 0;
std::atomic<std::int64_t> received_ns = 0;  // when; 0: said, or not to be
bool is_line_open = false;  // on a terminal: the last line may still change

bool is_quiet = false;  // rank 0 says it for all
pid_t launcher = 0;
bool is_one_rank = false;
bool is_under_mpi = false;  // mpirun kills ranks two seconds after Ctrl-C

const char* rank_of_mpi() {
  for (const char* name : kMpiRanks)
    if (const char* rank = std::getenv(name)) return rank;
  return nullptr;
}

// Of torchrun, or of srun without PMI: where they say where ranks meet. Null
// where no launcher started this process.
const char* own_rank() {
  if (const char* rank = rank_of_mpi()) return rank;
  if (!std::getenv("MASTER_ADDR") || !std::getenv("MASTER_PORT"))
    return nullptr;
  if (std::getenv("RANK") && std::getenv("WORLD_SIZE"))
    return std::getenv("RANK");
  const char* tasks = std::getenv("SLURM_STEP_NUM_TASKS");
  return tasks && std::string(tasks) != "1" ? std::getenv("SLURM_PROCID")
                                            : nullptr;
}

std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() /
         std::chrono::nanoseconds(1);
}

void write_line(const char* text) {
  const int before = errno;  // of what the signal interrupted
  static_cast<void>(!::write(STDERR_FILENO, text, std::strlen(text)));
  errno = before;
}

// Under a launcher a second signal changes nothing: mpirun sends SIGTERM a
// second after SIGCONT, and launchers kill by themselves. A terminal that
// closes sends SIGHUP, and then its shell does, too.
void on_signal(int signal) {
  int none = 0;
  if (!received.compare_exchange_strong(none, signal)) {
    if (!is_one_rank && signal != SIGHUP) ::_exit(exit_code_of(signal));
    return;
  }
  if (is_quiet) return;
  if (is_one_rank) {
    received_ns = now_ns();
    return;
  }
  write_line(kAskedToEnd);
  write_line("; a second signal ends it at once\n");
}

// A launcher also ends the ranks that are left when one was lost, which they
// know at once, say, and end: this waits for that.
void say_asked_to_end() {
  constexpr std::int64_t kWaitNs = 500'000'000;
  std::int64_t since = received_ns;
  if (since == 0 || now_ns() - since < kWaitNs ||
      !received_ns.compare_exchange_strong(since, 0))
    return;
  write_line(kAskedToEnd);
  write_line("\n");
  if (is_under_mpi && received != SIGUSR1)
    write_line(
        "pipewright: mpirun gives its ranks two seconds for that; "
        "kill -USR1 $(pgrep -x mpirun) gives them the time they need\n");
}

// With SIGCONT mpirun begins to end its ranks; from others it means no more
// than its name.
void on_continue(int, siginfo_t* sender, void*) {
  if (sender->si_pid == launcher) on_signal(SIGTERM);
}

bool is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

std::string step_text(const StepReport& step) {
  return "step " + std::to_string(step.step) + "/" +
         std::to_string(step.steps) + "  loss " + to_text(step.loss, 4) + "  " +
         to_text(step.samples_per_second) + " samples/s  " +
         (step.bubble ? "bubble " + percent(*step.bubble) + "  " : "") +
         to_text(step.left) + " left";
}

}  // namespace

bool is_one_of_ranks() { return own_rank() != nullptr; }

void show_step(const StepReport& step) {
  const bool is_last = step.step == step.steps;
  if (is_terminal()) {
    std::cerr << kClearLine << step_text(step) << std::flush;
    is_line_open = true;
    if (is_last) end_progress();
    return;
  }
  const std::int64_t every = std::max<std::int64_t>(step.steps / 20, 1);
  if (step.step % every == 0 || is_last || step.step == 1) say(step_text(step));
}

std::string evaluation_text(const Evaluation& evaluation) {
  std::string text;
  if (evaluation.accuracy)
    text = "accuracy " + to_text(*evaluation.accuracy * 100) + " %, ";
  return text + "loss " + to_text(evaluation.loss, 4) + " on " +
         std::to_string(evaluation.samples) + " samples";
}

void show_evaluation(const Evaluation& evaluation) {
  say((is_terminal() ? kClearLine : "") +
      ("step " + std::to_string(evaluation.step)) +
      "  held out: " + evaluation_text(evaluation));
  is_line_open = false;
}

void show_warning(const std::string& text) {
  end_progress();
  say("pipewright: warning: " + text);
}

void show_stop(std::int64_t step) {
  end_progress();
  say("pipewright: stops after step " + std::to_string(step) + ", saving");
}

void end_progress() {
  if (is_line_open) std::cerr << "\n";
  is_line_open = false;
}

void show_activity(const std::string& text) {
  if (is_terminal())
    std::cerr << text << std::flush;
  else
    say(text);
}

void end_activity() {
  if (is_terminal()) std::cerr << kClearLine << std::flush;
}

void stop_listening() {
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGCONT})
    ::signal(signal, SIG_DFL);
}

void listen_for_signals() {
  is_one_rank = is_one_of_ranks();
  is_under_mpi = rank_of_mpi() != nullptr;
  launcher = ::getppid();
  is_quiet = is_one_rank && std::string(own_rank()) != "0";
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // mpirun passes on only this one of them.
  ::sigaction(SIGUSR1, &action, nullptr);
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN)  // as nohup sets it
    ::sigaction(SIGHUP, &action, nullptr);
  if (is_under_mpi) {
    struct sigaction ends {};
    ends.sa_sigaction = on_continue;
    ends.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigaction(SIGCONT, &ends, nullptr);
  }
  // Whoever read what is printed may be gone: training goes on and saves.
  ::signal(SIGPIPE, SIG_IGN);
}

int received_signal() {
  if (is_one_rank && ::getppid() != launcher) {
    int none = 0;
    received.compare_exchange_strong(none, SIGTERM);
  }
  say_asked_to_end();
  return received.load();
}

int exit_code_of(int signal) { return signal == SIGINT ? 130 : 75; }

}  // namespace pipewright::cli
