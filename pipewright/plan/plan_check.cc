// What a plan must fulfil before it is lowered: check_plan() of plan.h.

#include <algorithm>
#include <map>
#include <set>

#include "pipewright/base/text.h"
#include "pipewright/plan/plan.h"
#include "pipewright/plan/replica_count.h"
#include "pipewright/plan/sample_range.h"

namespace pipewright {
namespace {

std::string stage_name(std::size_t stage) {
  return "stage " + std::to_string(stage);
}

std::string layer_name(const Profile& profile, LayerId layer) {
  return "layer " + std::to_string(layer.value) + " (" +
         profile.layers[layer.index()].name + ")";
}

// The stage of each layer, or an error that names the layer.
Result<std::vector<StageId>> stage_of_layers(
    const Plan& plan, const Profile& profile,
    std::vector<LayerId> Stage::*layers, const std::string& direction) {
  std::vector<StageId> stage_of(profile.layers.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const std::vector<LayerId>& list = plan.stages[s].*layers;
    if (!std::is_sorted(list.begin(), list.end()))
      return malformed(
          "its " + direction + " layers are not in ascending order",
          stage_name(s));
    for (LayerId layer : list) {
      if (layer.is_none() || layer.value >= profile.num_layers())
        return malformed(
            "layer " + std::to_string(layer.value) +
                " does not exist; the model has " +
                std::to_string(profile.num_layers()),
            stage_name(s),
            "give the model or the profile that the plan was made for");
      StageId& stage = stage_of[layer.index()];
      if (!stage.is_none())
        return malformed(layer_name(profile, layer) + " has its " + direction +
                             " in " + stage_name(stage.index()) + " too",
                         stage_name(s));
      stage = StageId(s);
    }
  }
  for (std::size_t l = 0; l < stage_of.size(); ++l) {
    if (stage_of[l].is_none())
      return malformed(
          layer_name(profile, LayerId(l)) + " has its " + direction +
              " in no stage",
          "plan", "give the model or the profile that the plan was made for");
    for (LayerId input : profile.layers[l].inputs)
      if (stage_of[input.index()] > stage_of[l])
        return malformed(layer_name(profile, input) + " feeds " +
                             layer_name(profile, LayerId(l)) + ", whose " +
                             direction + " is in an earlier stage (" +
                             std::to_string(stage_of[l].value) + " < " +
                             std::to_string(stage_of[input.index()].value) +
                             ")",
                         stage_name(stage_of[input.index()].index()));
  }
  return stage_of;
}

Result<void> check_numbers(const Plan& plan) {
  if (plan.microbatch < 1 || plan.minibatch < 1 ||
      plan.minibatch % plan.microbatch != 0)
    return malformed("a minibatch of " + std::to_string(plan.minibatch) +
                         " samples is not a multiple of the microbatch of " +
                         std::to_string(plan.microbatch),
                     "plan");
  const Schedule& schedule = plan.schedule;
  const auto differ = [](const std::string& what, int of_schedule,
                         int of_plan) {
    return malformed("the schedule is for " + std::to_string(of_schedule) +
                         " " + what + ", the plan has " +
                         std::to_string(of_plan),
                     "plan");
  };
  if (schedule.num_stages() != plan.num_stages())
    return differ("stages", schedule.num_stages(), plan.num_stages());
  if (schedule.num_workers() != plan.num_workers())
    return differ("workers", schedule.num_workers(), plan.num_workers());
  if (schedule.num_microbatches() != plan.num_microbatches())
    return differ("microbatches", schedule.num_microbatches(),
                  plan.num_microbatches());
  if (is_asynchronous(plan.method) != schedule.is_asynchronous() &&
      plan.method == Method::Sync)
    return malformed(
        "an asynchronous schedule cannot carry the method \"sync\"", "plan",
        "choose another method, or a schedule that drains");
  return {};
}

// Every layer up to the last one is in one stage. Which is the last, and the
// names, only the model knows.
Result<void> check_once(const Plan& plan, std::vector<LayerId> Stage::*layers,
                        const std::string& direction) {
  std::map<LayerId, std::size_t> stage_of;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (LayerId layer : plan.stages[s].*layers)
      if (const auto [other, is_new] = stage_of.emplace(layer, s); !is_new)
        return malformed("layer " + std::to_string(layer.value) + " has its " +
                             direction + " in " + stage_name(other->second) +
                             " too",
                         stage_name(s));
  int next = 0;
  for (const auto& [layer, stage] : stage_of)
    if (layer.value != next++)
      return malformed("layer " + std::to_string(next - 1) + " has its " +
                           direction + " in no stage",
                       "plan");
  return {};
}

// Who runs a stage by the schedule must be who holds it by the plan.
Result<void> check_workers(const Plan& plan) {
  std::vector<std::set<WorkerId>> runs(plan.stages.size());
  const auto& sections = plan.schedule.sections();
  for (const Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue})
    for (std::size_t w = 0; w < orders->size(); ++w)
      for (const ComputeAction& action : (*orders)[w])
        runs[action.stage.index()].insert(WorkerId(w));
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& workers = plan.stages[s].workers;
    const std::set<WorkerId> holds(workers.begin(), workers.end());
    if (holds.size() != workers.size())
      return malformed("a worker holds it twice", stage_name(s));
    if (holds != runs[s])
      return malformed(
          "the workers that hold it are not those that run it by "
          "the schedule",
          stage_name(s));
    if (auto checked =
            check_replica_count(s, workers.size(), plan.replication,
                                plan.microbatch, plan.num_microbatches());
        !checked)
      return checked;
  }
  return {};
}

