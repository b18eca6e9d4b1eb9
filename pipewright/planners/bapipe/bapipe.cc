// BaPipe: tries microbatch sizes, schedules and balanced partitions, and takes
// the fastest by the estimator; or data parallelism if that is faster.
//
// Zhao et al., "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN
// Training", arXiv 2012.12544, 2020. From the paper: every device computes
// forward and backward of its own stage, within one minibatch (weights are
// never stale), and the framework explores schedules and balanced partitions
// from the profiles of the network and the cluster. The four schedules with
// their time, memory and bandwidth (bapipe_costs.h) follow its table: 1F1B-AS
// and FBP-AS for devices that compute while they communicate (FPGAs), 1F1B-SNO
// and 1F1B-SO for devices that do not (GPUs).
//
// Departures, where the paper leaves details open or we found a better way:
//   - Partitions are exact (dynamic programming). The paper aims at a share
//     T0/T_n of the work for device n, T0 = 1 / sum(1/T_n). With several kinds
//     of devices every order of kinds is tried, up to 100.
//   - Ours: the test whether a link limits, its tolerance of a tenth of a slot
//     for exposed transfers, and the loop that forbids the largest tensors at
//     cuts until the step stops getting faster. The exact optimum is tried too.
//   - Memory is met by moving layers, and also exactly. What the simulator
//     needs beyond the formula is added to it, and the search is repeated.
//   - Unbalanced stages take sum(F+B) + (M-1) P, see promised_step().
//   - A partition that splits layers is a plan of another model, in which each
//     of them is two layers and a join (bapipe_split.h, split_layers.h). How
//     the parts are found, and that there is a join, is ours. Models of the zoo
//     only, because the plan must name the model.
//   - At most 512 cut positions; of more, the cheapest of each group.
//   - Candidates are ranked by the estimator. There what an FPGA sends streams
//     (streaming.h): it leaves while the stage makes it, evenly over the
//     stage's time, so that a link as fast as the stage takes no time, as in
//     the paper. Ours: the receiver starts when it has all of it, and a link's
//     latency comes on top.

#include <algorithm>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/planners/bapipe/bapipe_exploration.h"
#include "pipewright/planners/planner_registry.h"

namespace pipewright {
namespace {

class BaPipePlanner : public Planner {
 public:
  explicit BaPipePlanner(BaPipeParts parts) : parts_(parts) {}

  std::string name() const override { return "bapipe"; }
  std::string summary() const override {
    return "explores microbatch sizes, 1F1B schedules and balanced cuts; "
           "splits layers over two FPGAs";
  }
  std::string source() const override {
    return "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN "
           "Training, arXiv 2012.12544, 2020";
  }
  PlanningEffort effort() const override { return PlanningEffort::Search; }

  Result<Planned> plan(const Problem& problem) const override {
    if (is_asynchronous(problem.method))
      return bad_configuration("bapipe plans synchronous training, not \"" +
                                   to_text(problem.method) + "\"",
                               "use the method \"sync\"");
    if (problem.profile->num_layers() < 1)
      return bad_configuration("the profile has no layers");
    BaPipeExploration exploration(problem, name(), parts_);
    for (int microbatch : problem.microbatches) {
      if (microbatch != problem.microbatches.front() && problem.is_over())
        break;
      if (auto done = exploration.explore(microbatch); !done)
        return done.error();
    }
    for (int microbatch : problem.microbatches)
      if (parts_.data_parallelism) exploration.try_data_parallelism(microbatch);
    return exploration.best();
  }

 private:
  BaPipeParts parts_;
};

}  // namespace

std::unique_ptr<Planner> bapipe_planner(BaPipeParts parts) {
  return std::make_unique<BaPipePlanner>(parts);
}

std::unique_ptr<Planner> bapipe_planner() {
  return bapipe_planner(BaPipeParts());
}

}  // namespace pipewright
