// Reductions over MPI; see mpi_channel.h.
//
// In the fixed order each worker hands its gradients to all that read the sums,
// and each of those adds up in the order of reduction.h. MPI's own all-reduce
// moves less but adds in an order of its own. Both go over the communicator of
// those who take part.

#include <algorithm>

#include "pipewright/plan/program/execution.h"
#include "pipewright/runtime/channels/mpi_channel.h"

namespace pipewright {
namespace {

MPI_Datatype mpi_type(at::ScalarType type) {
  return type == at::kDouble ? MPI_DOUBLE : MPI_FLOAT;
}

// As a message: into lists that are there.
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
  std::vector<ReductionRanks> all(program.reductions.size());
  std::vector<std::set<StageId>> stages(all.size());
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    const auto owner = static_cast<int>(w);
    const WorkerProgram& code = program.workers[w];
    for (const auto* section : {&code.prologue, &code.body, &code.epilogue})
      for (const Action& action : *section) {
        if (action.kind == ActionKind::Reduce) {
          all[action.reduction.index()].givers.insert(owner);
          for (const ReductionId r : sums_read(
                   program.reduction(action.reduction), WorkerId(w), program)) {
            all[r.index()].readers.insert(owner);
            if (owner == rank) stages[r.index()].insert(StageId());
          }
        }
        if (action.kind != ActionKind::Step) continue;
        for (const ReductionId r : program.reads(action).reductions) {
          all[r.index()].readers.insert(owner);
          if (owner == rank) stages[r.index()].insert(action.stage);
        }
      }
  }
  for (std::size_t r = 0; r < all.size(); ++r)
    all[r].readers_here = static_cast<int>(stages[r].size());
  return all;
}

std::vector<int> ReductionRanks::all() const {
  std::set<int> both = givers;
  both.insert(readers.begin(), readers.end());
  return {both.begin(), both.end()};
}

bool have_one_order(const Program& program,
                    const std::vector<ReductionRanks>& reductions,
                    const std::vector<int>& ranks) {
  const auto order_of = [&](int rank) {
    const ReductionId kEndOfSection;
    std::vector<ReductionId> order;
    const WorkerProgram& code = program.workers[static_cast<std::size_t>(rank)];
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

void MpiChannel::Running::end() {
  microbatch = kNoMicrobatch;
  is_begun = is_given = false;
  arriving.clear();
  sums.clear();
  flat.reset();
  read = 0;
}

MpiChannel::Sums MpiChannel::sums_of(ReductionId reduction) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  Sums sums;
  if (ranks.is_fast || !ranks.group) return sums;
  std::vector<StreamAddress> others;
  for (const int reader : ranks.readers)
    if (reader != worker_.value)
      others.push_back(address(*ranks.group, reader, reduction.value));
  if (!others.empty() && ranks.givers.count(worker_.value) > 0)
    sums.out = std::make_unique<OutgoingStream>(
        engine_, std::move(others), Priority::High,
        "reduction " + std::to_string(reduction.value));
  if (ranks.readers_here == 0) return sums;
  for (const int giver : ranks.givers)
    if (giver != worker_.value)
      sums.in.emplace_back(
          giver, std::make_unique<IncomingStream>(
                     engine_, address(*ranks.group, giver, reduction.value),
                     Priority::High));
  return sums;
}

MpiChannel::Running& MpiChannel::running(ReductionId reduction,
                                         std::int32_t microbatch) {
  return sums_[reduction.index()].running.of(microbatch,
                                             program_.num_microbatches);
}

// Expects what the other workers give, once.
void MpiChannel::begin(Running& running, ReductionId reduction) {
  if (std::exchange(running.is_begun, true)) return;
  const auto& others = sums_[reduction.index()].in;
  running.parts.resize(1 + others.size());
  for (const auto& [giver, stream] : others)
    running.arriving.push_back(&stream->posted(running.microbatch));
}

void MpiChannel::contribute(ReductionId reduction, std::int32_t microbatch,
                            std::vector<Contribution>&& contributions) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  Sums& sums = sums_[reduction.index()];
  if (sums.out) {
    arrange(contributions, sums.gradients, sums.uses);
    sums.out->prepare(sums.gradients);
  }
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  if (ranks.readers_here > 0) {
    Running& mine = running(reduction, microbatch);
    begin(mine, reduction);
    add_own(mine, contributions);
    if (ranks.is_fast) contribute_flat(mine, reduction);
  }
  if (sums.out) {
    sums.out->send(sums.gradients, microbatch, sums.uses);
    sums.gradients[0].clear();
  }
  engine_.move_on();
}

