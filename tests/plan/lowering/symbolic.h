// A reference interpreter that computes with hashes instead of tensors: two
// runs that end with the same hashes fed the same values into the same
// operations. Shares no code with the validator or the runtime.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/profile/profile.h"

namespace pipewright {

class Symbolic {
 public:
  Symbolic(const Program& program, const Profile& profile, int minibatches)
      : program_(program), profile_(profile), minibatches_(minibatches) {}

  // The weights of every operation at the end, or nothing on a deadlock.
  std::optional<std::vector<std::uint64_t>> run() {
    for (int w = 0; w < program_.num_workers(); ++w) {
      actions_.push_back(unrolled(program_, WorkerId(w), minibatches_));
      for (const HeldWeights& held : program_.workers[wi(w)].held)
        for (int v = 0; v < 1; ++v)
          weights_[{w, held.group.value, 0}] = mix(77, word(held.group.value));
    }
    next_.assign(actions_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (int w = 0; w < program_.num_workers(); ++w)
        while (next_[wi(w)] < actions_[wi(w)].size() && step(w)) moved = true;
    }
    for (std::size_t w = 0; w < actions_.size(); ++w)
      if (next_[w] < actions_[w].size()) return std::nullopt;
    std::vector<std::uint64_t> result;
    for (const auto& [key, hash] : weights_)
      if (std::get<2>(key) == minibatches_) result.push_back(hash);
    return result;
  }

 private:
  using Word = std::uint64_t;
  static std::size_t wi(std::int64_t i) { return static_cast<std::size_t>(i); }
  static Word word(std::int64_t i) { return static_cast<Word>(i); }
  static Word mix(Word a, Word b) {
    Word x = a * 0x9E3779B97F4A7C15ull + b + 0x7F4A7C15ull;
    x ^= x >> 29;
    x *= 0xBF58476D1CE4E5B9ull;
    return x ^ (x >> 32);
  }

  // Arrived: both ends are done; messages pair up by number per channel.
  struct Channel {
    std::vector<Word> sent;
    std::vector<std::pair<std::int32_t, std::int32_t>> posted;  // transfer, key
  };
  auto channel_key(const Transfer& t) const {
    return std::tuple(t.from.value, t.to.value, static_cast<int>(t.kind));
  }
  std::optional<Word> arrived(std::int32_t transfer, std::int32_t key) {
    Channel& c = channels_[channel_key(program_.transfers[wi(transfer)])];
    for (std::size_t n = 0; n < std::min(c.sent.size(), c.posted.size()); ++n)
      if (c.posted[n] == std::pair(transfer, key)) return c.sent[n];
    return std::nullopt;
  }

  bool step(int w) {
    const Action& action = actions_[wi(w)][next_[wi(w)]];
    if (is_compute(action.kind) || action.kind == ActionKind::Step) {
      std::optional<Word> input = read(w, action);
      if (!input) return false;
      if (action.joined && !read(w, actions_[wi(w)][next_[wi(w)] + 1]))
        return false;
      if (action.kind == ActionKind::Step)
        make_version(w, action, *input);
      else
        compute(w, action, *input);
    } else if (action.kind == ActionKind::Reduce) {
      issued_[{action.reduction.value, action.version}].emplace_back(
          w, contribution(w, action));
    } else {
      transfer(w, action);
    }
    ++next_[wi(w)];
    return true;
  }

  std::optional<Word> read(int w, const Action& action) {
    const ReadSet& set = program_.reads(action);
    Word hash = 1;
    std::map<WeightGroupId, std::int32_t> version_of;
    for (const WeightRead& r : set.weights)
      version_of[r.group] = std::max(0, action.version + r.offset);
    for (TransferId id : set.transfers) {
      const Transfer& t = program_.transfers[id.index()];
      if (t.is_keyed_by_version()) {
        const std::int32_t version = version_of[t.group];
        if (version == 0) continue;
        const auto weights = arrived(id.value, version);
        if (!weights) return std::nullopt;
        weights_[{w, t.group.value, version}] = *weights;
        continue;
      }
      const auto content = arrived(id.value, action.microbatch.value);
      if (!content) return std::nullopt;
      hash = mix(hash, *content);
    }
    for (ReductionId r : set.reductions) {
      auto& parts = issued_[{r.value, action.version}];
      if (parts.size() < program_.reduction(r).workers.size())
        return std::nullopt;
      std::sort(parts.begin(), parts.end());
      for (const auto& [worker, part] : parts) hash = mix(hash, part);
    }
    for (const auto& [group, version] : version_of)
      hash = mix(hash, weights_.count({w, group.value, version})
                           ? weights_[{w, group.value, version}]
                           : 0xDEAD);
    for (const LocalRead& local : set.local)
      hash = mix(hash, result(w, local.stage.value,
                              local.kind == ActionKind::Backward ||
                                      local.kind == ActionKind::BackwardInput
                                  ? 'B'
                              : local.kind == ActionKind::Recompute ? 'R'
                                                                    : 'F',
                              action.microbatch.value));
    return hash;
  }

