#include "tests/runtime/channels/channel_contract.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "pipewright/runtime/channels/reduction.h"

namespace pipewright::testing {
namespace {

// See onwards() and back_to().
Program ring(int workers) {
  Program program;
  program.num_stages = workers;
  program.workers.resize(workers);
  for (int w = 0; w < workers; ++w)
    for (const bool back : {false, true})
      for (int kind = 0; kind < 4; ++kind) {
        Transfer transfer;
        transfer.from = WorkerId(back ? (w + 1) % workers : w);
        transfer.to = WorkerId(back ? w : (w + 1) % workers);
        transfer.kind = static_cast<TransferKind>(kind);
        program.transfers.push_back(transfer);
      }
  return program;
}

void any_order_of_keys(WorkerId self, Channel& channel) {
  constexpr int kKeys = 50;
  if (self == WorkerId(0))
    for (int key = 0; key < kKeys; ++key) {
      channel.send(onwards(0), key,
                   {{at::full({3}, key), at::full({2}, -key)},
                    {at::full({1}, 2 * key)}});
      channel.send(onwards(0, 3), key, {{at::full({5000}, key)}});
    }
  if (self != WorkerId(1)) return;
  for (int key = kKeys - 1; key >= 0; --key) {
    channel.post(onwards(0), key);
    const Values values = channel.take(onwards(0), key);
    REQUIRE(values.size() == 2);
    CHECK(values[0][0].equal(at::full({3}, key)));
    CHECK(values[0][1].equal(at::full({2}, -key)));
    CHECK(values[1][0].equal(at::full({1}, 2 * key)));
    CHECK(channel.take(onwards(0, 3), key)[0][0].equal(at::full({5000}, key)));
  }
}

// Every kind, in both directions round the ring, from bytes to a megabyte.
void order_per_pair_and_kind(WorkerId self, Channel& channel, int workers) {
  const auto message = [](int from, int kind, int key) {
    const std::int64_t sizes[] = {1, 100, 5000, 300000};
    return at::full({sizes[key % 4]}, 1000 * from + 100 * kind + key);
  };
  const int me = self.value, next = (me + 1) % workers,
            previous = (me + workers - 1) % workers;
  // The size of a transfer's messages is its own.
  for (int key = 0; key < 20; ++key)
    for (int kind = 0; kind < 4; ++kind) {
      channel.send(onwards(me, kind), key, {{message(me, kind, 4 + kind)}});
      channel.send(back_to(previous, kind), key,
                   {{message(me, kind, 8 + kind)}});
    }
  for (int key = 0; key < 20; ++key)
    for (int kind = 3; kind >= 0; --kind) {
      channel.post(onwards(previous, kind), key);
      channel.post(back_to(me, kind), key);
      const Values one = channel.take(onwards(previous, kind), key);
      CHECK(one.at(0).at(0).equal(message(previous, kind, 4 + kind)));
      const Values two = channel.take(back_to(me, kind), key);
      CHECK(two.at(0).at(0).equal(message(next, kind, 8 + kind)));
    }
}

void every_number_type(WorkerId self, Channel& channel) {
  const at::ScalarType types[] = {
      at::kBool,  at::kByte,   at::kChar,         at::kShort,
      at::kInt,   at::kLong,   at::kHalf,         at::kBFloat16,
      at::kFloat, at::kDouble, at::kComplexFloat, at::kComplexDouble};
  const auto message = [&](int key) {
    Values values(1);
    for (const at::ScalarType type : types)
      values[0].push_back(at::arange(7, at::kFloat).add(key).to(type));
    return values;
  };
  for (int key = 0; key < 3; ++key) {
    if (self == WorkerId(0)) channel.send(onwards(0), key, message(key));
    if (self != WorkerId(1)) continue;
    const Values got = channel.take(onwards(0), key), wanted = message(key);
    REQUIRE(got.at(0).size() == wanted[0].size());
    for (std::size_t i = 0; i < wanted[0].size(); ++i) {
      CHECK((got[0][i].scalar_type() == wanted[0][i].scalar_type()));
      CHECK(got[0][i].equal(wanted[0][i]));
    }
  }
}

void empty_ones(WorkerId self, Channel& channel) {
  if (self == WorkerId(0)) {
    channel.send(onwards(0), 0,
                 {{at::empty({0}), at::empty({3, 0}), at::Tensor(),
                   at::scalar_tensor(2.5)},
                  {}});
    channel.send(onwards(0, 0), 0, {});
  }
  if (self != WorkerId(1)) return;
  const Values values = channel.take(onwards(0), 0);
  REQUIRE(values.size() == 2);
  REQUIRE(values[0].size() == 4);
  CHECK((values[0][0].sizes() == at::IntArrayRef{0}));
  CHECK((values[0][1].sizes() == at::IntArrayRef{3, 0}));
  CHECK(!values[0][2].defined());
  CHECK(values[0][3].dim() == 0);
  CHECK(values[0][3].item<double>() == 2.5);
  CHECK(values[1].empty());
  CHECK(channel.take(onwards(0, 0), 0).empty());
}

void not_contiguous(WorkerId self, Channel& channel) {
  const auto message = [] {
    const at::Tensor grid = at::arange(2 * 3 * 4 * 5).reshape({2, 3, 4, 5});
    return Values{{grid.transpose(1, 3), grid.narrow(2, 1, 2),
                   grid.permute({0, 2, 3, 1}), grid.select(3, 2),
                   at::ones({1, 4}).expand({3, 4}),
                   grid.contiguous(at::MemoryFormat::ChannelsLast)}};
  };
  if (self == WorkerId(0)) channel.send(onwards(0), 0, message());
  if (self != WorkerId(1)) return;
  const Values got = channel.take(onwards(0), 0), wanted = message();
  for (std::size_t i = 0; i < wanted[0].size(); ++i) {
    CHECK(got[0][i].equal(wanted[0][i]));
    // If memory has no gaps kernels must see the same strides.
    if (wanted[0][i].is_non_overlapping_and_dense())
      CHECK((got[0][i].strides() == wanted[0][i].strides()));
  }
}

template <class Call>
bool is_cancelled(Call call) {
  try {
    call();
  } catch (const Cancelled&) {
    return true;
  }
  return false;
}

// The last worker fails; the others wait for a message or for sums.
void cancelled(WorkerId self, Channel& channel, int workers) {
  if (self.value == workers - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    channel.cancel();
  } else if (self.value == 0) {
    CHECK(is_cancelled([&] { channel.take(back_to(0), 0); }));
  } else {
    CHECK(is_cancelled(
        [&] { channel.reduced(ReductionId(0), MicrobatchId(0)); }));
  }
  CHECK(is_cancelled([&] { channel.take(back_to(self.value), 3); }));
  CHECK(is_cancelled(
      [&] { channel.send(onwards(self.value), 3, {{at::ones({2})}}); }));
  CHECK(
      is_cancelled([&] { channel.reduced(ReductionId(0), MicrobatchId(8)); }));
}

// Powers that absorb each other in float32: the order shows. A worker with an
// even number has two uses of the second parameter.
std::vector<Contribution> contributions_of(int worker, int minibatch) {
  const float sizes[] = {1e8F, 1, -1e8F, 3};
  const auto part = [&](int parameter, int layer) {
    const float x = sizes[(worker + layer) % 4] + static_cast<float>(minibatch);
    return Contribution{ParameterId(parameter), LayerId(layer),
                        at::full({2, 3}, x, at::kFloat)};
  };
  std::vector<Contribution> all = {part(0, 1), part(4, 7)};
  if (worker % 2 == 0) all.push_back(part(4, 2));
  return all;
}

void reductions(WorkerId self, Channel& channel, const Program& program,
                const std::vector<int>& contributors,
                const std::vector<int>& readers) {
  const auto is_in = [&](const std::vector<int>& workers) {
    return std::find(workers.begin(), workers.end(), self.value) !=
           workers.end();
  };
  const auto check = [&](int minibatch) {
    std::vector<WorkerContributions> all;
    for (const int w : contributors)
      all.push_back({WorkerId(w), contributions_of(w, minibatch)});
    const auto wanted = reduction_sums(program.reductions[0], all);
    const auto got = channel.reduced(ReductionId(0), MicrobatchId(minibatch));
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i].equal(wanted[i]));
  };
  // Each minibatch contributes before the sums of the last one are read.
  for (const int minibatch : {0, 4, 8, 12}) {
    if (is_in(contributors))
      channel.contribute(ReductionId(0), MicrobatchId(minibatch),
                         contributions_of(self.value, minibatch));
    if (minibatch > 0 && is_in(readers)) check(minibatch - 4);
  }
  if (is_in(readers)) check(12);
}

