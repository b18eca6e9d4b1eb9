#include "pipewright/planners/bapipe/bapipe_costs.h"

#include <algorithm>

#include "pipewright/base/infinity.h"
#include "pipewright/profile/tiers.h"

namespace pipewright {
namespace {

// The searches grow with the square of the cut positions. Of more than this
// many, only the cheapest of each group of neighbours is used.
constexpr int kMaxBlocks = 512;

// An exposed transfer may take this share of a slot before the partition is
// changed because of it (1F1B-SNO has no sharp condition).
constexpr double kExposedShare = 0.1;

std::vector<int> cut_positions(const CostTable& table) {
  const std::int64_t layers = table.num_layers();
  const std::int64_t blocks = std::min<std::int64_t>(layers, kMaxBlocks);
  std::vector<int> positions(1, 0);
  for (std::int64_t b = 1; b < blocks; ++b) {
    const auto last = static_cast<int>(b * layers / blocks);
    int best = last;
    for (int p = static_cast<int>((b - 1) * layers / blocks) + 1; p < last; ++p)
      if (table.crossing(p) < table.crossing(best)) best = p;
    positions.push_back(best);
  }
  positions.push_back(table.num_layers());
  return positions;
}

}  // namespace

std::string to_text(BaPipeSchedule schedule) {
  switch (schedule) {
    case BaPipeSchedule::OneAs:
      return "1F1B-AS";
    case BaPipeSchedule::FbpAs:
      return "FBP-AS";
    case BaPipeSchedule::Sno:
      return "1F1B-SNO";
    case BaPipeSchedule::So:
      return "1F1B-SO";
  }
  return "";
}

std::string generator_of(BaPipeSchedule schedule) {
  if (schedule == BaPipeSchedule::FbpAs) return "fbp";
  return schedule == BaPipeSchedule::So ? "1f1b-so" : "1f1b";
}

int in_flight(BaPipeSchedule schedule, int s, int num_stages,
              int num_microbatches) {
  const bool doubled =
      schedule == BaPipeSchedule::FbpAs || schedule == BaPipeSchedule::So;
  return std::min(num_microbatches, (doubled ? 2 : 1) * (num_stages - s));
}

Result<BlockCosts> BlockCosts::create(const Profile& profile,
                                      const Cluster& cluster, int microbatch) {
  PIPEWRIGHT_TRY(CostTable table,
                 CostTable::create(profile, cluster, microbatch));
  BlockCosts costs;
  costs.table_ = std::make_shared<const CostTable>(std::move(table));
  costs.positions_ = cut_positions(*costs.table_);
  for (const DeviceKind& kind : cluster.kinds())
    for (int tier = 0; tier < 2; ++tier) {
      const Bytes held = tier == 1 ? Bytes(0) : kMaxSize;
      PIPEWRIGHT_TRY(
          const std::vector<LayerTimes> times,
          times_on(profile, kind, microbatch, held, Outside::Extrapolate));
      auto& forward = costs.forward_[tier].emplace_back(1, 0.0);
      auto& backward = costs.backward_[tier].emplace_back(1, 0.0);
      for (int b = 0; b < costs.num_blocks(); ++b) {
        double f = 0, w = 0;
        for (int l = costs.position(b); l < costs.position(b + 1); ++l) {
          f += times[at(l)].forward.value();
          w += times[at(l)].backward().value();
        }
        forward.push_back(forward.back() + f);
        backward.push_back(backward.back() + w);
      }
    }
  for (int b = 0; b < costs.num_blocks(); ++b) {
    const std::vector<Bytes> kept = costs.table_->kept_from(costs.position(b));
    auto& row = costs.kept_.emplace_back();
    for (int end = b; end <= costs.num_blocks(); ++end)
      row.push_back(kept[at(costs.position(end) - costs.position(b))]);
  }
  return costs;
}

StageCosts::StageCosts(const BlockCosts& blocks, const Problem& problem,
                       BaPipeSchedule schedule, std::vector<DeviceId> devices)
    : blocks_(&blocks),
      problem_(&problem),
      schedule_(schedule),
      devices_(std::move(devices)),
      num_microbatches_(problem.minibatch / blocks.microbatch()) {}

int StageCosts::kind(int s) const {
  return problem_->cluster->devices()[device(s).index()].kind;
}

bool StageCosts::on_chip(int s, int first, int end) const {
  const DeviceKind& own = problem_->cluster->kind_of(device(s));
  return own.on_chip_memory > Bytes(0) &&
         fits_on_chip(own, memory(s, first, end));
}

Seconds StageCosts::forward(int s, int first, int end) const {
  return blocks_->forward(kind(s), on_chip(s, first, end), first, end);
}

Seconds StageCosts::backward(int s, int first, int end) const {
  return blocks_->backward(kind(s), on_chip(s, first, end), first, end);
}

Seconds StageCosts::transfer_of(int s, Bytes bytes) const {
  if (s + 1 >= num_stages() || s < 0) return Seconds(0);
  const Link* link = problem_->cluster->link(device(s), device(s + 1));
  if (link == nullptr) return Seconds(kInfinity);
  return link->latency + bytes / link->bandwidth;
}

Seconds StageCosts::slot(int s, int first, int end) const {
  const Seconds f = forward(s, first, end), b = backward(s, first, end);
  if (schedule_ == BaPipeSchedule::OneAs)
    return std::max(f, transfer(s, end)) + std::max(b, transfer(s - 1, first));
  return std::max(f + b, transfer(s, end) * 2.0);
}

bool StageCosts::link_limits(int s, int first, int end) const {
  const Seconds sr = transfer(s, end);
  const Seconds f = forward(s, first, end), b = backward(s, first, end);
  if (schedule_ == BaPipeSchedule::OneAs) return sr > f || sr > b;
  if (schedule_ != BaPipeSchedule::Sno) return sr * 2.0 > f + b;
  const double n = num_stages();
  return sr * (2 * (n - 1) / n) > (f + b) * kExposedShare;
}

Bytes StageCosts::memory(int s, int first, int end) const {
  const auto k = static_cast<std::int64_t>(
      in_flight(schedule_, s, num_stages(), num_microbatches_));
  const auto words = std::int64_t{2} + problem_->optimizer_words;
  Bytes sum = blocks_->weights(first, end) * words +
              blocks_->kept(first, end) * k + blocks_->crossing(first) +
              blocks_->crossing(end);
  if (!missed_.empty()) sum += missed_[at(s)];
  return sum;
}

Bytes StageCosts::capacity(int s) const {
  return problem_->memory_of(device(s));
}

Seconds bottleneck_of(const StageCosts& costs, const StageEnds& ends) {
  Seconds largest;
  for (int s = 0; s < costs.num_stages(); ++s)
    largest = std::max(largest, costs.slot(s, first_of(ends, s), ends[at(s)]));
  return largest;
}

Seconds promised_step(const StageCosts& costs, const StageEnds& ends) {
  const int n = costs.num_stages(), m = costs.num_microbatches();
  const bool streams = costs.schedule() == BaPipeSchedule::OneAs ||
                       costs.schedule() == BaPipeSchedule::FbpAs;
  Seconds period = bottleneck_of(costs, ends), round_trip;
  for (int s = n - 1; s >= 0; --s) {
    const int end = ends[at(s)];
    round_trip += costs.compute(s, first_of(ends, s), end);
    if (!streams) round_trip += costs.transfer(s, end) * 2.0;
    // 1F1B-SO runs one microbatch less ahead than its memory allows.
    const int ahead = costs.schedule() == BaPipeSchedule::So
                          ? std::min(m, 2 * (n - 1 - s) + 1)
                          : in_flight(costs.schedule(), s, n, m);
    if (ahead < m) period = std::max(period, round_trip / double(ahead));
  }
  return round_trip + period * double(m - 1);
}

}  // namespace pipewright
