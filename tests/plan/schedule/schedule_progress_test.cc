// Schedule::create() and the validator answer the same: random compute orders,
// most of which deadlock, and the programs that they lower to.

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <tuple>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

using Key = std::tuple<StageId, ActionKind, MicrobatchId>;

Key key_of(const Action& action) {
  return {action.stage, action.kind, action.microbatch};
}
Key key_of(const ComputeAction& action) {
  return {action.stage, static_cast<ActionKind>(action.kind),
          action.microbatch};
}

// Lowers orders that need not be a schedule, by hand: actions and what they
// send as in the program of a schedule with the same actions, all receives
// first, in the order of the sends.
class Reordered {
 public:
  explicit Reordered(Program program) : program_(std::move(program)) {
    for (WorkerProgram& worker : program_.workers) {
      actions_.emplace_back();
      tails_.emplace_back();
      for (const Action& action : worker.body) {
        if (is_compute(action.kind))
          actions_.back()[key_of(action)] = {action}, last_ = key_of(action);
        else if (action.kind == ActionKind::Send)
          actions_.back()[last_].push_back(action);
        else if (action.kind != ActionKind::Receive)
          tails_.back().push_back(action);
      }
    }
  }

  Program with(const Orders& orders) const {
    Program program = program_;
    for (std::size_t w = 0; w < orders.size(); ++w)
      program.workers[w].body = worker_body(w, orders[w]);
    const auto workers = program.workers;  // without receives
    for (std::size_t w = 0; w < orders.size(); ++w) {
      std::vector<Action> receives;
      for (const WorkerProgram& from : workers)
        for (Action action : from.body) {
          if (action.kind != ActionKind::Send ||
              program.transfer(action.transfer).to != WorkerId(w))
            continue;
          action.kind = ActionKind::Receive;
          receives.push_back(action);
        }
      auto& body = program.workers[w].body;
      body.insert(body.begin(), receives.begin(), receives.end());
    }
    return program;
  }

 private:
  std::vector<Action> worker_body(
      std::size_t w, const std::vector<ComputeAction>& order) const {
    std::vector<Action> body, sends;
    for (const ComputeAction& compute : order) {
      const auto& made = actions_[w].at(key_of(compute));
      body.push_back(made.front());
      body.back().joined = compute.joined;
      sends.insert(sends.end(), made.begin() + 1, made.end());
      if (compute.joined) continue;
      body.insert(body.end(), sends.begin(), sends.end());
      sends.clear();
    }
    body.insert(body.end(), tails_[w].begin(), tails_[w].end());
    return body;
  }

  Program program_;
  Key last_;
  std::vector<std::map<Key, std::vector<Action>>> actions_;  // and sends
  std::vector<std::vector<Action>> tails_;
};

class RandomOrders {
 public:
  explicit RandomOrders(unsigned seed) : random_(seed) {}

  // All forwards, then all backwards: a schedule whoever has which stage.
  Orders valid(int stages, int microbatches, int replicas) {
    const int workers = up_to(stages) * replicas;
    Orders orders(static_cast<std::size_t>(workers));
    std::vector<int> home, split;
    for (int s = 0; s < stages; ++s) {
      // Every worker has a stage.
      home.push_back(s < workers / replicas ? s
                                            : up_to(workers / replicas) - 1);
      split.push_back(up_to(2) == 1);
    }
    const auto add = [&](int s, int m, ComputeKind kind) {
      for (int r = 0; r < replicas; ++r)
        orders[static_cast<std::size_t>(
                   home[static_cast<std::size_t>(s)] * replicas + r)]
            .push_back({StageId(s), MicrobatchId(m), kind});
    };
    for (int m = 0; m < microbatches; ++m)
      for (int s = 0; s < stages; ++s) add(s, m, ComputeKind::Forward);
    for (int m = 0; m < microbatches; ++m)
      for (int s = stages - 1; s >= 0; --s)
        if (split[static_cast<std::size_t>(s)]) {
          add(s, m, ComputeKind::BackwardInput);
          add(s, m, ComputeKind::BackwardWeight);
        } else {
          add(s, m, ComputeKind::Backward);
        }
    return orders;
  }

  // Some neighbours swapped, some joined.
  Orders changed(Orders orders) {
    const auto swaps = random_() % 8, joins = random_() % 3;
    for (auto& order : orders) {
      for (unsigned i = 0; i < swaps; ++i) {
        const std::size_t k = random_() % (order.size() - 1);
        std::swap(order[k], order[k + 1]);
      }
      for (unsigned i = 0; i < joins; ++i) {
        const std::size_t k = random_() % (order.size() - 1);
        if (!order[k + 1].joined && (k == 0 || !order[k - 1].joined))
          order[k].joined = true;
      }
    }
    return orders;
  }

  int up_to(int most) {
    return 1 + static_cast<int>(random_() % static_cast<unsigned>(most));
  }

 private:
  std::mt19937 random_;
};

struct Verdicts {
  int accepted = 0, deadlocks = 0, others = 0, joined = 0;
  int only_program = 0;  // accepted
};

void compare(RandomOrders& random, int replicas, Verdicts& verdicts) {
  const int stages = random.up_to(4), microbatches = random.up_to(3);
  const Orders valid = random.valid(stages, microbatches, replicas);
  const auto schedule = Schedule::create(stages, microbatches, valid);
  REQUIRE(schedule.ok());
  const auto program =
      lower(plan_of_schedule(*schedule, Method::Sync, Replication::Split),
            chain(stages));
  REQUIRE(program.ok());
  const Reordered reordered(*program);
  for (int i = 0; i < 10; ++i) {
    const Orders orders = random.changed(valid);
    const auto made = Schedule::create(stages, microbatches, orders);
    const auto proof = validate(reordered.with(orders));
    INFO((made ? "accepted" : made.error().to_text()));
    INFO((proof ? "accepted" : proof.error().to_text()));
    if (replicas == 1) CHECK(made.ok() == proof.ok());
    if (made) CHECK(proof.ok());
    verdicts.only_program += proof.ok() && !made.ok();
    if (made) {
      ++verdicts.accepted;
      for (const auto& order : orders)
        for (const ComputeAction& action : order)
          verdicts.joined += action.joined;
    } else if (made.error().message.find("deadlock") != std::string::npos) {
      ++verdicts.deadlocks;
    } else {
      ++verdicts.others;
    }
  }
}

TEST_CASE("a schedule is accepted exactly if its program is") {
  RandomOrders random(17);
  Verdicts verdicts;
  for (int i = 0; i < 800; ++i) compare(random, 1, verdicts);
  CHECK(verdicts.accepted > 1000);
  CHECK(verdicts.deadlocks > 1000);
  CHECK(verdicts.others > 100);
  CHECK(verdicts.joined > 500);
}

// An action of a program waits only for the replicas whose samples it reads; in
// a schedule it waits for all of them.
TEST_CASE("with replicas the program of a schedule is accepted") {
  RandomOrders random(19);
  Verdicts verdicts;
  for (int i = 0; i < 300; ++i) compare(random, 2, verdicts);
  CHECK(verdicts.accepted > 300);
  CHECK(verdicts.deadlocks > 300);
  CHECK(verdicts.only_program > 0);
}

}  // namespace
}  // namespace pipewright