// contribute() waits neither for slower workers nor for sums.
void contributing_does_not_wait(WorkerId self, Channel& channel, int workers) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kLate = std::chrono::milliseconds(400);
  if (self.value == workers - 1) std::this_thread::sleep_for(kLate);
  const auto start = Clock::now();
  channel.contribute(ReductionId(0), MicrobatchId(0),
                     contributions_of(self.value, 0));
  CHECK(Clock::now() - start < kLate / 2);
  CHECK(channel.reduced(ReductionId(0), MicrobatchId(0)).size() == 2);
}

// The last worker has contributed, and reads the sums only after worker 0,
// which has them by then.
void sums_do_not_wait(WorkerId self, Channel& channel, int workers) {
  const WorkerId last(workers - 1);
  for (const int minibatch : {0, 4}) {
    const MicrobatchId first(minibatch);
    channel.contribute(ReductionId(0), first,
                       contributions_of(self.value, minibatch));
    if (self == last) channel.take(back_to(last.value), minibatch);
    CHECK(channel.reduced(ReductionId(0), first).size() == 2);
    if (self == WorkerId(0))
      channel.send(back_to(last.value), minibatch, {{at::ones({2})}});
  }
}

}  // namespace

Program reducing(int workers, const std::vector<int>& contributors,
                 const std::vector<int>& readers) {
  Program program = ring(workers);
  Reduction reduction;
  for (int w = 0; w < workers; ++w) reduction.workers.push_back(WorkerId(w));
  reduction.parameters = {ParameterId(0), ParameterId(4)};
  program.reductions.push_back(reduction);
  program.read_sets.emplace_back().reductions = {ReductionId(0)};
  Action action;
  action.read_set = ReadSetId(0);
  action.reduction = ReductionId(0);
  for (const int w : contributors) {
    action.kind = ActionKind::Reduce;
    action.stage = StageId(w);
    program.workers[w].body.push_back(action);
  }
  for (const int w : readers) {
    action.kind = ActionKind::Step;
    action.stage = StageId(w);
    program.workers[w].body.push_back(action);
  }
  return program;
}

