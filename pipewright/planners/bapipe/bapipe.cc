// BaPipe: tries microbatch sizes, schedules and balanced partitions, and takes
// what the estimator finds fastest; data parallelism if that is faster still.
//
// Zhao et al., "BaPipe: Exploration of Balanced Pipeline Parallelism for DNN
// Training", arXiv 2012.12544, 2020. From the paper: every device computes
// forward and backward of its own part of the network, within one minibatch
// (weights are never stale), and the framework explores schedules and balanced
// partitions by the network's and the cluster's figures. The four schedules
// with their time, memory and bandwidth (bapipe_costs.h) follow its table:
// 1F1B-AS and FBP-AS where devices compute while they communicate (FPGAs),
// 1F1B-SNO and 1F1B-SO where they do not (GPUs).
//
// Ours, because the paper's text leaves it open or for the better:
//   - partitions are exact (dynamic programming), where a device's share
//     T0/T_n of the work, T0 = 1 / sum(1/T_n), is what they come close to;
//     with several kinds of devices every order of kinds is tried, up to 100;
//   - the test whether a link limits, its tolerance of a tenth of a slot for
//     exposed transfers, and the loop that forbids the largest tensors at cuts
//     until the time stops falling; beside it the exact answer;
//   - memory is repaired by moving layers, and exactly; what the simulator
//     finds beyond the formula is added to it, and the search repeated;
//   - unbalanced stages: sum(F+B) + (M-1) P, see promised_step();
//   - a partition that splits layers is simulated over the profile in which
//     those layers are two each (bapipe_split.h), and reported as an estimate:
//     a plan holds whole layers, because no executor here computes a part of
//     one;
//   - 512 places to cut at most, the cheapest of neighbours beyond;
//   - candidates are ranked by the estimator, in which an FPGA's transfer
//     starts when its tensor is complete, not while it is made.

#include <algorithm>
#include <optional>

#include "pipewright/base/text.h"
#include "pipewright/planners/bapipe/bapipe_exploration.h"
#include "pipewright/planners/planner_registry.h"

namespace pipewright {
namespace {

class BaPipePlanner : public Planner {
 public:
  std::string name() const override { return "bapipe"; }
  std::string summary() const override {
    return "explores microbatch sizes, 1F1B schedules and balanced cuts; "
           "layers split over two FPGAs are estimated, not planned";
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
    BaPipeExploration exploration(problem, name());
    for (int microbatch : problem.microbatches) {
      if (microbatch != problem.microbatches.front() && problem.is_over())
        break;
      if (auto done = exploration.explore(microbatch); !done)
        return done.error();
    }
    for (int microbatch : problem.microbatches)
      exploration.try_data_parallelism(microbatch);
    return exploration.best();
  }
};

}  // namespace

std::unique_ptr<Planner> bapipe_planner() {
  return std::make_unique<BaPipePlanner>();
}

}  // namespace pipewright