  Word result(int w, int stage, char kind, std::int32_t m) {
    auto found = results_.find({w, stage, kind, m});
    return found == results_.end() ? 0xBAD : found->second;
  }

  void compute(int w, const Action& action, Word input) {
    const char kind = action.kind == ActionKind::Forward          ? 'F'
                      : action.kind == ActionKind::Recompute      ? 'R'
                      : action.kind == ActionKind::BackwardWeight ? 'W'
                                                                  : 'B';
    const int stage = action.stage.value;
    const Word value = mix(mix(input, word(stage * 8)), word(kind));
    results_[{w, stage, kind, action.microbatch.value}] = value;
    if (action.kind == ActionKind::Backward ||
        action.kind == ActionKind::BackwardWeight)
      gradient_[{w, stage, program_.minibatch_of(action.microbatch)}] +=
          mix(value, 5);
  }

  Word contribution(int w, const Action& action) {
    Word sum = 3;
    for (StageId stage : program_.reduction(action.reduction).stages)
      if (program_.operation(WorkerId(w), stage))
        sum = mix(sum, gradient_[{w, stage.value, action.version - 1}]);
    return sum;
  }

  void make_version(int w, const Action& action, Word input) {
    const int minibatch = action.version - 1;
    const Word gradient = gradient_[{w, action.stage.value, minibatch}];
    for (std::size_t g = 0; g < program_.weight_groups.size(); ++g) {
      if (program_.weight_groups[g].owner != action.stage) continue;
      const int group = static_cast<int>(g);
      const Word old = weights_[{w, group, minibatch}];
      weights_[{w, group, action.version}] =
          mix(mix(old, gradient), mix(input, word(group)));
    }
  }

  // What a value is on its sender now: made by the operations that make it.
  Word content(int w, const Value& value, std::int32_t m) {
    Word hash =
        mix(word(static_cast<int>(value.kind)), word(value.layer.value));
    for (const Operation& o : program_.operations) {
      if (o.worker != WorkerId(w)) continue;
      const bool gradient = value.kind == ValueKind::Gradient;
      const auto& layers = gradient ? o.backward : o.forward;
      for (LayerId layer : layers) {
        const auto& inputs = profile_.layers[layer.index()].inputs;
        const bool uses = std::find(inputs.begin(), inputs.end(),
                                    value.layer) != inputs.end();
        if (gradient ? uses : layer == value.layer)
          hash = mix(hash, result(w, o.stage.value, gradient ? 'B' : 'F', m));
      }
    }
    return hash;
  }

  void transfer(int w, const Action& action) {
    const Transfer& t = program_.transfer(action.transfer);
    const std::int32_t key = program_.key(action);
    Channel& channel = channels_[channel_key(t)];
    if (action.kind == ActionKind::Receive) {
      channel.posted.emplace_back(action.transfer.value, key);
      return;
    }
    Word hash = 9;
    if (t.is_keyed_by_version())
      hash = weights_[{w, t.group.value, key}];
    else
      for (const Value& value : t.values)
        hash = mix(hash, content(w, value, key));
    channel.sent.push_back(hash);
  }

  const Program& program_;
  const Profile& profile_;
  int minibatches_;
  std::vector<std::vector<Action>> actions_;
  std::vector<std::size_t> next_;
  std::map<std::tuple<int, int, int>, Channel> channels_;
  std::map<std::tuple<int, int, int>, Word> weights_;  // worker, group, version
  std::map<std::tuple<int, int, char, int>, Word> results_;
  std::map<std::tuple<int, int, int>, Word> gradient_;  // minibatch last
  std::map<std::pair<int, int>, std::vector<std::pair<int, Word>>> issued_;
};

}  // namespace pipewright
