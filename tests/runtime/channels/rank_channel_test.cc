// The contract of a channel between as many ranks as are started, with and
// without a thread for progress.

#include <doctest/doctest.h>

#include <set>

#include "pipewright/runtime/channels/reduction.h"
#include "tests/runtime/channels/channel_contract.h"
#include "tests/runtime/channels/ranks.h"

namespace pipewright {
namespace {

using namespace testing;

void keep_contract(const TransportOptions& options) {
  const int workers = session().size();
  REQUIRE(workers >= 2);
  auto transport = session().connect(options);
  for (const ContractCase& each : channel_contract(workers)) {
    CAPTURE(each.name);
    CAPTURE(session().rank());
    auto channels = transport->connect(each.program);
    REQUIRE(channels.size() == 1);
    each.worker(WorkerId(session().rank()), *channels[0]);
    channels.clear();  // before the transport that they are of
    if (each.cancels) transport = session().connect(options);
  }
}

TEST_CASE("channels between ranks keep the contract") {
  keep_contract({.fast_reduce = false, .progress_thread = false});
}

TEST_CASE("channels between ranks with a thread keep the contract") {
  keep_contract({.fast_reduce = false, .progress_thread = true});
}

// In whatever order MPI adds, sums of whole numbers are exact, and all others
// are equal on every rank. Contributing does not wait.
void check_own_sums(at::ScalarType type) {
  const int workers = session().size(), me = session().rank();
  const auto transport = session().connect({.fast_reduce = true});
  const Program program =
      reducing(workers, everyone(workers), everyone(workers));
  const auto channels = transport->connect(program);
  const auto contributions = [&](double x) {
    return std::vector<Contribution>{
        {ParameterId(0), LayerId(1), at::full({2, 3}, x, type)},
        {ParameterId(4), LayerId(2), at::full({1000}, 2 * x, type)}};
  };
  channels[0]->contribute(ReductionId(0), MicrobatchId(0),
                          contributions(1 + me));
  channels[0]->contribute(ReductionId(0), MicrobatchId(4),
                          contributions(1e-3 / (3 + me)));
  const double sum = workers * (workers + 1) / 2;
  const auto whole = channels[0]->reduced(ReductionId(0), MicrobatchId(0));
  CHECK((whole.at(0).scalar_type() == type));
  CHECK(whole.at(0).equal(at::full({2, 3}, sum, type)));
  CHECK(whole.at(1).equal(at::full({1000}, 2 * sum, type)));
  const at::Tensor broken =
      channels[0]->reduced(ReductionId(0), MicrobatchId(4)).at(1);
  const auto all = transport->gather(std::string(
      static_cast<const char*>(broken.const_data_ptr()), broken.nbytes()));
  for (const std::string& bytes : all) CHECK((bytes == all[0]));
}

TEST_CASE("MPI's own sums") {
  for (const at::ScalarType type : {at::kFloat, at::kDouble, at::kBFloat16})
    check_own_sums(type);
}

// Reduction i is among members[i]; workers contribute to their reductions in
// ascending order, those in `descending` in descending order.
Program summing(int workers, const std::vector<std::set<int>>& members,
                const std::set<int>& descending) {
  Program program = reducing(workers, {}, {});
  program.reductions.clear();
  program.read_sets.clear();
  const auto add = [&](ActionKind kind, int worker, std::size_t reduction) {
    Action action;
    action.kind = kind;
    if (kind == ActionKind::Reduce)
      action.reduction = ReductionId(reduction);
    else
      action.read_set = ReadSetId(reduction);
    action.stage = StageId(worker);
    auto& body = program.workers[worker].body;
    const bool in_front =
        kind == ActionKind::Reduce && descending.count(worker) > 0;
    body.insert(in_front ? body.begin() : body.end(), action);
  };
  for (std::size_t r = 0; r < members.size(); ++r) {
    Reduction& reduction = program.reductions.emplace_back();
    reduction.parameters = {ParameterId(r)};
    program.read_sets.emplace_back().reductions = {ReductionId(r)};
    for (const int w : members[r]) {
      reduction.workers.push_back(WorkerId(w));
      add(ActionKind::Reduce, w, r);
    }
  }
  for (std::size_t r = 0; r < members.size(); ++r)
    for (const int w : members[r]) add(ActionKind::Step, w, r);
  return program;
}

// Runs the program. Powers that absorb each other show the order of addition;
// MPI, which has its own order, gets whole numbers.
void sum_in_groups(const std::vector<std::set<int>>& members,
                   const std::set<int>& descending, bool fast) {
  const auto transport = session().connect({.fast_reduce = fast});
  const WorkerId me(session().rank());
  const Program program = summing(session().size(), members, descending);
  const auto channels = transport->connect(program);
  const auto part = [&](WorkerId worker, std::int32_t r, int minibatch) {
    const float sizes[] = {1e8F, 1, -1e8F, 3};
    const float x =
        fast ? static_cast<float>(worker.value) : sizes[(worker.value + r) % 4];
    return std::vector<Contribution>{
        {ParameterId(r), LayerId(r),
         at::full({1000 + 70 * r}, x + static_cast<float>(minibatch))}};
  };
  for (const int minibatch : {0, 4, 8})
    for (const Action& action : program.workers[me.index()].body) {
      const ReductionId r = action.kind == ActionKind::Reduce
                                ? action.reduction
                                : program.reads(action).reductions.front();
      if (action.kind == ActionKind::Reduce) {
        channels[0]->contribute(r, MicrobatchId(minibatch),
                                part(me, r.value, minibatch));
        continue;
      }
      const Reduction& reduction = program.reduction(r);
      std::vector<WorkerContributions> all;
      for (const WorkerId w : reduction.workers)
        all.push_back({w, part(w, r.value, minibatch)});
      CHECK(channels[0]
                ->reduced(r, MicrobatchId(minibatch))
                .at(0)
                .equal(reduction_sums(reduction, all)[0]));
    }
}

TEST_CASE("sums of the same ranks in different orders") {
  const std::set<int> pair = {0, 1};
  for (const bool fast : {false, true}) {
    sum_in_groups({pair, pair, pair}, {}, fast);
    sum_in_groups({pair, pair, pair}, {1}, fast);
  }
}

TEST_CASE("groups of ranks that overlap") {
  const int workers = session().size();
  std::vector<std::set<int>> members(1);
  for (int w = 0; w < workers; ++w) {
    members[0].insert(w);
    members.push_back({w, (w + 1) % workers});
  }
  for (const bool fast : {false, true}) {
    sum_in_groups(members, {}, fast);
    sum_in_groups(members, {workers - 1}, fast);
  }
}

TEST_CASE("contributing does not wait for MPI's own sums") {
  const auto transport = session().connect({.fast_reduce = true});
  int found = 0;
  for (const ContractCase& each : channel_contract(session().size())) {
    if (each.name != "contributing does not wait for sums") continue;
    const auto channels = transport->connect(each.program);
    each.worker(WorkerId(session().rank()), *channels[0]);
    ++found;
  }
  CHECK(found == 1);
}

TEST_CASE("gather and broadcast between runs") {
  const auto transport = session().connect({});
  const int me = transport->rank();
  for (const std::size_t size : {0UL, 1UL, 100000UL}) {
    const auto all = transport->gather(std::string(size, char('a' + me)));
    const std::size_t num_gathered = me == 0 ? transport->num_ranks() : 0;
    CHECK(all.size() == num_gathered);
    for (std::size_t i = 0; i < all.size(); ++i)
      CHECK((all[i] == std::string(size, static_cast<char>('a' + i))));
    CHECK((transport->broadcast(me == 0 ? std::string(size, 'x') : "") ==
           std::string(size, 'x')));
  }
}

}  // namespace
}  // namespace pipewright
