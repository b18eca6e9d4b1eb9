// Random programs that can run: every action is appended in one global order in
// which all it reads has been made, so that this order is a way through.
//
// Workers are then shifted against each other by whole repetitions, so that
// prologue, body and epilogue all carry actions.

#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/costs.h"

namespace pipewright::test {

struct RandomProgram {
  Program program;
  Costs costs;
};

struct RandomKind {
  bool finite_links = true;
  bool half_duplex = false;
  bool shared = false;
  bool blocking = false;
  bool rings = false;    // reductions carry bytes over links that others use
  bool chained = false;  // reductions wait for others, as a norm does
  bool streams = false;  // some transfers leave while they are being made
  bool whole_seconds = false;  // so that many things happen at one moment
};

class RandomPrograms {
 public:
  explicit RandomPrograms(unsigned seed) : random_(seed) {}

  RandomProgram make(const RandomKind& kind) {
    kind_ = kind;
    made_ = {};
    Program& p = made_.program;
    const int workers = pick(1, 5);
    p.num_stages = 2 * workers;
    p.num_microbatches = pick(1, 4);
    p.workers.resize(std::size_t(workers));
    lists_.assign(std::size_t(workers), {});
    channels_.clear();
    p.read_sets.emplace_back();
    add_operations(workers);
    if (kind.shared || kind.rings) add_resources();
    const int num_steps = pick(5, 60);
    for (int i = 0; i < num_steps; ++i) add_something(workers);
    finish_channels();
    add_reduction(workers);
    for (int w = 0; w < workers; ++w) {
      add_compute(w);
      made_.costs.blocking.push_back(kind.blocking ? 0.5 * pick(0, 2) : 0);
    }
    shift();
    return made_;
  }

 private:
  struct Channel {
    int from, to;
    TransferKind kind;
    std::vector<Action> messages;  // in order; sent and posted so many of them
    std::size_t sent = 0, posted = 0, read = 0;
    int link = -1;
    double bandwidth = 0;
  };

  int pick(int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random_);
  }
  double seconds() {
    if (kind_.whole_seconds) return pick(0, 4);
    return std::uniform_real_distribution<double>(0, 3)(random_);
  }

  void add_operations(int workers) {
    Program& p = made_.program;
    p.operation_of.resize(std::size_t(workers * p.num_stages));
    for (int s = 0; s < p.num_stages; ++s) {
      const int w = s / 2;
      Operation operation;
      operation.stage = StageId(s);
      operation.worker = WorkerId(w);
      p.operation_of[std::size_t(w * p.num_stages + s)] = OperationId(s);
      p.operations.push_back(operation);
      Costs::OperationCost cost;
      for (Seconds& time : cost.compute) time = Seconds(seconds());
      cost.step = Seconds(seconds());
      made_.costs.operations.push_back(cost);
    }
  }

  void add_resources() {
    const int count = pick(1, 3);
    for (int r = 0; r < count; ++r)
      made_.costs.resources.push_back(
          {"shared", BytesPerSecond(pick(1, 6) + seconds()),
           pick(0, 1) ? Duplex::Full : Duplex::Half});
  }

  void add_something(int workers) {
    const int what = pick(0, 9);
    if (what < 4 || workers == 1) {
      add_compute(pick(0, workers - 1));
      return;
    }
    Channel& channel = some_channel(workers);
    if (pick(0, 1))
      send(channel);
    else
      post(channel);
  }

  Channel& some_channel(int workers) {
    const int from = pick(0, workers - 1);
    const int to = (from + pick(1, workers - 1)) % workers;
    const auto kind = static_cast<TransferKind>(pick(0, 3));
    for (Channel& channel : channels_)
      if (channel.from == from && channel.to == to && channel.kind == kind)
        return channel;
    Channel channel{from, to, kind, {}, 0, 0, 0, -1, 0};
    channel.bandwidth = std::numeric_limits<double>::infinity();
    if (kind_.finite_links && pick(0, 3)) channel.bandwidth = pick(1, 4);
    if (kind_.half_duplex && pick(0, 1))
      channel.link = std::min(from, to) * workers + std::max(from, to);
    channels_.push_back(channel);
    return channels_.back();
  }

