// Links by hand: bandwidth, latency, sharing, who waits for whom.

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "pipewright/simulate/links/fair_share.h"
#include "pipewright/simulate/simulate.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

// Stage 0 sends eight messages of 100 bytes at 1 s intervals to stage 1.
Timeline over_link(double bytes_per_second, double latency) {
  Chain chain = gpipe(2, 8);
  chain.bytes = Bytes(100);
  const Program program = chain_program(chain);
  Costs costs = even_costs(program, 1, 0, latency);
  for (auto& cost : costs.transfers)
    cost.bandwidth = BytesPerSecond(bytes_per_second);
  return simulate(program, costs);
}

TEST_CASE("bytes follow each other on a link, latencies overlap") {
  // Each message takes 2 s on the link: the last is off it at 1 + 16, arrives
  // at 22 and is computed until 23; then eight gradients of 2 s and latency.
  const Timeline timeline = over_link(50, 5);
  CHECK(timeline.spans[1].front().start == Seconds(8));
  CHECK(timeline.duration == Seconds(23 + 16 + 5));
  CHECK(timeline.links[0].bytes == Bytes(800));
  CHECK(timeline.links[0].busy == Seconds(16));
  CHECK(timeline.workers[1].waiting_for_link.value() ==
        doctest::Approx(7 + 7 * 1));
}

TEST_CASE("rates are fair: everyone has a bottleneck where none has more") {
  std::mt19937 random(3);
  const auto pick = [&random](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 1000; ++round) {
    std::vector<SharedResource> resources;
    const int num_resources = pick(1, 4), num_messages = pick(1, 8);
    for (int r = 0; r < num_resources; ++r)
      resources.push_back({"r", BytesPerSecond(pick(1, 20)),
                           pick(0, 1) ? Duplex::Full : Duplex::Half});
    std::vector<std::vector<Link::Use>> uses;
    for (int f = 0; f < num_messages; ++f) {
      uses.emplace_back();
      for (int r = 0; r < num_resources; ++r)
        if (pick(0, 1)) uses.back().push_back({r, pick(0, 1) == 1});
    }
    struct Message {
      double limit, rate;
    };
    std::vector<Message> messages;
    std::vector<std::vector<PoolUse>> pools(uses.size());
    FairShares shares(pools_of(resources), uses.size());
    for (std::size_t f = 0; f < uses.size(); ++f) {
      add_pool_uses(uses[f], resources, pools[f]);
      messages.push_back({static_cast<double>(pick(1, 12)), 0});
    }
    const auto take_rates = [&] {
      for (std::int32_t f : shares.update_rates())
        messages[static_cast<std::size_t>(f)].rate = shares.rate(f);
    };
    // Some start and end before: that must not change the other rates.
    std::vector<bool> is_there(messages.size(), false);
    for (int change = pick(0, 20); change >= 0; --change)
      for (std::size_t f = 0; f < messages.size(); ++f) {
        if (change > 0 ? pick(0, 1) == 1 : is_there[f]) continue;
        const auto number = static_cast<std::int32_t>(f);
        if (is_there[f])
          shares.end(number);
        else
          shares.start(number, messages[f].limit, pools[f]);
        is_there[f] = !is_there[f];
        if (pick(0, 1)) take_rates();
      }
    take_rates();
    const auto meet = [&](const Link::Use& a, const Link::Use& b) {
      return a.resource == b.resource &&
             (a.upstream == b.upstream ||
              resources[static_cast<std::size_t>(a.resource)].duplex ==
                  Duplex::Half);
    };
    for (std::size_t f = 0; f < messages.size(); ++f) {
      const Message& message = messages[f];
      bool is_limited = message.rate >= message.limit * (1 - 1e-12);
      CHECK(message.rate <= message.limit);
      for (const Link::Use& use : uses[f]) {
        double sum = 0, most = 0;
        for (std::size_t g = 0; g < messages.size(); ++g)
          if (std::any_of(uses[g].begin(), uses[g].end(),
                          [&](auto& theirs) { return meet(use, theirs); })) {
            sum += messages[g].rate;
            most = std::max(most, messages[g].rate);
          }
        const double limit =
            resources[static_cast<std::size_t>(use.resource)].bandwidth.value();
        CHECK(sum <= limit * (1 + 1e-9));
        is_limited |=
            sum >= limit * (1 - 1e-9) && message.rate >= most * (1 - 1e-9);
      }
      CHECK(is_limited);
    }
  }
}

TEST_CASE("two that share a resource take twice as long, alone as ever") {
  Chain chain = gpipe(3, 1);
  chain.bytes = Bytes(100);
  Program program = chain_program(chain);
  program.workers[0].body = {action(ActionKind::Send, 0, 0)};
  program.workers[1].body = {action(ActionKind::Receive, 0, 0),
                             action(ActionKind::Send, 0, 1)};
  program.workers[2].body = {action(ActionKind::Receive, 0, 1)};
  Costs costs = even_costs(program, 1, 1, 0);
  costs.resources = {{"card", BytesPerSecond(100), Duplex::Full}};
  for (auto& cost : costs.transfers) {
    cost.bandwidth = BytesPerSecond(100);
    cost.uses = {{0, true}};
  }
  CHECK(simulate(program, costs).duration == Seconds(2));
  costs.transfers[1].uses = {{0, false}};
  CHECK(simulate(program, costs).duration == Seconds(1));
  costs.resources[0].duplex = Duplex::Half;
  CHECK(simulate(program, costs).duration == Seconds(2));
}

}  // namespace
}  // namespace pipewright
