// See pipelines.h.

#include "benchmarks/runtime/pipelines.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "pipewright/model/builder.h"
#include "pipewright/runtime/data/random_inputs.h"

namespace pipewright::bench {
namespace {

std::vector<double> layer_seconds(const Profile& profile, int microbatch) {
  std::vector<double> seconds;
  for (const LayerTimes& times : checked(times_at(profile, "cpu", microbatch)))
    seconds.push_back((times.forward + times.backward()).value());
  return seconds;
}

// Ends of runs whose largest sum is smallest: best[k][i] is that of the first i
// layers in k + 1 runs.
std::vector<std::size_t> balanced_ends(const std::vector<double>& seconds,
                                       std::size_t runs) {
  const std::size_t n = seconds.size();
  std::vector<double> sum(n + 1, 0);
  for (std::size_t i = 0; i < n; ++i) sum[i + 1] = sum[i] + seconds[i];
  std::vector<std::vector<double>> best(runs,
                                        std::vector<double>(n + 1, 1e300));
  std::vector<std::vector<std::size_t>> from(runs,
                                             std::vector<std::size_t>(n + 1));
  best[0] = sum;
  for (std::size_t k = 1; k < runs; ++k)
    for (std::size_t i = k + 1; i <= n; ++i)
      for (std::size_t j = k; j < i; ++j) {
        const double slowest = std::max(best[k - 1][j], sum[i] - sum[j]);
        if (slowest < best[k][i]) {
          best[k][i] = slowest;
          from[k][i] = j;
        }
      }
  std::vector<std::size_t> ends(runs);
  ends[runs - 1] = n;
  for (std::size_t k = runs; k-- > 1;) ends[k - 1] = from[k][ends[k]];
  return ends;
}

bool runs_on(const Schedule& schedule, int worker, StageId stage) {
  const auto& body = schedule.sections().body[static_cast<std::size_t>(worker)];
  return std::any_of(body.begin(), body.end(),
                     [&](const ComputeAction& a) { return a.stage == stage; });
}

// What the busiest worker has to do, then the longest stage.
std::pair<double, double> heaviest(const std::vector<double>& seconds,
                                   const std::vector<std::size_t>& ends,
                                   const Schedule& schedule) {
  std::vector<double> stages;
  std::size_t layer = 0;
  for (const std::size_t end : ends) {
    stages.push_back(0);
    for (; layer < end; ++layer) stages.back() += seconds[layer];
  }
  double busiest = 0;
  for (int w = 0; w < schedule.num_workers(); ++w) {
    double sum = 0;
    for (int s = 0; s < schedule.num_stages(); ++s)
      if (runs_on(schedule, w, StageId(s)))
        sum += stages[static_cast<std::size_t>(s)];
    busiest = std::max(busiest, sum);
  }
  return {busiest, *std::max_element(stages.begin(), stages.end())};
}

// Where a worker has several stages their sum counts: single cuts move as long
// as the busiest worker gets less to do.
std::vector<std::size_t> balanced_over_workers(
    const std::vector<double>& seconds, const Schedule& schedule) {
  std::vector<std::size_t> ends =
      balanced_ends(seconds, static_cast<std::size_t>(schedule.num_stages()));
  auto best = heaviest(seconds, ends, schedule);
  for (bool is_better = true; is_better;) {
    is_better = false;
    for (std::size_t s = 0; s + 1 < ends.size(); ++s)
      for (std::size_t end = s == 0 ? 1 : ends[s - 1] + 1; end < ends[s + 1];
           ++end) {
        std::vector<std::size_t> moved = ends;
        moved[s] = end;
        const auto heavy = heaviest(seconds, moved, schedule);
        if (heavy >= best) continue;
        best = heavy;
        ends = std::move(moved);
        is_better = true;
      }
  }
  return ends;
}

// Whether each action of a stage stands on all of its workers.
bool is_split(const Schedule& schedule) {
  int runs = 0, workers = 0;
  for (int w = 0; w < schedule.num_workers(); ++w) {
    workers += runs_on(schedule, w, StageId(0)) ? 1 : 0;
    for (const ComputeAction& action :
         schedule.sections().body[static_cast<std::size_t>(w)])
      if (action.stage == StageId(0) && action.microbatch.value == 0 &&
          action.kind == ComputeKind::Forward)
        ++runs;
  }
  return runs == workers;
}

Plan plan_of(const Model& model, const Schedule& schedule, int microbatch,
             const std::vector<std::size_t>& ends) {
  Plan plan;
  plan.model = model.name();
  plan.microbatch = microbatch;
  plan.minibatch = microbatch * schedule.num_microbatches();
  plan.schedule = schedule;
  plan.replication =
      is_split(schedule) ? Replication::Split : Replication::Rotate;
  std::size_t layer = 0;
  for (int s = 0; s < schedule.num_stages(); ++s) {
    Stage stage;
    while (layer < ends[static_cast<std::size_t>(s)])
      stage.forward.push_back(LayerId(layer++));
    stage.backward = stage.forward;
    for (int w = 0; w < schedule.num_workers(); ++w)
      if (runs_on(schedule, w, StageId(s)))
        stage.workers.push_back(WorkerId(w));
    plan.stages.push_back(stage);
  }
  for (int w = 0; w < schedule.num_workers(); ++w)
    plan.devices.push_back(DeviceId(w));
  return plan;
}

}  // namespace

Model residual_blocks(int width, int blocks) {
  ModelBuilder builder("residual-" + std::to_string(width));
  Source x = checked(builder.add_input({"input", {width}}));
  const Source target = checked(builder.add_input({"target", {width}}));
  for (int i = 0; i < blocks; ++i) {
    const std::string name = "block" + std::to_string(i) + ".";
    const auto add = [&](const std::string& part, LayerKind kind,
                         std::vector<Source> inputs, Attributes attributes) {
      return checked(builder.add_layer({.name = name + part,
                                        .kind = kind,
                                        .inputs = std::move(inputs),
                                        .attributes = std::move(attributes)}));
    };
    Source y = add("up", LayerKind::Linear, {x},
                   {{"out_features", std::int64_t{4 * width}}});
    y = add("gelu", LayerKind::Gelu, {y}, {});
    y = add("down", LayerKind::Linear, {y},
            {{"out_features", std::int64_t{width}}});
    x = add("add", LayerKind::Add, {x, y}, {});
  }
  checked(builder.add_layer(
      {.name = "loss", .kind = LayerKind::Mse, .inputs = {x, target}}));
  return checked(std::move(builder).build());
}

Plan balanced_plan(const Model& model, const Profile& profile,
                   const Schedule& schedule, int microbatch) {
  return plan_of(
      model, schedule, microbatch,
      balanced_over_workers(layer_seconds(profile, microbatch), schedule));
}

Plan even_plan(const Model& model, const Schedule& schedule, int microbatch) {
  const std::vector<double> alike(static_cast<std::size_t>(model.num_layers()),
                                  1);
  return plan_of(
      model, schedule, microbatch,
      balanced_ends(alike, static_cast<std::size_t>(schedule.num_stages())));
}

Schedule schedule_for(const std::string& name, const Profile& profile,
                      int workers, int microbatches, int microbatch) {
  ScheduleRequest request;
  request.workers = workers;
  request.microbatches = microbatches;
  const Schedule plain = checked(generate_schedule(name, request));
  ScheduleRequest::StageTimes mean{Seconds(0), Seconds(0), Seconds(0)};
  for (const LayerTimes& times :
       checked(times_at(profile, "cpu", microbatch))) {
    const double stages = plain.num_stages();
    mean.forward += times.forward / stages;
    mean.backward_input += times.backward_input / stages;
    mean.backward_weight += times.backward_weight / stages;
  }
  request.times.assign(static_cast<std::size_t>(plain.num_stages()), mean);
  Result<Schedule> timed = generate_schedule(name, request);
  return timed ? *std::move(timed) : plain;
}

MicrobatchSource steady_source(const Model& model, int microbatch) {
  auto tensors = std::make_shared<Tensors>();
  for (int i = 0; i < static_cast<int>(model.inputs().size()); ++i) {
    const ModelInput& input = model.inputs()[static_cast<std::size_t>(i)];
    Shape sizes = {microbatch};
    sizes.insert(sizes.end(), input.shape.begin(), input.shape.end());
    tensors->push_back(random_tensor(
        sizes, input.type, is_floating(input.type) ? 1 : index_bound(model, i),
        RandomStream(7, static_cast<std::uint64_t>(i), std::uint64_t{0})));
  }
  return [tensors](int input, std::int64_t) {
    return (*tensors)[static_cast<std::size_t>(input)];
  };
}

TrainingSettings plain_sgd() {
  TrainingSettings settings;
  settings.optimizer = sgd({0, 0, false});
  settings.learning_rate = [](std::int64_t) { return 1e-3; };
  return settings;
}

TrainingSettings momentum_sgd() {
  TrainingSettings settings = plain_sgd();
  settings.optimizer = sgd({0.9, 0, false});
  settings.learning_rate = [](std::int64_t) { return 1e-6; };
  return settings;
}

Seconds step_time(Executor& executor, const MicrobatchSource& source, int steps,
                  int runs) {
  std::vector<Seconds> times;
  checked(executor.run(source, steps));
  for (int i = 0; i < runs; ++i)
    times.push_back(checked(executor.run(source, steps)).timeline.step_seconds);
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

}  // namespace pipewright::bench
