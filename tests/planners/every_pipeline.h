// Every pipeline of a small problem: all cuts, all numbers of replicas on
// devices in the cluster's order, some schedules, with and without recompute;
// if asked for, with all other cuts for backward. Searches and bounds are
// compared with it.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipewright/planners/pipeline.h"

namespace pipewright {

class EveryPipeline {
 public:
  EveryPipeline(const Problem& problem,
                std::function<void(const Pipeline&)> visit,
                bool separate_cuts = false)
      : problem_(problem),
        visit_(std::move(visit)),
        separate_cuts_(separate_cuts) {}

  void run() {
    schedules_ = is_asynchronous(problem_.method)
                     ? std::vector<std::string>{"async-1f1b", "async-1f1b-so"}
                     : std::vector<std::string>{"1f1b", "zb-h1"};
    extend(0, 0);
  }

 private:
  void extend(int layer, int device) {
    const int layers = problem_.profile->num_layers();
    if (layer == layers)
      return separate_cuts_ ? cut_backward(0, 0) : complete();
    for (int end = layer + 1; end <= layers; ++end)
      for (int last = device + 1; last <= problem_.cluster->num_devices();
           ++last) {
        PipelineStage stage;
        stage.end = end;
        for (int d = device; d < last; ++d)
          stage.devices.push_back(DeviceId(d));
        stages_.push_back(stage);
        extend(end, last);
        stages_.pop_back();
      }
  }

  // Sets the ends of backward from a stage on.
  void cut_backward(std::size_t stage, int layer) {
    const int layers = problem_.profile->num_layers();
    if (stage == stages_.size()) return layer == layers ? complete() : void();
    for (int end = layer + 1; end <= layers; ++end) {
      stages_[stage].backward_end = end;
      cut_backward(stage + 1, end);
    }
  }

  void complete() {
    Pipeline pipeline;
    pipeline.stages = stages_;
    for (const std::string& schedule : schedules_)
      for (int microbatch : problem_.microbatches)
        for (bool recompute : {false, true}) {
          pipeline.schedule = schedule;
          pipeline.microbatch = microbatch;
          for (PipelineStage& stage : pipeline.stages)
            stage.recompute = recompute;
          visit_(pipeline);
        }
  }

  const Problem& problem_;
  std::function<void(const Pipeline&)> visit_;
  const bool separate_cuts_;
  std::vector<std::string> schedules_;
  std::vector<PipelineStage> stages_;
};

// The fastest of them that fits; infinite if none does.
inline Seconds fastest_pipeline(const Problem& problem,
                                bool separate_cuts = false) {
  Seconds fastest = Seconds::max();
  EveryPipeline(
      problem,
      [&](const Pipeline& pipeline) {
        const auto scored = planned(pipeline, problem, "every");
        if (scored && scored->estimate.fits)
          fastest = std::min(fastest, scored->estimate.step);
      },
      separate_cuts)
      .run();
  return fastest;
}

}  // namespace pipewright
