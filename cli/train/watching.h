// What others can watch a training with, while it goes on: a page (--watch),
// and TensorBoard (--tensorboard).

#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "pipewright/base/result.h"
#include "pipewright/runtime/training/trainer.h"

namespace pipewright::cli {

// Starts `pipewright serve RUN` as a process of its own with a low priority. It
// ends with this one. Training never waits for it: it reads the run folder. A
// warning says why it cannot be started.
void start_page(const std::filesystem::path& run, int port);

// The hooks, which also write event files into the folder: loss, learning_rate,
// samples_per_second, bubble, held_out/loss and held_out/accuracy. What cannot
// be written is a warning, once.
TrainHooks with_events(TrainHooks hooks, const std::string& folder);

}  // namespace pipewright::cli
