// Slices that are added up and told; see sliced_reduction.h.

#include "pipewright/runtime/channels/sliced_reduction.h"

#include <algorithm>
#include <utility>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

const ParameterUses kNoUses;

}  // namespace

void SlicedReduction::Running::end() {
  microbatch = MicrobatchId();
  is_begun = is_added = false;
  slices.clear();
  sum.clear();
  own_sum.clear();
  sums.clear();
  num_read = 0;
}

SlicedReduction::SlicedReduction(MessageEngine& engine, LinkMessages& links,
                                 const Reduction& reduction, WorkerId worker,
                                 const Addresses& addresses,
                                 int num_microbatches, int num_readers,
                                 const std::string& name)
    : engine_(engine),
      reduction_(reduction),
      num_microbatches_(num_microbatches),
      num_readers_(num_readers),
      values_(addresses.to_add.size(), Values(1)) {
  std::vector<MessageAddress> others;
  for (std::size_t r = 0; r < addresses.to_add.size(); ++r) {
    const MessageAddress &to_add = addresses.to_add[r],
                         &to_tell = addresses.to_tell[r];
    Rank& rank = ranks_.emplace_back();
    rank.worker = WorkerId(to_add.rank);
    if (rank.worker == worker) {
      own_ = r;
      continue;
    }
    others.push_back(to_tell);
    rank.sender = std::make_unique<MessageSender>(
        engine, links, std::vector{to_add}, Priority::High, name);
    rank.slices = std::make_unique<MessageReceiver>(engine, links, to_add,
                                                    Priority::High, name);
    rank.sum = std::make_unique<MessageReceiver>(engine, links, to_tell,
                                                 Priority::High, name);
  }
  teller_ = std::make_unique<MessageSender>(engine, links, std::move(others),
                                            Priority::High, name);
}

// Of a tensor of one dimension. None if it has no elements.
at::Tensor SlicedReduction::slice(const at::Tensor& flat,
                                  std::size_t rank) const {
  const auto count = static_cast<std::int64_t>(ranks_.size()),
             place = static_cast<std::int64_t>(rank);
  const std::int64_t first = flat.numel() * place / count,
                     end = flat.numel() * (place + 1) / count;
  if (first == end) return {};
  return flat.narrow(0, first, end - first);
}

// With the engine's mutex.
void SlicedReduction::begin(Running& running) {
  if (std::exchange(running.is_begun, true)) return;
  const std::int32_t key = running.microbatch.value;
  running.parts.resize(ranks_.size());
  for (const Rank& rank : ranks_) {
    running.slices.push_back(rank.slices ? &rank.slices->post(key) : nullptr);
    running.sum.push_back(rank.sum ? &rank.sum->post(key) : nullptr);
  }
}

void SlicedReduction::contribute(MicrobatchId microbatch,
                                 std::vector<Contribution>&& contributions) {
  if (sizes_.empty())
    for (const ParameterId parameter : reduction_.parameters) {
      const auto found = std::find_if(
          contributions.begin(), contributions.end(),
          [&](const auto& each) { return each.parameter == parameter; });
      PIPEWRIGHT_CHECK(found != contributions.end(),
                       "a replica has no gradient of a parameter");
      sizes_.push_back(found->gradient.sizes().vec());
    }
  uses_.clear();
  for (Contribution& each : contributions) {
    uses_.push_back({each.parameter, each.layer});
    each.gradient = each.gradient.reshape({-1});
  }
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Tensors& slices = values_[r][0];
    slices.clear();
    for (const Contribution& each : contributions)
      slices.push_back(slice(each.gradient, r));
    if (r != own_) ranks_[r].sender->prepare(values_[r]);
  }
  contributions.clear();
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  Running& running = running_.of(microbatch, num_microbatches_);
  begin(running);
  to_add_up_.push_back(&running);
  WorkerContributions& own = running.parts[own_];
  own.worker = ranks_[own_].worker;
  for (std::size_t i = 0; i < uses_.size(); ++i)
    if (values_[own_][0][i].defined())
      own.contributions.push_back(
          {uses_[i].parameter, uses_[i].layer, values_[own_][0][i]});
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r != own_) ranks_[r].sender->send(microbatch.value, uses_);
    values_[r][0].clear();
  }
  engine_.make_progress();
}

// With the engine's mutex.
bool SlicedReduction::has_arrived(const Running& running, bool is_sum) {
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == own_) continue;
    MessageReceiver& receiver = is_sum ? *ranks_[r].sum : *ranks_[r].slices;
    if (!receiver.has_arrived(running.microbatch.value,
                              is_sum ? *running.sum[r] : *running.slices[r]))
      return false;
  }
  return true;
}

void SlicedReduction::add_up_arrived() {
  for (std::size_t i = 0; i < to_add_up_.size();) {
    Running& running = *to_add_up_[i];
    {
      const std::lock_guard lock(engine_.mutex());
      if (engine_.is_cancelled()) return;
      if (!has_arrived(running, false)) {
        ++i;
        continue;
      }
    }
    to_add_up_.erase(to_add_up_.begin() + static_cast<std::ptrdiff_t>(i));
    add_up(running);
  }
}

void SlicedReduction::add_up(Running& running) {
  const std::int32_t key = running.microbatch.value;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    if (r == own_) continue;
    ranks_[r].slices->open(key, *running.slices[r]);
    const ParameterUses& uses = ranks_[r].slices->uses();
    WorkerContributions& part = running.parts[r];
    part.worker = ranks_[r].worker;
    for (std::size_t i = 0; i < uses.size(); ++i)
      if (at::Tensor each = running.slices[r]->take(0, i); each.defined())
        part.contributions.push_back(
            {uses[i].parameter, uses[i].layer, std::move(each)});
  }
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    const ParameterId parameter = reduction_.parameters[i];
    const auto& own = running.parts[own_].contributions;
    const bool has_slice = std::any_of(
        own.begin(), own.end(),
        [&](const Contribution& each) { return each.parameter == parameter; });
    running.own_sum.push_back(
        has_slice ? reduction_sum(reduction_, i, running.parts) : at::Tensor());
  }
  for (WorkerContributions& part : running.parts) part.contributions.clear();
  Values told = {running.own_sum};
  teller_->prepare(told);
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  for (const Rank& rank : ranks_)
    if (rank.slices) rank.slices->end(key);
  teller_->send(key, kNoUses);
  running.is_added = true;
  engine_.make_progress();
}

// The slices of all ranks, one after the other.
void SlicedReduction::join(Running& running) {
  const std::int32_t key = running.microbatch.value;
  for (std::size_t r = 0; r < ranks_.size(); ++r)
    if (r != own_) ranks_[r].sum->open(key, *running.sum[r]);
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    Tensors slices;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      at::Tensor each =
          r == own_ ? running.own_sum[i] : running.sum[r]->take(0, i);
      if (each.defined()) slices.push_back(std::move(each));
    }
    running.sums.push_back(at::cat(slices).view(sizes_[i]));
  }
}

void SlicedReduction::reduced(MicrobatchId microbatch, Tensors& sums) {
  Running* from = nullptr;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    from = &running_.of(microbatch, num_microbatches_);
    begin(*from);
  }
  engine_.wait_until(
      [&] { return from->is_added && has_arrived(*from, true); });
  if (from->sums.empty()) join(*from);
  sums = from->sums;
  const std::lock_guard lock(engine_.mutex());
  if (++from->num_read < num_readers_) return;
  for (const Rank& rank : ranks_)
    if (rank.sum) rank.sum->end(microbatch.value);
  from->end();
}

}  // namespace pipewright
