// Reductions over MPI; see mpi_channel.h.
//
// In the fixed order each worker hands its gradients to all that read the sums,
// and each of those adds up in the order of reduction.h. MPI's own all-reduce
// moves less but adds in an order of its own. Both go over the communicator of
// those who take part.

#include <algorithm>

#include "pipewright/runtime/channels/mpi_channel.h"
#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

MPI_Datatype mpi_type(at::ScalarType type) {
  return type == at::kDouble ? MPI_DOUBLE : MPI_FLOAT;
}

// Which uses of which parameters a message of gradients is about.
std::string packed_uses(const std::vector<Contribution>& contributions,
                        const MessageLayout& layout) {
  Packer packer;
  packer.text(packed(layout));
  for (const Contribution& contribution : contributions) {
    packer.number(contribution.parameter);
    packer.number(contribution.layer);
  }
  return packer.take();
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
        const auto index = static_cast<std::size_t>(action.index);
        if (action.kind == ActionKind::Reduce) {
          all[index].givers.insert(owner);
          for (const std::int32_t r :
               sums_read(program.reductions[index], WorkerId(w), program)) {
            all[static_cast<std::size_t>(r)].readers.insert(owner);
            if (owner == rank)
              stages[static_cast<std::size_t>(r)].insert(StageId());
          }
        }
        if (action.kind != ActionKind::Step) continue;
        for (const std::int32_t r : program.read_sets[index].reductions) {
          all[static_cast<std::size_t>(r)].readers.insert(owner);
          if (owner == rank)
            stages[static_cast<std::size_t>(r)].insert(action.stage);
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
    constexpr std::int32_t kEndOfSection = -1;
    std::vector<std::int32_t> order;
    const WorkerProgram& code = program.workers[static_cast<std::size_t>(rank)];
    for (const auto* section : {&code.prologue, &code.body, &code.epilogue}) {
      for (const Action& action : *section)
        if (action.kind == ActionKind::Reduce &&
            reductions[static_cast<std::size_t>(action.index)].all() == ranks)
          order.push_back(action.index);
      order.push_back(kEndOfSection);
    }
    return order;
  };
  return std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
    return order_of(rank) == order_of(ranks[0]);
  });
}

MpiChannel::Line MpiChannel::line_of_sums(int rank, std::int32_t reduction,
                                          std::int32_t microbatch) const {
  return {ranks_[static_cast<std::size_t>(reduction)].group, rank,
          tag(reduction, microbatch)};
}

// Expects what the other workers give, once.
void MpiChannel::begin(Running& running, std::int32_t reduction,
                       std::int32_t microbatch) {
  const ReductionRanks& ranks = ranks_[static_cast<std::size_t>(reduction)];
  if (std::exchange(running.is_begun, true) || ranks.readers_here == 0) return;
  for (const int giver : ranks.givers) {
    if (giver == worker_.value) continue;
    Part& part = running.parts[giver];
    part.gradients = std::make_shared<Receive>();
    part.gradients->outstanding = 1;
    const Line from = line_of_sums(giver, reduction, microbatch);
    engine_.expect_text(from, [this, from, &part](const std::string& text) {
      Unpacker unpacker(text);
      const MessageLayout layout = unpacked_layout(unpacker.text());
      while (!unpacker.is_done()) {
        const auto parameter = unpacker.number<ParameterId>();
        part.contributions.push_back(
            {parameter, unpacker.number<LayerId>(), {}});
      }
      --part.gradients->outstanding;
      engine_.receive(from, layout, Priority::High, part.gradients);
    });
  }
}

