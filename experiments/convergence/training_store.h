// Trainings that have ended, one file each in a folder, so that none is run
// twice, a study that was stopped goes on where it was, and its tables can be
// printed again. A file belongs to everything that decides what a training
// does, and says it; the program's own version is no part of that. Several
// processes may share a folder: each claims what it trains.

#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "experiments/convergence/convergence_arm.h"

namespace pipewright {

// Who holds it trains; nobody else does until it ends, or its process.
class TrainingClaim {
 public:
  TrainingClaim() = default;  // where there is no folder
  TrainingClaim(int file, std::string name)
      : file_(file), name_(std::move(name)) {}
  ~TrainingClaim();
  TrainingClaim(TrainingClaim&& other) noexcept
      : file_(std::exchange(other.file_, -1)), name_(std::move(other.name_)) {}
  TrainingClaim& operator=(TrainingClaim&&) = delete;

 private:
  int file_ = -1;
  std::string name_;
};

class TrainingStore {
 public:
  // An empty folder name: kept for as long as this object.
  explicit TrainingStore(std::string folder) : folder_(std::move(folder)) {}

  // None if it has not been kept. Fails where a file is damaged or another
  // training's.
  Result<std::optional<Outcome>> find(const Task& task, const Arm& arm,
                                      const Training& training);
  // None while another thread or process trains it. Whoever has it looks once
  // more whether the training has been kept.
  std::optional<TrainingClaim> claim(const Task& task, const Arm& arm,
                                     const Training& training) const;
  Result<void> keep(const Task& task, const Arm& arm, const Training& training,
                    const Outcome& outcome);

 private:
  std::optional<Outcome> remembered(const std::string& training);
  void remember(const std::string& training, const Outcome& outcome);

  std::string folder_;
  std::mutex mutex_;
  std::map<std::string, Outcome> outcomes_;  // by training_text()
};

// Everything that decides what a training does, on one line.
std::string training_text(const Task& task, const Arm& arm,
                          const Training& training);

}  // namespace pipewright
