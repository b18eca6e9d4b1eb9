#include "cli/train/predict_run.h"

#include <algorithm>
#include <set>

#include "cli/runtime_link.h"
#include "cli/train/prediction.h"
#include "cli/train/train_devices.h"
#include "cli/train/train_progress.h"
#include "pipewright/base/files.h"
#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/plan/memory/run_memory.h"
#include "pipewright/plan/optimizer_choice.h"
#include "pipewright/timeline/chrome_trace.h"

namespace pipewright::cli {
namespace {

Result<Profile> measured_layers(const TrainRequest& request,
                                const Model& model) {
  std::set<int> sizes = {request.plan.microbatch};
  for (const Operation& operation : request.program.operations)
    if (operation.num_samples() > 0) sizes.insert(operation.num_samples());
  return measure_profile(model, std::vector<int>(sizes.begin(), sizes.end()),
                         request.plan.num_workers(),
                         request.plan.device_kinds.front(), [](double) {});
}

// This machine as in_process_costs() sees it: tensors are handed over without
// a copy, and workers add up gradients in memory.
Result<Cluster> cluster_here(const Plan& plan, const std::string& device,
                             const InProcessChannelCosts& channel) {
  constexpr BytesPerSecond kWithoutCopy{1e15};
  std::int32_t last = 0;
  for (const DeviceId id : plan.devices) last = std::max(last, id.value);
  PIPEWRIGHT_TRY(const Cluster preset,
                 load_cluster(std::to_string(last + 1) + "x" + device));
  ClusterBuilder builder(preset.name());
  for (const DeviceKind& kind : preset.kinds()) builder.add_kind(kind);
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
                             const std::optional<Profile>& given) {
  PIPEWRIGHT_TRY(const std::string device, one_device_kind(request.plan));
  const Result<Profile> profile =
      given ? *given : measured_layers(request, model);
  if (!profile) return profile.error();
  PIPEWRIGHT_TRY(const InProcessChannelCosts channel, measure_channel());
  PIPEWRIGHT_TRY(const StepMemory step,
                 step_memory(request.optimizer, request.max_norm > 0, model));
  PIPEWRIGHT_TRY(
      const Program program,
      with_run_memory(request.program, request.plan, model, *profile, step));
  PIPEWRIGHT_TRY(Timeline timeline,
                 predicted_timeline(program, *profile, device, channel));
  for (std::size_t w = 0; w < timeline.workers.size(); ++w)
    timeline.workers[w].peak = peak_with_steps(program, model, WorkerId(w),
                                               step, timeline.workers[w].peak);
  write_or_warn(request.run / "profile.json", to_text(*profile));
  if (const auto cluster = cluster_here(request.plan, device, channel))
    write_or_warn(request.run / "cluster.json", to_text(*cluster));
  write_or_warn(request.run / "predicted.json",
                chrome_trace(program, timeline));
  return timeline;
}

}  // namespace pipewright::cli