void MpiChannel::contribute(std::int32_t reduction, std::int32_t microbatch,
                            std::vector<Contribution>&& given) {
  std::vector<Contribution> contributions = std::move(given);
  const ReductionRanks& ranks = ranks_[static_cast<std::size_t>(reduction)];
  Values gradients(1);
  for (const Contribution& contribution : contributions)
    gradients[0].push_back(contribution.gradient);
  const auto sent = as_sent(gradients, engine_.sends_directly());
  const std::lock_guard lock(engine_.mutex());
  if (engine_.is_cancelled()) throw Cancelled();
  Running& running = running_[Key(reduction, microbatch)];
  if (ranks.is_fast)
    return contribute_flat(running, reduction, std::move(contributions));
  begin(running, reduction, microbatch);
  for (const int reader : ranks.readers) {
    if (reader == worker_.value) continue;
    const Line to = line_of_sums(reader, reduction, microbatch);
    engine_.send_text(to,
                      packed_uses(contributions, layout_of(gradients, sent)));
    engine_.send(to, sent, Priority::High);
  }
  if (ranks.readers_here == 0)
    running_.erase(Key(reduction, microbatch));
  else
    running.mine.push_back({worker_, std::move(contributions)});
  engine_.move_on();
}

// All parameters behind one another, added up in place.
void MpiChannel::contribute_flat(Running& running, std::int32_t reduction,
                                 std::vector<Contribution> contributions) {
  const Reduction& description =
      program_.reductions[static_cast<std::size_t>(reduction)];
  const WorkerContributions mine{worker_, std::move(contributions)};
  const Tensors own = reduction_sums(description, {mine});
  Tensors flat;
  for (const at::Tensor& tensor : own) flat.push_back(tensor.reshape({-1}));
  running.flat = at::cat(flat);
  running.device = running.flat.device();
  running.flat = running.flat.to(at::kCPU);
  std::int64_t at = 0;
  for (const at::Tensor& tensor : own) {
    running.sums.push_back(
        running.flat.narrow(0, at, tensor.numel()).view(tensor.sizes()));
    at += tensor.numel();
  }
  const MpiGroup& group = *ranks_[static_cast<std::size_t>(reduction)].group;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallreduce(MPI_IN_PLACE, running.flat.mutable_data_ptr(),
                           static_cast<int>(running.flat.numel()),
                           mpi_type(running.flat.scalar_type()), MPI_SUM,
                           group.comm, &request),
            "MPI_Iallreduce");
  engine_.add_request(request, [&running, kept = running.flat] {
    running.is_flat_done = true;
  });
}

bool MpiChannel::is_complete(const Running& running,
                             const ReductionRanks& ranks) const {
  if (ranks.is_fast) return running.is_flat_done;
  if (running.mine.size() != ranks.givers.count(worker_.value)) return false;
  return std::all_of(
      running.parts.begin(), running.parts.end(),
      [](const auto& part) { return part.second.gradients->outstanding == 0; });
}

void MpiChannel::add_up(Running& running, const Reduction& reduction) const {
  std::vector<WorkerContributions> all = std::move(running.mine);
  for (auto& [rank, part] : running.parts) {
    auto gradients = std::move(part.gradients->taken().at(0));
    for (std::size_t i = 0; i < part.contributions.size(); ++i)
      part.contributions[i].gradient = std::move(gradients[i]);
    all.push_back({WorkerId(rank), std::move(part.contributions)});
  }
  running.parts.clear();
  running.sums = reduction_sums(reduction, all);
}

void MpiChannel::reduced(std::int32_t reduction, std::int32_t microbatch,
                         Tensors& sums) {
  const auto index = static_cast<std::size_t>(reduction);
  const ReductionRanks& ranks = ranks_[index];
  Running* running = nullptr;
  {
    const std::lock_guard lock(engine_.mutex());
    if (engine_.is_cancelled()) throw Cancelled();
    running = &running_[Key(reduction, microbatch)];
    if (!ranks.is_fast) begin(*running, reduction, microbatch);
  }
  // A map's elements stay where they are.
  engine_.wait_until(
      [&] { return running->read > 0 || is_complete(*running, ranks); });
  if (running->sums.empty()) add_up(*running, program_.reductions[index]);
  sums = running->sums;
  if (running->flat.defined())
    for (at::Tensor& sum : sums) sum = sum.to(running->device);
  const std::lock_guard lock(engine_.mutex());
  if (++running->read == ranks.readers_here)
    running_.erase(Key(reduction, microbatch));
}

}  // namespace pipewright
