// What a run takes beside its layers, measured before it begins.
//
// On cores a pipeline of the model, in threads or over ranks as the run will
// be, shows how long an action takes beside its layers, whose times are those
// of all workers at once.
//
// On GPUs such a pipeline is run on one worker and on as many as the plan has.
// One worker shows how long an action takes beside its layers' own
// times, which were stretched by being timed, and how much memory is held
// beside tensors. All together show how much workers that share a GPU slow each
// other down: the slowdown with which the simulated pipeline takes as long as
// the measured one. The prediction of the plan's own program then has these
// numbers; none of them is fitted to the run that is predicted.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/profile/profile.h"
#include "pipewright/simulate/in_process_costs.h"
#include "pipewright/timeline/pipeline_run.h"

namespace pipewright {

struct RunOverheads {
  Seconds action;                 // beside an action's layers
  Seconds step;                   // beside a step's updates
  std::vector<double> slowdowns;  // as Costs::Contention has them
  Bytes base_memory;              // held by a worker beside its tensors
  // The same of each, where the plan's own stages were measured.
  std::vector<Bytes> base_of_workers = {};

  Bytes base_of(WorkerId worker) const {
    return base_of_workers.empty() ? base_memory
                                   : base_of_workers[worker.index()];
  }
  // "an action takes 12 us beside its layers, ...".
  std::string to_text() const;
};

// Which workers of a kind share a GPU: all streams, the shares of one.
std::vector<int> gpu_units(const std::string& device, int workers);

// As in_process_costs(), of workers on that kind of device, with the overheads;
// GPUs have no channel costs, which are part of them. Fails with
// BadConfiguration if the profile has no times of the kind.
Result<Costs> costs_on(const std::string& device, const Program& program,
                       Profile profile, const InProcessChannelCosts& channel,
                       const RunOverheads& overheads = {});

// From steps of one worker that runs the whole model. Takes what timing the
// layers has cost off the profile's times of that device. The run's microbatch
// must be in the profile. Fails as lower() does.
Result<RunOverheads> overheads_alone(const PipelineRun& alone,
                                     const Model& model,
                                     const std::string& device,
                                     Profile& profile);

// What each worker of the pipeline held beside its tensors. Fails as lower()
// does.
Result<std::vector<Bytes>> base_memory_of(const PipelineRun& run,
                                          const Model& model,
                                          const std::string& device,
                                          const Profile& profile);

// Sets the overhead of an action so that the pipeline is simulated to take as
// long as it was measured to; none where it is simulated to take longer.
Result<void> fit_action(const PipelineRun& run, const Profile& profile,
                        const InProcessChannelCosts& channel,
                        RunOverheads& overheads);

// Of GPUs: sets the slowdowns so that the pipeline is simulated to take as long
// as it was measured to. Where no two workers share a GPU there are none, and
// an action's overhead grows instead.
Result<void> fit_together(const PipelineRun& together, const Profile& profile,
                          const std::string& device, RunOverheads& overheads);

}  // namespace pipewright