// Sample counts are for replicas that split a microbatch, and make it whole.
Result<void> check_counts(const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (stage.samples.empty()) continue;
    if (plan.replication != Replication::Split)
      return malformed("it has sample counts, but replicas take turns",
                       stage_name(s),
                       "leave out \"samples\", or use \"split\"");
    if (stage.samples.size() != stage.workers.size())
      return malformed(std::to_string(stage.samples.size()) +
                           " sample counts for " +
                           std::to_string(stage.workers.size()) + " workers",
                       stage_name(s), "give one count per worker");
    std::int64_t sum = 0;
    for (int count : stage.samples) sum += count;
    if (sum != plan.microbatch ||
        *std::min_element(stage.samples.begin(), stage.samples.end()) < 1)
      return malformed("its sample counts sum to " + std::to_string(sum) +
                           ", a microbatch has " +
                           std::to_string(plan.microbatch) + " samples",
                       stage_name(s), "each count is at least 1");
  }
  return {};
}

// Replicas that split a microbatch all run it; of those that take turns one
// does. No field of a plan says which of the two a stage is, so a schedule in
// which workers already take turns (chimera) has no replicas that split.
Result<void> check_turns(const Plan& plan) {
  if (plan.schedule.is_asynchronous()) return {};
  const bool split = plan.replication == Replication::Split;
  std::map<std::pair<StageId, MicrobatchId>, std::size_t> runs;
  for (const auto& order : plan.schedule.sections().body)
    for (const ComputeAction& action : order)
      if (action.kind == ComputeKind::Forward &&
          plan.stages[action.stage.index()].workers.size() > 1)
        ++runs[{action.stage, action.microbatch}];
  for (const auto& [place, count] : runs) {
    const auto& [stage, microbatch] = place;
    const std::size_t all = plan.stages[stage.index()].workers.size();
    if (count != (split ? all : 1))
      return malformed(
          std::to_string(count) + " of its " + std::to_string(all) +
              " workers run microbatch " + std::to_string(microbatch.value) +
              ", but replication is \"" + (split ? "split" : "rotate") + "\"",
          stage_name(stage.index()),
          split ? "let all replicas run every microbatch, or \"rotate\""
                : "let one replica run each microbatch, or \"split\"");
  }
  return {};
}

// A worker with several split stages has the same samples in each, so that what
// one of them makes is whole where another uses it.
Result<void> check_slices(const Plan& plan) {
  if (plan.replication != Replication::Split) return {};
  std::vector<SampleRange> range_of(plan.devices.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const auto& workers = plan.stages[s].workers;
    for (std::size_t j = 0; j < workers.size(); ++j) {
      SampleRange& range = range_of[workers[j].index()];
      const SampleRange here =
          samples_of(plan, plan.stages[s], static_cast<int>(j));
      if (range.empty()) range = here;
      if (range != here)
        return malformed("worker " + std::to_string(workers[j].value) +
                             " has samples " + std::to_string(here.first) +
                             " to " + std::to_string(here.end - 1) +
                             " here, but others of its other stages",
                         stage_name(s),
                         "give stages that share workers the same workers in "
                         "the same order, and the same sample counts");
    }
  }
  return {};
}

// A bucket goes on with the stage before it.
Result<void> check_buckets(const Plan& plan) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const Stage& stage = plan.stages[s];
    if (!stage.bucket) continue;
    if (s == 0)
      return malformed(
          "it is a bucket of the stage before it, but there is "
          "none",
          stage_name(s));
    if (stage.workers != plan.stages[s - 1].workers ||
        stage.samples != plan.stages[s - 1].samples)
      return malformed(
          "it is a bucket of the stage before it, but has other workers or "
          "samples",
          stage_name(s), "leave out \"bucket\", or give both the same");
  }
  return {};
}

