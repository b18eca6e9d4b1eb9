#include "cli/train/predict_run.h"

#include <algorithm>
#include <set>

#include "cli/runtime_link.h"
#include "cli/train/prediction.h"
#include "cli/train/train_devices.h"
#include "cli/train/train_progress.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/plan/memory/run_memory.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/timeline/chrome_trace.h"

namespace pipewright::cli {
namespace {

struct Measured {
  Profile profile;
  RunOverheads overheads;
};

ProfilerOptions profiler_for(const TrainRequest& request, int workers) {
  ProfilerOptions options;
  options.workers = workers;
  options.device = request.plan.device_kinds.front();
  options.may_record = records_actions(request);
  options.optimizer = request.optimizer;
  return options;
}

Result<Profile> measured_layers(const TrainRequest& request, const Model& model,
                                int workers) {
  std::set<int> sizes = {request.plan.microbatch};
  for (const Operation& operation : request.program.operations)
    if (operation.num_samples() > 0) sizes.insert(operation.num_samples());
  return measure_profile(model, std::vector<int>(sizes.begin(), sizes.end()),
                         profiler_for(request, workers));
}

// How much workers slow each other down is shown by the plan's own stages.
Result<PipelineRun> run_together(const TrainRequest& request,
                                 const Model& model) {
  ProfilerOptions options = profiler_for(request, request.plan.num_workers());
  options.stages = stages_at_once(request.plan);
  return measure_pipeline(model, request.plan.microbatch, options);
}

// Layers by themselves, then what comes on top of them. Ranks have run the
// pipeline of all workers.
Result<Measured> measured_on_gpu(const TrainRequest& request,
                                 const Model& model,
                                 const std::optional<PipelineRun>& of_ranks) {
  const std::string& device = request.plan.device_kinds.front();
  const int workers = request.plan.num_workers();
  Measured measured;
  PIPEWRIGHT_TRY(measured.profile, measured_layers(request, model, 1));
  PIPEWRIGHT_TRY(const PipelineRun alone,
                 measure_pipeline(model, request.plan.microbatch,
                                  profiler_for(request, 1)));
  PIPEWRIGHT_TRY(measured.overheads,
                 overheads_alone(alone, model, device, measured.profile));
  if (workers > 1) {
    PIPEWRIGHT_TRY(const PipelineRun together,
                   of_ranks ? Result(*of_ranks) : run_together(request, model));
    if (auto fitted = fit_together(together, measured.profile, device,
                                   measured.overheads);
        !fitted)
      return fitted.error();
    if (!stages_at_once(request.plan).empty()) {
      PIPEWRIGHT_TRY(measured.overheads.base_of_workers,
                     base_memory_of(together, model, device, measured.profile));
    }
  }
  measured.profile.origin.description +=
      "; without what timing a layer takes; " + measured.overheads.to_text();
  return measured;
}

// In threads, unless ranks have run a pipeline.
Result<void> measure_action(const TrainRequest& request, const Model& model,
                            const InProcessChannelCosts& channel,
                            std::optional<PipelineRun> run,
                            Measured& measured) {
  if (!run) {
    PIPEWRIGHT_TRY(run, measure_pipeline(
                            model, request.plan.microbatch,
                            profiler_for(request, request.plan.num_workers())));
  }
  if (auto fitted =
          fit_action(*run, measured.profile, channel, measured.overheads);
      !fitted)
    return fitted;
  measured.profile.origin.description += "; an action takes " +
                                         to_text(measured.overheads.action) +
                                         " beside its layers";
  return {};
}

// All workers at once, where a worker alone cannot be measured.
Result<Measured> measured_here(const TrainRequest& request, const Model& model,
                               const std::optional<PipelineRun>& of_ranks) {
  if (request.plan.device_kinds.front() != "cpu") {
    Result<Measured> measured = measured_on_gpu(request, model, of_ranks);
    if (measured) return measured;
    show_warning("the prediction leaves out what handing over costs: " +
                 measured.error().to_text());
  }
  PIPEWRIGHT_TRY(Profile profile,
                 measured_layers(request, model, request.plan.num_workers()));
  return Measured{std::move(profile), {}};
}

// By how much the slowdowns stretch what the workers compute.
double stretch(const Timeline& timeline, const Timeline& alone) {
  Seconds busy, without;
  for (const WorkerSummary& worker : timeline.workers) busy += worker.busy;
  for (const WorkerSummary& worker : alone.workers) without += worker.busy;
  return without > Seconds(0) ? busy / without : 1;
}

void set_overheads(const RunOverheads& overheads, double stretched,
                   DeviceKind& kind) {
  kind.layer_overhead = stretched - 1;
  kind.action_overhead = overheads.action * stretched;
  kind.step_overhead = overheads.step * stretched;
  kind.base_memory = std::max(kind.base_memory, overheads.base_memory);
}

// This machine as in_process_costs() sees it: tensors are handed over without
// a copy, and workers add up gradients in memory.
Result<Cluster> cluster_here(const Plan& plan, const std::string& device,
                             const InProcessChannelCosts& channel,
                             const RunOverheads& overheads, double stretched) {
  constexpr BytesPerSecond kWithoutCopy{1e15};
  std::int32_t last = 0;
  for (const DeviceId id : plan.devices) last = std::max(last, id.value);
  PIPEWRIGHT_TRY(const Cluster preset,
                 load_cluster(std::to_string(last + 1) + "x" + device));
  ClusterBuilder builder(preset.name());
  for (DeviceKind kind : preset.kinds()) {
    set_overheads(overheads, stretched, kind);
    builder.add_kind(kind);
  }
  std::vector<DeviceId> devices;
  for (const Device& each : preset.devices())
    devices.push_back(builder.add_device(each));
  Link link{kWithoutCopy, channel.latency, Duplex::Full, {}};
  // A ring moves each byte twice where the workers add it once.
  if (channel.bytes_added > 0)
    link.collective_rates = {
        {Bytes(1), BytesPerSecond(2 * channel.bytes_added)}};
  builder.connect(devices, devices, link);
  return builder.build();
}

void write_or_warn(const std::filesystem::path& file, const std::string& text) {
  if (auto written = write_file(file, text); !written)
    show_warning(written.error().to_text());
}

}  // namespace

Result<Timeline> predict_run(const TrainRequest& request, const Model& model,
                             const std::optional<Profile>& given,
                             const std::optional<PipelineRun>& handovers) {
  PIPEWRIGHT_TRY(const std::string device, one_device_kind(request.plan));
  Result<Measured> measured =
      given ? Measured{*given, {}} : measured_here(request, model, handovers);
  if (!measured) return measured.error();
  PIPEWRIGHT_TRY(const InProcessChannelCosts channel, measure_channel());
  const Profile& profile = measured->profile;
  RunOverheads& overheads = measured->overheads;
  if (device == "cpu" && !given &&
      has_short_actions(model, request.plan.microbatch,
                        request.plan.num_workers()))
    if (auto done =
            measure_action(request, model, channel, handovers, *measured);
        !done)
      return done.error();
  PIPEWRIGHT_TRY(
      const StepMemory step,
      step_memory(request.optimizer, request.max_norm > 0, model, device));
  PIPEWRIGHT_TRY(
      const Program program,
      with_run_memory(request.program, request.plan, model, profile, step));
  PIPEWRIGHT_TRY(Timeline timeline, predicted_timeline(program, profile, device,
                                                       channel, overheads));
  RunOverheads alone = overheads;
  alone.slowdowns.clear();
  PIPEWRIGHT_TRY(const Timeline without,
                 predicted_timeline(program, profile, device, channel, alone));
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    MemoryUse& peak = timeline.workers[w].peak;
    peak = peak_with_steps(program, model, WorkerId(w), step, peak);
    peak.base += overheads.base_of(WorkerId(w));
  }
  write_or_warn(request.run / "profile.json", to_text(profile));
  if (const auto cluster = cluster_here(request.plan, device, channel,
                                        overheads, stretch(timeline, without)))
    write_or_warn(request.run / "cluster.json", to_text(*cluster));
  write_or_warn(request.run / "predicted.json",
                chrome_trace(program, timeline));
  return timeline;
}

}  // namespace pipewright::cli
