// What a run of training shows while it goes on, on standard error: one line
// that changes on a terminal, about twenty lines elsewhere.

#pragma once

#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

void show_step(const StepReport& step);
void show_evaluation(const Evaluation& evaluation);
void show_warning(const std::string& text);
void end_progress();  // what follows starts on a line of its own

// "accuracy 91.2 %, loss 0.25 on 360 samples"
std::string evaluation_text(const Evaluation& evaluation);

// From now on the first SIGINT, SIGTERM or SIGUSR1 is remembered, and a second
// one ends the process at once.
void listen_for_signals();
int received_signal();         // 0: none
int exit_code_of(int signal);  // 130 for SIGINT, 75 for others

}  // namespace pipewright::cli
