// Programs written by hand: a chain of stages, one per worker, with the compute
// order given as letters. For tests of the simulator, which must not depend on
// how plans are lowered.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/simulate/given_costs.h"

namespace pipewright::test {

using Order = std::vector<std::pair<char, int>>;  // ('F', microbatch)

struct Chain {
  int stages = 1;
  int microbatches = 1;
  std::vector<Order> orders;  // one per stage
  Bytes bytes{0};             // of each transfer
};

// K warm-up forwards (at most M), then backward and forward in turn.
inline Order alternating(int warm_up, int microbatches) {
  Order order;
  const int ahead = std::min(warm_up, microbatches);
  for (int m = 0; m < ahead; ++m) order.emplace_back('F', m);
  for (int m = 0; m < microbatches; ++m) {
    order.emplace_back('B', m);
    if (m + ahead < microbatches) order.emplace_back('F', m + ahead);
  }
  return order;
}

inline Chain gpipe(int n, int m) {
  Chain chain{n, m, {}, Bytes(0)};
  for (int i = 0; i < n; ++i) chain.orders.push_back(alternating(m, m));
  return chain;
}
inline Chain one_f_one_b(int n, int m) {
  Chain chain{n, m, {}, Bytes(0)};
  for (int i = 0; i < n; ++i) chain.orders.push_back(alternating(n - i, m));
  return chain;
}
// One more warm-up forward for each transfer to hide.
inline Chain one_f_one_b_so(int n, int m) {
  Chain chain{n, m, {}, Bytes(0)};
  for (int i = 0; i < n; ++i)
    chain.orders.push_back(alternating(2 * (n - i) - 1, m));
  return chain;
}

inline Action action(ActionKind kind, int microbatch, int index) {
  Action a;
  a.kind = kind;
  a.microbatch = MicrobatchId(microbatch);
  if (kind == ActionKind::Send || kind == ActionKind::Receive)
    a.transfer = TransferId(index);
  else if (kind == ActionKind::Reduce)
    a.reduction = ReductionId(index);
  else
    a.read_set = ReadSetId(index);
  return a;
}

inline Action compute(ActionKind kind, int stage, int microbatch, int index) {
  Action a = action(kind, microbatch, index);
  a.stage = StageId(stage);
  return a;
}

// Transfer i is the activation from stage i to i + 1, transfer N - 1 + i the
// gradient from i + 1 to i. Receives are all posted at the start of the body.
inline Program chain_program(const Chain& chain) {
  const int n = chain.stages;
  Program program;
  program.num_stages = n;
  program.num_microbatches = chain.microbatches;
  program.workers.resize(static_cast<std::size_t>(n));
  program.operation_of.resize(n * n);
  program.read_sets.emplace_back();  // 0: nothing
  for (int i = 0; i < 2 * (n - 1); ++i) {
    const bool gradient = i >= n - 1;
    const int low = gradient ? i - (n - 1) : i;
    Transfer transfer;
    transfer.from = WorkerId(gradient ? low + 1 : low);
    transfer.to = WorkerId(gradient ? low : low + 1);
    transfer.made_by = StageId(transfer.from.value);
    transfer.kind =
        gradient ? TransferKind::Gradient : TransferKind::Activation;
    transfer.bytes = chain.bytes;
    program.transfers.push_back(transfer);
    ReadSet reads;
    reads.transfers.push_back(TransferId(i));
    program.read_sets.push_back(reads);  // i + 1
  }
  for (int i = 0; i < n; ++i) {
    Operation operation;
    operation.stage = StageId(i);
    operation.worker = WorkerId(i);
    program.operation_of[i * n + i] = OperationId(i);
    program.operations.push_back(operation);
    auto& body = program.workers[static_cast<std::size_t>(i)].body;
    program.workers[static_cast<std::size_t>(i)].device = DeviceId(i);
    for (auto [letter, m] : chain.orders[static_cast<std::size_t>(i)]) {
      if (letter == 'F' && i > 0)
        body.push_back(action(ActionKind::Receive, m, i - 1));
      if (letter == 'B' && i + 1 < n)
        body.push_back(action(ActionKind::Receive, m, n - 1 + i));
    }
    for (auto [letter, m] : chain.orders[static_cast<std::size_t>(i)]) {
      if (letter == 'F') {
        body.push_back(compute(ActionKind::Forward, i, m, i > 0 ? i : 0));
        if (i + 1 < n) body.push_back(action(ActionKind::Send, m, i));
      } else {
        body.push_back(
            compute(ActionKind::Backward, i, m, i + 1 < n ? n + i : 0));
        if (i > 0) body.push_back(action(ActionKind::Send, m, n - 2 + i));
      }
    }
    body.push_back(compute(ActionKind::Step, i, 0, 0));
  }
  return program;
}

// Every stage alike; a transfer takes `latency`, whatever its bytes.
inline Costs even_costs(const Program& program, double forward, double backward,
                        double latency) {
  Costs::OperationCost operation;
  operation.compute[static_cast<int>(ActionKind::Forward)] = Seconds(forward);
  operation.compute[static_cast<int>(ActionKind::Backward)] = Seconds(backward);
  return given_costs(
      program, [&](const Operation&) { return operation; }, Seconds(latency));
}

}  // namespace pipewright::test