void MpiChannel::add_own(Running& running,
                         std::vector<Contribution>& contributions) {
  running.is_given = true;
  running.parts[0].worker = worker_;
  running.parts[0].contributions.assign(
      std::make_move_iterator(contributions.begin()),
      std::make_move_iterator(contributions.end()));
}

// All parameters behind one another, added up in place.
void MpiChannel::contribute_flat(Running& running, ReductionId reduction) {
  const auto index = reduction.index();
  Tensors& flattened = sums_[index].flattened;
  add_up(running, reduction);
  flattened.clear();
  for (const at::Tensor& tensor : running.sums)
    flattened.push_back(tensor.reshape({-1}));
  running.flat = at::cat(flattened);
  flattened.clear();
  running.device = running.flat.device();
  running.flat = running.flat.to(at::kCPU);
  std::int64_t at = 0;
  for (at::Tensor& tensor : running.sums) {
    const std::int64_t size = tensor.numel();
    tensor = running.flat.narrow(0, at, size).view(tensor.sizes());
    at += size;
  }
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, running.flat.mutable_data_ptr(),
                           static_cast<int>(running.flat.numel()),
                           mpi_type(running.flat.scalar_type()), MPI_SUM,
                           ranks_[index].group->comm, &request),
            "MPI_Iallreduce");
  if (!running.flat_sum) running.flat_sum = std::make_shared<Receive>();
  engine_.add_request(request, running.flat, running.flat_sum);
}

bool MpiChannel::is_complete(const Running& running,
                             const ReductionRanks& ranks) const {
  if (!running.is_given && ranks.givers.count(worker_.value) > 0) return false;
  if (ranks.is_fast) return running.flat_sum->outstanding == 0;
  return std::all_of(
      running.arriving.begin(), running.arriving.end(),
      [](const Receive* receive) { return receive->outstanding == 0; });
}

void MpiChannel::add_up(Running& running, ReductionId reduction) {
  const auto index = reduction.index();
  const auto& others = sums_[index].in;
  for (std::size_t o = 0; o < others.size(); ++o) {
    WorkerContributions& part = running.parts[1 + o];
    part.worker = WorkerId(others[o].first);
    const ParameterUses& uses = others[o].second->uses();
    for (std::size_t i = 0; i < uses.size(); ++i)
      part.contributions.push_back(
          {uses[i].parameter, uses[i].layer, running.arriving[o]->taken(0, i)});
  }
  const Reduction& description = program_.reductions[index];
  for (std::size_t i = 0; i < num_sums(description); ++i)
    running.sums.push_back(reduction_sum(description, i, running.parts));
  for (WorkerContributions& part : running.parts) part.contributions.clear();
}

void MpiChannel::end(Running& running, ReductionId reduction) {
  for (const auto& [giver, stream] : sums_[reduction.index()].in)
    stream->end(running.microbatch);
  running.end();
}

void MpiChannel::reduced(ReductionId reduction, std::int32_t microbatch,
                         Tensors& sums) {
  const ReductionRanks& ranks = ranks_[reduction.index()];
  Running* from = nullptr;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    from = &running(reduction, microbatch);
    begin(*from, reduction);
  }
  engine_.wait_until([&] { return is_complete(*from, ranks); });
  if (from->sums.empty()) add_up(*from, reduction);
  sums = from->sums;
  if (from->flat.defined())
    for (at::Tensor& sum : sums) sum = sum.to(from->device);
  const std::lock_guard lock(engine_.mutex());
  if (++from->read == ranks.readers_here) end(*from, reduction);
}

}  // namespace pipewright
