// What `train` shows while it runs, on standard error: on a terminal one line
// that changes, elsewhere about twenty lines.

#pragma once

#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

// Whether a launcher started this process; known without MPI.
bool is_one_of_ranks();

void show_step(const StepReport& step);
void show_evaluation(const Evaluation& evaluation);
void show_warning(const std::string& text);
void show_stop(std::int64_t step);  // the last one, after a signal
void end_progress();                // the next output starts on a new line

// On a terminal the line is there until end_activity().
void show_activity(const std::string& text);
void end_activity();

// "accuracy 91.2 %, loss 0.25 on 360 samples"
std::string evaluation_text(const Evaluation& evaluation);

// From now on received_signal() returns the first SIGINT, SIGTERM or SIGUSR1. A
// second one ends the process at once, unless a launcher started it:
// that one kills by itself. Its own end, and its SIGCONT, count as SIGTERM.
void listen_for_signals();
int received_signal();         // 0: none
void stop_listening();         // signals end the process again
int exit_code_of(int signal);  // 130 for SIGINT, 75 for others

}  // namespace pipewright::cli
