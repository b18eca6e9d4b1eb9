#include "pipewright/simulate/run_overheads.h"

#include <algorithm>
#include <functional>

#include "pipewright/base/text.h"
#include "pipewright/cluster/this_machine_gpu.h"
#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/memory/run_memory.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright {
namespace {

constexpr int kRounds = 24;  // of halving what is searched

// Sums over the spans of a worker, and the pauses before them.
struct SpanSums {
  Seconds inside, before;
  int count = 0;

  void add(const Span& span, Seconds last_end) {
    inside += span.end - span.start;
    before += std::max(span.start - last_end, Seconds(0));
    ++count;
  }
  Seconds mean_inside() const { return inside / std::max(count, 1); }
  Seconds mean_before() const { return before / std::max(count, 1); }
};

// Of the steps after the first one, as far as their actions have spans.
struct WorkerSums {
  SpanSums forward, backward, step;
  SpanSums first;  // the actions after a step, which others also count

  explicit WorkerSums(const std::vector<Span>& spans) {
    bool is_counted = false, is_after_step = false;
    Seconds end;
    for (const Span& span : spans) {
      const bool is_step = span.kind == ActionKind::Step;
      const bool is_alone = is_step && is_after_step;
      if (is_counted && !is_alone) {
        (is_step                            ? step
         : span.kind == ActionKind::Forward ? forward
                                            : backward)
            .add(span, is_after_step ? span.start : end);
        if (is_after_step) first.add(span, end);
      }
      is_counted = is_counted || is_step;
      is_after_step = is_step;
      end = span.end;
    }
  }
};

// Takes the same off each, but leaves a tenth of it.
void take_off(std::vector<Seconds*> times, Seconds excess) {
  constexpr double kMaxShare = 0.9;
  std::sort(times.begin(), times.end(),
            [](const Seconds* a, const Seconds* b) { return *a < *b; });
  auto left = static_cast<double>(times.size());
  for (Seconds* time : times) {
    const Seconds part = std::min(*time * kMaxShare, excess / left--);
    *time -= part;
    excess -= part;
  }
}

Seconds sum_of(const std::vector<Seconds*>& times) {
  Seconds sum;
  for (const Seconds* time : times) sum += *time;
  return sum;
}

// Layers of one kind of action: their times come down to what the action takes,
// if they are longer together. Returns by how much they are shorter.
Seconds match(std::vector<Seconds*> times, Seconds action) {
  std::erase_if(times, [](const Seconds* time) { return *time == Seconds(0); });
  const Seconds sum = sum_of(times);
  if (sum > action) take_off(std::move(times), sum - action);
  return std::max(action - sum, Seconds(0));
}

Result<Program> run_program(const PipelineRun& run, const Model& model,
                            const std::string& device, const Profile& profile,
                            StepMemory& step) {
  PIPEWRIGHT_TRY(step, step_memory(run.optimizer, false, model, device));
  PIPEWRIGHT_TRY(Program program, lower(run.plan, profile));
  return with_run_memory(std::move(program), run.plan, model, profile, step);
}

// A line from 1 to the slowdown of all.
std::vector<double> slowdowns_up_to(double slowdown, int workers) {
  std::vector<double> result;
  for (int k = 1; k <= workers; ++k)
    result.push_back(1 + (slowdown - 1) * (k - 1) / std::max(workers - 1, 1));
  return result;
}

void add(const RunOverheads& overheads, Costs& costs) {
  for (Costs::OperationCost& operation : costs.operations) {
    for (Seconds& compute : operation.compute)
      if (compute > Seconds(0)) compute += overheads.action;
    operation.step += overheads.step;
  }
}

// Sets a number between `low` and `high` so that the run is simulated, with the
// costs that follow from it, to take as long as it was measured to.
Result<void> fit(
    double low, double high, const PipelineRun& run, const Profile& profile,
    const std::function<void(double)>& set,
    const std::function<Result<Costs>(const Program&)>& make_costs) {
  SimulateOptions quick;
  quick.keep_spans = quick.track_memory = false;
  const Seconds measured = step_period(run.timeline);
  PIPEWRIGHT_TRY(const Program program, lower(run.plan, profile));
  for (int round = 0; round < kRounds; ++round) {
    const double middle = (low + high) / 2;
    set(middle);
    PIPEWRIGHT_TRY(const Costs costs, make_costs(program));
    const Seconds step = simulate(program, costs, quick).step_seconds;
    (step < measured ? low : high) = middle;
  }
  set(low);
  return {};
}

Result<void> fit_action_on(const std::string& device, Seconds at_least,
                           const PipelineRun& run, const Profile& profile,
                           const InProcessChannelCosts& channel,
                           RunOverheads& overheads) {
  return fit(
      at_least.value(),
      std::max(at_least.value(), step_period(run.timeline).value()), run,
      profile, [&](double seconds) { overheads.action = Seconds(seconds); },
      [&](const Program& program) {
        return costs_on(device, program, profile, channel, overheads);
      });
}

// By how much a step of the run is simulated to take longer than it took.
Result<Seconds> simulated_beyond(const PipelineRun& run, const Profile& profile,
                                 const std::string& device,
                                 const RunOverheads& overheads) {
  PIPEWRIGHT_TRY(const Program program, lower(run.plan, profile));
  PIPEWRIGHT_TRY(const Costs costs,
                 costs_on(device, program, profile, {}, overheads));
  return simulate(program, costs).step_seconds - step_period(run.timeline);
}

}  // namespace

