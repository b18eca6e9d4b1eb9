// Plans and requests for the tests of training.

#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/runtime/training/trainer.h"
#include "tests/runtime/test_models.h"

namespace pipewright::testing {

// A folder that is gone afterwards.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::string& name)
      : path_(std::filesystem::temp_directory_path() /
              ("pipewright-" + name + "-" + std::to_string(::getpid()))) {
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline TrainRequest request_for(const Model& model, const std::string& schedule,
                                int workers, int microbatches,
                                const std::filesystem::path& run,
                                Method method = Method::Sync) {
  ScheduleRequest wanted;
  wanted.workers = workers;
  wanted.microbatches = microbatches;
  TrainRequest request;
  request.plan =
      plan_of(model, generate_schedule(schedule, wanted).value(), 4, method);
  request.program =
      lower(request.plan, profile_of(model, request.plan.microbatch)).value();
  request.data = "synthetic:64";
  request.run = run;
  request.steps = 12;
  request.seed = 5;
  request.rate.rate = 0.05;
  return request;
}

}  // namespace pipewright::testing
