#include "pipewright/planners/spp/spp_order.h"

#include <algorithm>
#include <cstdint>

#include "pipewright/base/index.h"

namespace pipewright {
namespace {

// The round in which each microbatch starts: ceil(m x), in integers.
std::vector<int> starts(const std::vector<int>& held, int microbatches) {
  const int stages = static_cast<int>(held.size());
  std::vector<int> rounds(at(microbatches));
  for (int m = 0; m < microbatches; ++m) {
    int round = m;
    for (int s = 0; s < stages; ++s)
      if (held[at(s)] < microbatches) {
        const int rounds_back = 4 * (stages - 1 - s), k = held[at(s)];
        round = std::max(
            round,
            static_cast<int>((std::int64_t{m} * rounds_back + k - 1) / k));
      }
    rounds[at(m)] = round;
  }
  return rounds;
}

// Runs the rounds. Keeps for every stage and channel the time when it is free.
class Rounds {
 public:
  Rounds(const std::vector<StageLoad>& stages, int microbatches, Credits kind)
      : stages_(stages),
        held_(credits(kind, num_stages(), microbatches)),
        starts_(starts(held_, microbatches)),
        stage_free_(stages.size(), 0),
        channel_free_(stages.size(), 0),
        done_(at(microbatches), 0) {
    in_round_.assign(at(starts_.back() + 1), -1);
    for (int m = 0; m < microbatches; ++m) in_round_[at(starts_[at(m)])] = m;
  }

  Seconds run() {
    const int blocks = 4 * num_stages() - 3;
    for (int t = 0; t < starts_.back() + blocks; ++t) round(t);
    Seconds end;
    for (std::size_t s = 0; s < stages_.size(); ++s)
      end = std::max(end, Seconds(stage_free_[s]) + stages_[s].tail);
    return end;
  }

 private:
  int num_stages() const { return static_cast<int>(stages_.size()); }

  // The microbatch that block `j` works on in round t.
  int worked_on(int t, int j) const {
    const int start = t - j;
    if (start < 0 || start >= static_cast<int>(in_round_.size())) return -1;
    return in_round_[at(start)];
  }

  void work(double& free, int microbatch, Seconds duration) {
    if (microbatch < 0) return;
    double& done = done_[at(microbatch)];
    done = free = std::max(free, done) + duration.value();
  }

  void round(int t) {
    const int last = num_stages() - 1, blocks = 4 * last + 1;
    for (int s = 0; s < last; ++s) {
      const StageLoad& stage = stages_[at(s)];
      const int forward = worked_on(t, 2 * s);
      const int backward = worked_on(t, blocks - 1 - 2 * s);
      // The order in the stage if both are in one round.
      const bool forward_first =
          forward >= 0 && backward >= 0 && forward - held_[at(s)] < backward;
      double& free = stage_free_[at(s)];
      if (forward_first) work(free, forward, stage.forward);
      work(free, backward, stage.backward);
      if (!forward_first) work(free, forward, stage.forward);
      double& channel = channel_free_[at(s)];
      work(channel, worked_on(t, blocks - 2 - 2 * s), stage.channel);
      work(channel, worked_on(t, 2 * s + 1), stage.channel);
    }
    const StageLoad& stage = stages_[at(last)];
    work(stage_free_[at(last)], worked_on(t, 2 * last),
         stage.forward + stage.backward);
  }

  const std::vector<StageLoad>& stages_;
  const std::vector<int> held_, starts_;
  std::vector<double> stage_free_, channel_free_;
  std::vector<double> done_;  // when a microbatch's latest block ended
  std::vector<int> in_round_;
};

}  // namespace

std::vector<int> credits(Credits kind, int num_stages, int num_microbatches) {
  std::vector<int> held;
  for (int s = 0; s < num_stages; ++s) {
    const int after = num_stages - 1 - s;
    const int max_held = kind == Credits::Rounds     ? 4 * after
                         : kind == Credits::Channels ? 2 * after + 1
                                                     : after + 1;
    held.push_back(std::clamp(max_held, 1, num_microbatches));
  }
  return held;
}

const char* schedule_of(Credits kind) {
  return kind == Credits::Rounds     ? "spp-pe"
         : kind == Credits::Channels ? "spp-pe-capped"
                                     : "1f1b";
}

Seconds largest_load(const std::vector<StageLoad>& stages) {
  Seconds largest;
  for (const StageLoad& stage : stages)
    largest = std::max({largest, stage.forward + stage.backward,
                        stage.channel + stage.channel});
  return largest;
}

Seconds order_seconds(const std::vector<StageLoad>& stages, int microbatches,
                      Credits kind) {
  return Rounds(stages, microbatches, kind).run();
}

Seconds order_bound(const std::vector<StageLoad>& stages, int microbatches,
                    Credits kind) {
  const int num_stages = static_cast<int>(stages.size());
  const int last_start =
      starts(credits(kind, num_stages, microbatches), microbatches).back();
  Seconds tail;
  for (const StageLoad& stage : stages) tail = std::max(tail, stage.tail);
  return largest_load(stages) * (last_start + 4.0 * num_stages - 3) + tail;
}

}  // namespace pipewright
