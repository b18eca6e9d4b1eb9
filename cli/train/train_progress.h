// What `train` shows while it runs, on standard error: on a terminal one line
// that changes, elsewhere about twenty lines.

#pragma once

#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

void show_step(const StepReport& step);
void show_evaluation(const Evaluation& evaluation);
void show_warning(const std::string& text);
void end_progress();  // the next output starts on a new line

// "accuracy 91.2 %, loss 0.25 on 360 samples"
std::string evaluation_text(const Evaluation& evaluation);

// From now on received_signal() returns the first SIGINT, SIGTERM or SIGUSR1; a
// second one ends the process at once.
void listen_for_signals();
int received_signal();         // 0: none
int exit_code_of(int signal);  // 130 for SIGINT, 75 for others

}  // namespace pipewright::cli
