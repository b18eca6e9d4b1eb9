#include "cli/train/train_progress.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <iostream>

#include "cli/command.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

constexpr const char* kClearLine = "\r\x1b[K";

std::atomic<int> received = 0;
bool is_line_open = false;  // on a terminal: the last line may still change

void on_signal(int signal) {
  if (received.exchange(signal) != 0) ::_exit(exit_code_of(signal));
}

bool is_terminal() { return ::isatty(STDERR_FILENO) != 0; }

std::string step_text(const StepReport& step) {
  return "step " + std::to_string(step.step) + "/" +
         std::to_string(step.steps) + "  loss " + to_text(step.loss, 4) + "  " +
         to_text(step.samples_per_second) + " samples/s  bubble " +
         to_text(step.bubble * 100) + " %  " + to_text(step.left) + " left";
}

}  // namespace

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

void end_progress() {
  if (is_line_open) std::cerr << "\n";
  is_line_open = false;
}

void listen_for_signals() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  // mpirun passes on only this one of them.
  ::sigaction(SIGUSR1, &action, nullptr);
}

int received_signal() { return received.load(); }

int exit_code_of(int signal) { return signal == SIGINT ? 130 : 75; }

}  // namespace pipewright::cli