std::string RunOverheads::to_text() const {
  using pipewright::to_text;
  std::string text = "an action takes " + to_text(action) +
                     " beside its layers, a step " + to_text(step) +
                     " beside its updates, " + to_text(base_memory) +
                     " are held beside tensors";
  if (slowdowns.size() > 1)
    text += ", and " + std::to_string(slowdowns.size()) +
            " workers at once take " + to_text(slowdowns.back(), 3) +
            " times as long as one alone";
  return text;
}

std::vector<int> gpu_units(const std::string& device, int workers) {
  const int share = device == "cuda-stream" ? workers : gpu_share(device);
  std::vector<int> units;
  for (int w = 0; w < workers; ++w) units.push_back(w / std::max(share, 1));
  return units;
}

Result<Costs> costs_on(const std::string& device, const Program& program,
                       Profile profile, const InProcessChannelCosts& channel,
                       const RunOverheads& overheads) {
  const auto times = profile.times.find(device);
  if (times == profile.times.end())
    return bad_configuration(
        "the profile has no times of " + device,
        "measure it with pipewright profile --device " + device);
  const bool is_gpu = device != "cpu";
  profile.times = {{"cpu", times->second}};  // those that it reads
  PIPEWRIGHT_TRY(Costs costs,
                 in_process_costs(program, profile,
                                  is_gpu ? InProcessChannelCosts() : channel));
  add(overheads, costs);
  if (is_gpu)
    costs.contention = {gpu_units(device, program.num_workers()),
                        overheads.slowdowns};
  return costs;
}

Result<RunOverheads> overheads_alone(const PipelineRun& alone,
                                     const Model& model,
                                     const std::string& device,
                                     Profile& profile) {
  const WorkerSums sums(alone.timeline.spans.front());
  const auto table = profile.times.find(device);
  if (table == profile.times.end() ||
      !table->second.contains(alone.plan.microbatch))
    return bad_configuration("the profile has no times of " + device + " at " +
                             std::to_string(alone.plan.microbatch));
  std::vector<Seconds*> forward, backward;
  Seconds updates;
  for (LayerTimes& layer : table->second.at(alone.plan.microbatch)) {
    forward.push_back(&layer.forward);
    backward.push_back(&layer.backward_input);
    backward.push_back(&layer.backward_weight);
    updates += layer.update;
  }
  const Seconds beside = match(forward, sums.forward.mean_inside()) +
                         match(backward, sums.backward.mean_inside());
  RunOverheads result;
  const Seconds pauses =
      (sums.forward.before + sums.backward.before) /
      std::max(sums.forward.count + sums.backward.count - sums.first.count, 1);
  result.action = beside / 2.0 + pauses;
  result.step =
      std::max(sums.step.mean_inside() - updates + sums.step.mean_before() +
                   std::max(sums.first.mean_before() - pauses, Seconds(0)),
               Seconds(0));
  // Most steps of the run were not timed, and are shorter.
  if (auto fitted =
          fit_action_on(device, Seconds(0), alone, profile, {}, result);
      !fitted)
    return fitted.error();
  PIPEWRIGHT_TRY(const Seconds longer,
                 simulated_beyond(alone, profile, device, result));
  std::vector<Seconds*> both = forward;
  both.insert(both.end(), backward.begin(), backward.end());
  std::erase_if(both, [](const Seconds* time) { return *time == Seconds(0); });
  if (longer > Seconds(0))
    take_off(both, longer / alone.plan.schedule.num_microbatches());
  PIPEWRIGHT_TRY(const std::vector<Bytes> base,
                 base_memory_of(alone, model, device, profile));
  result.base_memory = base.front();
  return result;
}

Result<std::vector<Bytes>> base_memory_of(const PipelineRun& run,
                                          const Model& model,
                                          const std::string& device,
                                          const Profile& profile) {
  StepMemory step;
  PIPEWRIGHT_TRY(const Program program,
                 run_program(run, model, device, profile, step));
  PIPEWRIGHT_TRY(const Costs costs, costs_on(device, program, profile, {}));
  const Timeline simulated = simulate(program, costs);
  std::vector<Bytes> result;
  for (int w = 0; w < program.num_workers(); ++w) {
    const MemoryUse peak = peak_with_steps(program, model, WorkerId(w), step,
                                           simulated.workers[w].peak);
    result.push_back(std::max(
        run.timeline.workers[w].peak.total() - peak.total(), Bytes(0)));
  }
  return result;
}

Result<void> fit_action(const PipelineRun& run, const Profile& profile,
                        const InProcessChannelCosts& channel,
                        RunOverheads& overheads) {
  return fit_action_on("cpu", Seconds(0), run, profile, channel, overheads);
}

Result<void> fit_together(const PipelineRun& together, const Profile& profile,
                          const std::string& device, RunOverheads& overheads) {
  const int workers = together.plan.num_workers();
  overheads.slowdowns.clear();
  if (gpu_units(device, workers).back() == workers - 1)
    return fit_action_on(device, overheads.action, together, profile, {},
                         overheads);
  return fit(
      1, 8.0 * workers, together, profile,
      [&](double slowdown) {
        overheads.slowdowns = slowdowns_up_to(slowdown, workers);
      },
      [&](const Program& program) {
        return costs_on(device, program, profile, {}, overheads);
      });
}

}  // namespace pipewright