  void add_message(Channel& channel) {
    Program& p = made_.program;
    Transfer transfer;
    transfer.from = WorkerId(channel.from);
    transfer.to = WorkerId(channel.to);
    transfer.kind = channel.kind;
    transfer.bytes = Bytes(pick(0, 6));
    Action action;
    action.transfer = TransferId(p.transfers.size());
    action.microbatch = MicrobatchId(pick(0, p.num_microbatches - 1));
    if (transfer.is_keyed_by_version()) {
      const LayerId layer(p.weight_groups.size());
      transfer.group = WeightGroupId(p.weight_groups.size());
      transfer.values.push_back({ValueKind::Weights, layer});
      p.weight_groups.push_back({StageId(0), StageId(0), {layer}, Bytes(1)});
      action.version = 1;
      action.microbatch = MicrobatchId(0);
    }
    p.transfers.push_back(transfer);
    Costs::TransferCost cost;
    cost.latency = Seconds(seconds());
    cost.bandwidth = BytesPerSecond(channel.bandwidth);
    cost.half_duplex_link = channel.link;
    cost.streams = kind_.streams && pick(0, 3) > 0;
    if (kind_.shared && std::isfinite(channel.bandwidth) && pick(0, 2))
      for (std::size_t r = 0; r < made_.costs.resources.size(); ++r)
        if (pick(0, 1)) cost.uses.push_back({int(r), pick(0, 1) == 1});
    made_.costs.transfers.push_back(cost);
    channel.messages.push_back(action);
  }

  void send(Channel& channel) {
    if (channel.sent == channel.messages.size()) {
      add_message(channel);
      if (kind_.streams && pick(0, 3) > 0) make_by_last(channel);
    }
    Action action = channel.messages[channel.sent++];
    action.kind = ActionKind::Send;
    lists_[std::size_t(channel.from)].push_back(action);
  }
  // The last message carries what the sender's last action makes.
  void make_by_last(Channel& channel) {
    const auto& list = lists_[std::size_t(channel.from)];
    if (channel.kind == TransferKind::Weights || list.empty() ||
        !is_compute(list.back().kind))
      return;
    Action& message = channel.messages.back();
    Transfer& transfer = made_.program.transfers[message.transfer.index()];
    message.microbatch = list.back().microbatch;
    transfer.made_by = list.back().stage;
    transfer.again = list.back().kind == ActionKind::Recompute;
  }
  void post(Channel& channel) {
    if (channel.posted == channel.messages.size()) add_message(channel);
    Action action = channel.messages[channel.posted++];
    action.kind = ActionKind::Receive;
    lists_[std::size_t(channel.to)].push_back(action);
  }
  void finish_channels() {
    for (Channel& channel : channels_) {
      while (channel.sent < channel.messages.size()) send(channel);
      while (channel.posted < channel.messages.size()) post(channel);
    }
  }

  // Reads some of what has been sent and posted to the worker, sometimes
  // joined with another action that does so.
  void add_compute(int w) {
    auto& list = lists_[std::size_t(w)];
    list.push_back(reading_action(w));
    if (pick(0, 5) != 0) return;
    list.back().joined = true;
    list.push_back(reading_action(w));
  }

  Action reading_action(int w) {
    Program& p = made_.program;
    Action action;
    action.kind = static_cast<ActionKind>(pick(0, 4));
    action.stage = StageId(2 * w + pick(0, 1));
    action.microbatch = MicrobatchId(pick(0, p.num_microbatches - 1));
    ReadSet reads;
    for (Channel& channel : channels_)
      if (channel.to == w) add_reads(channel, action.microbatch, reads);
    action.read_set = ReadSetId(p.read_sets.size());
    p.read_sets.push_back(reads);
    return action;
  }

  void add_reads(Channel& channel, MicrobatchId microbatch, ReadSet& reads) {
    const std::size_t there = std::min(channel.sent, channel.posted);
    for (std::size_t i = 0; i < channel.messages.size(); ++i) {
      const Action& message = channel.messages[i];
      const bool weights = channel.kind == TransferKind::Weights;
      if (!weights && (i >= there || message.microbatch != microbatch))
        continue;
      if (pick(0, 2) == 0) continue;
      reads.transfers.push_back(message.transfer);
      // What comes later in the repetition was there one version earlier.
      if (weights)
        reads.weights.push_back(
            {group_of(message.transfer), i < there && pick(0, 1) ? 1 : 0});
    }
  }
  WeightGroupId group_of(TransferId t) const {
    return WeightGroupId(made_.program.transfer(t).values[0].layer.value);
  }

