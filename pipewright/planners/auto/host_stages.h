// Pipelines whose stages are on whole hosts of a large cluster, for models with
// more weights than hosts can sum in the time that a step computes: each host
// then has a part of the weights, and what passes between stages is sent over
// its network card instead.
//
// First, for each of some limits on the longest reduction, the smallest compute
// or transfer time of a stage that the hosts allow is found by bisection;
// whether they do, by a table over the layers of the fewest hosts that they
// need. Then the best of these pipelines, as host_order.h predicts it, is
// changed step by step (host_changes.h). A group of hosts may then hold several
// stages: it computes one while the gradients of another are summed. Last, how
// urgent its actions are is changed. The method is ours.
//
// The same search finds pipelines inside one host, whose devices are then what
// groups consist of. It starts with stages that go round the groups.

#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "pipewright/planners/auto/host_costs.h"
#include "pipewright/planners/bounds/islands.h"
#include "pipewright/planners/planner.h"

namespace pipewright {

class HostSearch {
 public:
  // For one of `copies` equal groups of hosts that the problem's cluster is.
  // The problem must outlive this object. Null unless the group has several
  // hosts with links and one kind of device, and training is synchronous. With
  // Rotate the hosts of a group take turns, and the problem's microbatches are
  // those of one device.
  static std::unique_ptr<HostSearch> create(const Problem& group, int copies,
                                            Replication replication);
  // The same for one of `copies` hosts, which has several devices.
  static std::unique_ptr<HostSearch> create_in_host(const Problem& host,
                                                    int copies,
                                                    const Islands& hosts);

  // Whether the hosts of a group take turns.
  bool take_turns() const { return costs_.take_turns(); }

  // Of the best pipeline so far, the step.
  Seconds predicted() const { return Seconds(order_.seconds); }

  // By so many changes: a thousand take about 30 ms.
  void improve(int tries);
  // The same by changes of all kinds, with less tolerance for slower ones: for
  // pipelines of many stages, and where the order matters most.
  void improve_all(int tries);
  // The same, but only in which order its groups compute.
  void improve_order(int tries);

  // The best pipeline so far, with an order of its own. Fails as planned()
  // does.
  Result<Planned> plan();

 private:
  using NextShape =
      std::function<std::optional<HostShape>(const HostShape&, int last_group)>;
  void improve(int tries, double first_loss, const NextShape& next);
  HostSearch(const Problem& group, HostCosts costs, HostShape shape,
             HostOrder order, std::size_t max_stages)
      : group_(group),
        costs_(std::move(costs)),
        shape_(std::move(shape)),
        order_(std::move(order)),
        max_stages_(max_stages) {}

  const Problem& group_;
  HostCosts costs_;
  HostShape shape_;
  HostOrder order_;
  std::size_t max_stages_;
};

}  // namespace pipewright
