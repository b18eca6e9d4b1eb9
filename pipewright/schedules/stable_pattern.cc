#include "pipewright/schedules/stable_pattern.h"

#include <algorithm>
#include <optional>

#include "pipewright/base/index.h"
#include "pipewright/schedules/zero_bubble_order.h"

namespace pipewright {
namespace {

constexpr int kSlotsPerMicrobatch = 6;

// F and I of a worker, in the order of the repeated blocks.
std::vector<ComputeAction> passes(const BuildingBlock& block, VStages stages,
                                  int microbatches) {
  struct Pass {
    std::int64_t slot;
    ComputeAction action;
  };
  std::vector<Pass> all;
  for (MicrobatchId m(0); m.value < microbatches; ++m) {
    const auto add = [&](int slot, StageId stage, ComputeKind kind) {
      all.push_back({slot + std::int64_t{m.value} * kSlotsPerMicrobatch,
                     {.stage = stage, .microbatch = m, .kind = kind}});
    };
    add(block.forward_down, stages.down, ComputeKind::Forward);
    add(block.forward_up, stages.up, ComputeKind::Forward);
    add(block.input_up, stages.up, ComputeKind::BackwardInput);
    add(block.input_down, stages.down, ComputeKind::BackwardInput);
  }
  std::stable_sort(all.begin(), all.end(), [](const Pass& a, const Pass& b) {
    return a.slot < b.slot;
  });
  std::vector<ComputeAction> order;
  for (const Pass& pass : all) order.push_back(pass.action);
  return order;
}

// Runs the passes slot by slot, and W in the free slots.
class Squeeze {
 public:
  Squeeze(const std::vector<BuildingBlock>& blocks, int microbatches, int limit)
      : workers_(static_cast<int>(blocks.size())),
        microbatches_(microbatches),
        limit_(limit),
        done_in_(4 * blocks.size() * at(microbatches), -1),
        orders_(blocks.size()) {
    for (int w = 0; w < workers_; ++w)
      lines_.emplace_back().passes =
          passes(blocks[at(w)], v_stages(w, workers_), microbatches);
  }

  // None if every worker waits for memory.
  std::optional<Orders> run() {
    for (int slot = 0, left = workers_; left > 0; ++slot) {
      bool moved = false;
      left = 0;
      for (std::size_t w = 0; w < lines_.size(); ++w) {
        moved |= fill(w, slot);
        left += is_finished(lines_[w]) ? 0 : 1;
      }
      if (!moved && left > 0) return std::nullopt;
    }
    return std::move(orders_);
  }

 private:
  struct Line {
    std::vector<ComputeAction> passes;
    std::size_t next = 0;
    std::vector<ComputeAction> weights;  // all W so far, in the order of I
    std::size_t next_weight = 0;
    int held = 0;
  };

  static bool is_finished(const Line& line) {
    return line.next == line.passes.size() &&
           line.next_weight == line.weights.size();
  }

  int& done_in(bool backward, int stage, MicrobatchId microbatch) {
    return done_in_[at((2 * stage + (backward ? 1 : 0)) * microbatches_ +
                       microbatch.value)];
  }

  bool can_start(const Line& line, const ComputeAction& a, int slot) {
    const bool backward = a.kind == ComputeKind::BackwardInput;
    if (!backward && line.held >= limit_) return false;
    const int before = a.stage.value + (backward ? 1 : -1);
    if (before < 0 || before >= 2 * workers_) return true;
    const int done = done_in(backward, before, a.microbatch);
    return done >= 0 && done < slot;
  }

  // Runs one action in this slot; false if the worker is idle.
  bool fill(std::size_t worker, int slot) {
    Line& line = lines_[worker];
    if (line.next < line.passes.size() &&
        can_start(line, line.passes[line.next], slot)) {
      ComputeAction a = line.passes[line.next++];
      orders_[worker].push_back(a);
      const bool backward = a.kind == ComputeKind::BackwardInput;
      done_in(backward, a.stage.value, a.microbatch) = slot;
      line.held += backward ? 0 : 1;
      a.kind = ComputeKind::BackwardWeight;
      if (backward) line.weights.push_back(a);
      return true;
    }
    if (line.next_weight == line.weights.size()) return false;
    orders_[worker].push_back(line.weights[line.next_weight++]);
    --line.held;
    return true;
  }

  const int workers_, microbatches_, limit_;
  std::vector<int> done_in_;  // the slot of F and I by stage and microbatch
  std::vector<Line> lines_;
  Orders orders_;
};

}  // namespace

Orders repeat_building_block(const std::vector<BuildingBlock>& blocks,
                             int microbatches, int limit) {
  for (;; ++limit)
    if (auto orders = Squeeze(blocks, microbatches, limit).run())
      return *std::move(orders);
}

}  // namespace pipewright