std::vector<SampleRange> ranges_of(const Plan& plan, const Stage& stage) {
  std::vector<SampleRange> ranges;
  for (std::size_t j = 0; j < stage.workers.size(); ++j)
    ranges.push_back(samples_of(plan, stage, static_cast<int>(j)));
  return ranges;
}

// What a layer that mixes samples keeps is of all samples that its forward saw,
// so its backward is for these.
Result<void> check_samples(const Plan& plan, const Profile& profile,
                           const std::vector<StageId>& forward,
                           const std::vector<StageId>& backward) {
  if (plan.replication != Replication::Split) return {};
  for (std::size_t l = 0; l < forward.size(); ++l) {
    if (!profile.layers[l].mixes_samples || forward[l] == backward[l]) continue;
    const Stage& there = plan.stages[forward[l].index()];
    const Stage& here = plan.stages[backward[l].index()];
    const std::string mixes = layer_name(profile, LayerId(l)) +
                              " mixes the samples of a microbatch: its ";
    const std::string way_out =
        "give both stages as many replicas, or keep forward and backward of "
        "this layer together";
    if (there.workers.size() != here.workers.size())
      return malformed(mixes + "forward has " +
                           std::to_string(there.workers.size()) +
                           " replicas and its backward " +
                           std::to_string(here.workers.size()),
                       stage_name(backward[l].index()), way_out);
    if (ranges_of(plan, there) != ranges_of(plan, here))
      return malformed(mixes +
                           "backward has other sample counts than its "
                           "forward",
                       stage_name(backward[l].index()),
                       "give both stages the same counts");
  }
  return {};
}

// A segment's stages are alone on their workers: what one of them recomputes
// must not take the place of what another one keeps.
Result<void> check_segments(const Plan& plan) {
  std::vector<int> stages_of(plan.devices.size());
  for (const Stage& stage : plan.stages)
    for (const WorkerId worker : stage.workers) ++stages_of[worker.index()];
  std::vector<bool> recomputes(plan.stages.size());
  for (const auto& order : plan.schedule.sections().body)
    for (const ComputeAction& action : order)
      if (action.kind == ComputeKind::Recompute)
        recomputes[action.stage.index()] = true;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    if (!plan.stages[s].continues) continue;
    if (s == 0)
      return malformed("there is no segment that it could continue",
                       stage_name(s));
    for (const std::size_t member : {s - 1, s}) {
      const Stage& stage = plan.stages[member];
      if (!stage.recompute || !recomputes[member])
        return malformed("it is in a segment, but does not recompute",
                         stage_name(member),
                         "the schedule says when: 1R0 is microbatch 0");
      if (stage.forward != stage.backward || stage.workers.size() != 1 ||
          stages_of[stage.workers[0].index()] != 1)
        return malformed(
            "it is in a segment, but not alone on one worker with its forward "
            "and backward",
            stage_name(member), "recompute from each stage's own input");
    }
  }
  return {};
}

// Everything but the layers.
Result<void> check_stages(const Plan& plan) {
  if (plan.stages.empty()) return malformed("it has no stages", "plan");
  if (Result<void> numbers = check_numbers(plan); !numbers) return numbers;
  if (Result<void> workers = check_workers(plan); !workers) return workers;
  if (Result<void> counts = check_counts(plan); !counts) return counts;
  if (Result<void> turns = check_turns(plan); !turns) return turns;
  if (Result<void> slices = check_slices(plan); !slices) return slices;
  if (Result<void> buckets = check_buckets(plan); !buckets) return buckets;
  return check_segments(plan);
}

}  // namespace

Result<void> check_plan(const Plan& plan) {
  if (Result<void> stages = check_stages(plan); !stages) return stages;
  for (auto [layers, direction] : {std::pair{&Stage::forward, "forward"},
                                   std::pair{&Stage::backward, "backward"}})
    if (Result<void> once = check_once(plan, layers, direction); !once)
      return once;
  return {};
}

Result<void> check_plan(const Plan& plan, const Profile& profile) {
  if (Result<void> stages = check_stages(plan); !stages) return stages;
  auto forward = stage_of_layers(plan, profile, &Stage::forward, "forward");
  if (!forward) return forward.error();
  auto backward = stage_of_layers(plan, profile, &Stage::backward, "backward");
  if (!backward) return backward.error();
  return check_samples(plan, profile, *forward, *backward);
}

}  // namespace pipewright