  void add_reduction(int workers) {
    Program& p = made_.program;
    const int count = kind_.chained ? pick(2, 4) : pick(0, 2);
    std::vector<std::pair<WorkerId, Action>> steps;  // to come
    for (int i = 0; i < count; ++i) {
      Reduction reduction;
      for (int w = 0; w < workers; ++w)
        if (pick(0, 1)) reduction.workers.push_back(WorkerId(w));
      if (reduction.workers.empty()) continue;
      const ReductionId index(p.reductions.size());
      ReadSet reads;
      reads.reductions.push_back(index);
      for (WorkerId w : reduction.workers) {
        Action action;
        action.kind = ActionKind::Reduce;
        action.stage = StageId(2 * w.value);
        action.reduction = index;
        lists_[w.index()].push_back(action);
        reduction.stages.push_back(action.stage);
        if (pick(0, 1)) add_compute(w.value);
      }
      for (WorkerId w : reduction.workers) {
        Action action;
        action.kind = ActionKind::Step;
        action.stage = StageId(2 * w.value);
        action.version = 1;
        action.read_set = ReadSetId(p.read_sets.size());
        steps.emplace_back(w, action);
      }
      p.read_sets.push_back(reads);
      if (!kind_.chained || pick(0, 1)) append(steps);
      for (int before = 0; before < index.value && kind_.chained; ++before)
        if (pick(0, 1)) reduction.after.push_back(ReductionId(before));
      p.reductions.push_back(reduction);
      add_ring(reduction);
    }
    append(steps);
  }

  void append(std::vector<std::pair<WorkerId, Action>>& actions) {
    for (const auto& [worker, action] : actions)
      lists_[worker.index()].push_back(action);
    actions.clear();
  }

  void add_ring(const Reduction& reduction) {
    Costs::ReductionCost cost;
    cost.latency = Seconds(seconds());
    if (kind_.rings && pick(0, 4)) {
      cost.bytes = pick(0, 12);
      if (pick(0, 1)) cost.bandwidth = BytesPerSecond(pick(1, 5));
      for (std::size_t i = 0; i < reduction.workers.size(); ++i) {
        cost.links.emplace_back();
        for (std::size_t r = 0; r < made_.costs.resources.size(); ++r)
          if (pick(0, 1))
            cost.links.back().push_back({int(r), pick(0, 1) == 1});
      }
      if (std::isinf(cost.bandwidth.value()) && kind_.finite_links &&
          made_.costs.resources.empty())
        cost.bandwidth = BytesPerSecond(3);
    }
    made_.costs.reductions.push_back(cost);
  }

  // Worker w does repetition r + ahead(w) in the body's repetition r.
  void shift() {
    Program& p = made_.program;
    std::vector<int> ahead;
    for (std::size_t w = 0; w < lists_.size(); ++w)
      ahead.push_back(pick(0, 1) ? pick(0, 3) : 0);
    const int most = *std::max_element(ahead.begin(), ahead.end());
    p.minibatches_outside = most;
    const auto append = [&](std::vector<Action>& to, std::size_t w, int r) {
      for (Action action : lists_[w]) {
        action.microbatch += r * p.num_microbatches;
        action.version += r;
        to.push_back(action);
      }
    };
    for (std::size_t w = 0; w < lists_.size(); ++w) {
      WorkerProgram& worker = p.workers[w];
      for (int r = 0; r < ahead[w]; ++r) append(worker.prologue, w, r);
      append(worker.body, w, ahead[w]);
      for (int r = ahead[w]; r < most; ++r) append(worker.epilogue, w, r);
    }
  }

  std::mt19937 random_;
  RandomKind kind_;
  RandomProgram made_;
  std::vector<std::vector<Action>> lists_;
  std::vector<Channel> channels_;
};

}  // namespace pipewright::test
