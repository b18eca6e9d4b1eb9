// Fixed-order sums, and the network's own; see rank_reductions.h.

#include "pipewright/runtime/channels/rank_reductions.h"

#include <algorithm>
#include <string>

namespace pipewright {
namespace {

// MPI has no numbers of 16 bit.
at::ScalarType summed_type(at::ScalarType type) {
  return type == at::kDouble ? at::kDouble : at::kFloat;
}

std::string name_of(ReductionId reduction) {
  return "gradients of replicas (reduction " + std::to_string(reduction.value) +
         ")";
}

// As a message; reuses the lists.
void arrange(const std::vector<Contribution>& contributions, Values& gradients,
             ParameterUses& uses) {
  gradients.resize(1);
  gradients[0].clear();
  uses.clear();
  for (const Contribution& contribution : contributions) {
    gradients[0].push_back(contribution.gradient);
    uses.push_back({contribution.parameter, contribution.layer});
  }
}

}  // namespace

std::vector<ReductionRanks> reduction_ranks(const Program& program, int rank) {
  std::vector<ReductionRanks> all;
  for (const Participants& participants : participants_of(program)) {
    ReductionRanks& ranks = all.emplace_back();
    for (const WorkerId worker : participants.contributors)
      ranks.contributors.insert(worker.value);
    for (const auto& [worker, stage] : participants.readers) {
      ranks.readers.insert(worker.value);
      if (worker.value == rank) ++ranks.num_readers_here;
    }
  }
  return all;
}

std::vector<int> ReductionRanks::all() const {
  std::set<int> both = contributors;
  both.insert(readers.begin(), readers.end());
  return {both.begin(), both.end()};
}

bool have_one_order(const Program& program,
                    const std::vector<ReductionRanks>& reductions,
                    const std::vector<int>& ranks) {
  const auto order_of = [&](int rank) {
    const ReductionId kEndOfSection;
    std::vector<ReductionId> order;
    const WorkerProgram& code = program.workers[rank];
    for (const auto* section : {&code.prologue, &code.body, &code.epilogue}) {
      for (const Action& action : *section)
        if (action.kind == ActionKind::Reduce &&
            reductions[action.reduction.index()].all() == ranks)
          order.push_back(action.reduction);
      order.push_back(kEndOfSection);
    }
    return order;
  };
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return order_of(rank) == order_of(ranks[0]);
  });
}

void RankReductions::Running::end() {
  microbatch = MicrobatchId();
  is_begun = has_own_part = false;
  arriving.clear();
  sums.clear();
  flat.reset();
  num_read = 0;
}

RankReductions::RankReductions(MessageEngine& engine, LinkMessages& links,
                               const Program& program, WorkerId worker,
                               const std::vector<ReductionRanks>& ranks)
    : engine_(engine),
      links_(links),
      program_(program),
      worker_(worker),
      ranks_(ranks) {
  for (std::size_t r = 0; r < program.reductions.size(); ++r)
    states_.push_back(state_of(ReductionId(r)));
}

RankReductions::State RankReductions::state_of(ReductionId reduction) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  State state;
  const bool is_here = ranks.contributors.count(worker_.value) > 0;
  if (ranks.is_sliced && is_here) state.sliced = sliced(reduction);
  if (ranks.is_fast || ranks.is_sliced || !ranks.space) return state;
  std::vector<MessageAddress> others;
  for (const int reader : ranks.readers)
    if (reader != worker_.value)
      others.push_back(address(reduction, reader, false));
  if (!others.empty() && is_here)
    state.sender = std::make_unique<MessageSender>(
        engine_, links_, std::move(others), Priority::High, name_of(reduction));
  if (ranks.num_readers_here == 0) return state;
  for (const int contributor : ranks.contributors)
    if (contributor != worker_.value)
      state.receivers.emplace_back(
          contributor,
          std::make_unique<MessageReceiver>(
              engine_, links_, address(reduction, contributor, false),
              Priority::High, name_of(reduction)));
  return state;
}

// Sums have indices after those of all gradients.
MessageAddress RankReductions::address(ReductionId reduction, int rank,
                                       bool of_sums) const {
  const auto first =
      static_cast<std::int32_t>(of_sums ? program_.reductions.size() : 0);
  MessageAddress of_rank =
      message_address(engine_, program_, *ranks_[reduction.index()].space, rank,
                      first + reduction.value);
  of_rank.subject += static_cast<std::int32_t>(program_.transfers.size());
  return of_rank;
}

std::unique_ptr<SlicedReduction> RankReductions::sliced(
    ReductionId reduction) const {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  SlicedReduction::Addresses addresses;
  for (const int rank : ranks.all()) {
    addresses.to_add.push_back(address(reduction, rank, false));
    addresses.to_tell.push_back(address(reduction, rank, true));
  }
  return std::make_unique<SlicedReduction>(
      engine_, links_, program_.reduction(reduction), worker_, addresses,
      program_.num_microbatches, ranks.num_readers_here, name_of(reduction));
}

void RankReductions::add_up_arrived() {
  for (const State& state : states_)
    if (state.sliced) state.sliced->add_up_arrived();
}