std::vector<int> everyone(int workers) {
  std::vector<int> all;
  for (int w = 0; w < workers; ++w) all.push_back(w);
  return all;
}

std::vector<ContractCase> channel_contract(int workers) {
  const auto all = everyone(workers);
  std::vector<ContractCase> cases;
  const auto add = [&](const std::string& name, auto worker) {
    cases.push_back({name, ring(workers), worker});
  };
  add("messages are taken in any order of keys", any_order_of_keys);
  add("order per pair and kind", [workers](WorkerId self, Channel& channel) {
    order_per_pair_and_kind(self, channel, workers);
  });
  add("every number type", every_number_type);
  add("empty and missing tensors", empty_ones);
  add("tensors with strides of their own", not_contiguous);
  for (auto& [name, worker] : flow_contract(workers)) add(name, worker);
  const auto add_reduction = [&](const std::string& name,
                                 const std::vector<int>& contributors,
                                 const std::vector<int>& readers) {
    const Program program = reducing(workers, contributors, readers);
    cases.push_back({name, program, [=](WorkerId self, Channel& channel) {
                       reductions(self, channel, program, contributors,
                                  readers);
                     }});
  };
  add_reduction("sums are the same for all, in the fixed order", all, all);
  add_reduction("one contributes and does not read", all, {0});
  add_reduction("one reads and does not contribute", {workers - 1}, all);
  cases.push_back({"contributing does not wait for sums",
                   reducing(workers, all, all),
                   [workers](WorkerId self, Channel& channel) {
                     contributing_does_not_wait(self, channel, workers);
                   }});
  cases.push_back({"sums do not wait for those who wait for others",
                   reducing(workers, all, all),
                   [workers](WorkerId self, Channel& channel) {
                     sums_do_not_wait(self, channel, workers);
                   }});
  cases.push_back({"a cancelled channel does not block",
                   reducing(workers, all, all),
                   [workers](WorkerId self, Channel& channel) {
                     cancelled(self, channel, workers);
                   },
                   true});
  return cases;
}

}  // namespace pipewright::testing
