// Evaluates held-out samples with the pipeline that trains: only forwards, on
// the same workers; batch norm uses running statistics, and there is no
// dropout.
//
//   Evaluator evaluator(model, program, held_out);
//   Result<Evaluation> now = evaluator.run(executor.trained());

#pragma once

#include <memory>

#include "pipewright/base/result.h"
#include "pipewright/runtime/data/dataset.h"
#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/training/evaluation.h"

namespace pipewright {

class Evaluator {
 public:
  // `program` is the one that trains; devices are as for Executor.
  Evaluator(const Model& model, const Program& program, Dataset samples,
            Executor::Devices devices = {});

  // Runs every sample once; the last microbatch is filled up with samples that
  // do not count. Fails as Executor::run() does.
  Result<Evaluation> run(const Trained& trained);

  const Dataset& samples() const { return *samples_; }

 private:
  std::unique_ptr<const Dataset> samples_;  // outlives the source
  MicrobatchSource source_;
  Executor executor_;
};

}  // namespace pipewright