RankReductions::Running& RankReductions::running(ReductionId reduction,
                                                 MicrobatchId microbatch) {
  return states_[reduction.index()].running.of(microbatch,
                                               program_.num_microbatches);
}

// Posts the receives of the other contributions, once.
void RankReductions::begin(Running& running, ReductionId reduction) {
  if (std::exchange(running.is_begun, true)) return;
  const auto& receivers = states_[reduction.index()].receivers;
  running.parts.resize(1 + receivers.size());
  for (const auto& [rank, receiver] : receivers)
    running.arriving.push_back(&receiver->post(running.microbatch.value));
}

void RankReductions::contribute(ReductionId reduction, MicrobatchId microbatch,
                                std::vector<Contribution>&& contributions) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  State& state = states_[reduction.index()];
  if (state.sliced)
    return state.sliced->contribute(microbatch, std::move(contributions));
  if (state.sender) {
    arrange(contributions, state.gradients, state.uses);
    state.sender->prepare(state.gradients);
  }
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  if (ranks.num_readers_here > 0) {
    Running& own = running(reduction, microbatch);
    begin(own, reduction);
    add_own_part(own, contributions);
    if (ranks.is_fast) start_all_reduce(own, reduction);
  }
  if (state.sender) {
    state.sender->send(microbatch.value, state.uses);
    state.gradients[0].clear();
  }
  engine_.make_progress();
}

void RankReductions::add_own_part(Running& running,
                                  std::vector<Contribution>& contributions) {
  running.has_own_part = true;
  running.parts[0].worker = worker_;
  running.parts[0].contributions.assign(
      std::make_move_iterator(contributions.begin()),
      std::make_move_iterator(contributions.end()));
}

// All parameters in one tensor, added up in place.
void RankReductions::start_all_reduce(Running& running, ReductionId reduction) {
  const auto index = reduction.index();
  Tensors& flattened = states_[index].flattened;
  add_up(running, reduction);
  flattened.clear();
  for (const at::Tensor& tensor : running.sums)
    flattened.push_back(tensor.reshape({-1}));
  running.flat = at::cat(flattened);
  flattened.clear();
  running.device = running.flat.device();
  running.type = running.flat.scalar_type();
  running.flat = running.flat.to(at::kCPU, summed_type(running.type));
  std::int64_t at = 0;
  for (at::Tensor& tensor : running.sums) {
    const std::int64_t size = tensor.numel();
    tensor = running.flat.narrow(0, at, size).view(tensor.sizes());
    at += size;
  }
  if (!running.flat_sum) running.flat_sum = std::make_shared<Receive>();
  engine_.all_reduce(*ranks_[index].space, running.flat, running.flat_sum);
}

bool RankReductions::is_complete(const Running& running,
                                 ReductionId reduction) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  if (!running.has_own_part && ranks.contributors.count(worker_.value) > 0)
    return false;
  if (ranks.is_fast) return running.flat_sum->outstanding == 0;
  const auto& receivers = states_[reduction.index()].receivers;
  for (std::size_t o = 0; o < receivers.size(); ++o)
    if (!receivers[o].second->has_arrived(running.microbatch.value,
                                          *running.arriving[o]))
      return false;
  return true;
}

void RankReductions::add_up(Running& running, ReductionId reduction) {
  const auto index = reduction.index();
  const auto& receivers = states_[index].receivers;
  for (std::size_t o = 0; o < receivers.size(); ++o) {
    WorkerContributions& part = running.parts[1 + o];
    part.worker = WorkerId(receivers[o].first);
    receivers[o].second->open(running.microbatch.value, *running.arriving[o]);
    const ParameterUses& uses = receivers[o].second->uses();
    for (std::size_t i = 0; i < uses.size(); ++i)
      part.contributions.push_back(
          {uses[i].parameter, uses[i].layer, running.arriving[o]->take(0, i)});
  }
  const Reduction& description = program_.reductions[index];
  for (std::size_t i = 0; i < num_sums(description); ++i)
    running.sums.push_back(reduction_sum(description, i, running.parts));
  for (WorkerContributions& part : running.parts) part.contributions.clear();
}

void RankReductions::end(Running& running, ReductionId reduction) {
  for (const auto& [rank, receiver] : states_[reduction.index()].receivers)
    receiver->end(running.microbatch.value);
  running.end();
}

void RankReductions::reduced(ReductionId reduction, MicrobatchId microbatch,
                             Tensors& sums) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  if (const State& state = states_[reduction.index()]; state.sliced)
    return state.sliced->reduced(microbatch, sums);
  Running* from = nullptr;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    from = &running(reduction, microbatch);
    begin(*from, reduction);
  }
  engine_.wait_until([&] { return is_complete(*from, reduction); });
  if (from->sums.empty()) add_up(*from, reduction);
  sums = from->sums;
  if (from->flat.defined())
    for (at::Tensor& sum : sums) sum = sum.to(from->device, from->type);
  const std::lock_guard lock(engine_.mutex());
  if (++from->num_read == ranks.num_readers_here) end(*from, reduction);
}

}  // namespace pipewright
