// Fixed-order sums; see reduction.h.

#include "pipewright/runtime/channels/reduction.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "pipewright/base/check.h"
#include "pipewright/plan/program/execution.h"

namespace pipewright {
namespace {

struct Part {
  LayerId layer;
  std::size_t place;  // of the worker in the reduction
  at::Tensor gradient;
};
using Parts = c10::SmallVector<Part, 16>;  // of a parameter: few

Parts parts_of(ParameterId parameter, const Reduction& reduction,
               const std::vector<WorkerContributions>& all) {
  Parts parts;
  for (const WorkerContributions& of_worker : all)
    for (const Contribution& contribution : of_worker.contributions)
      if (contribution.parameter == parameter)
        parts.push_back({contribution.layer,
                         place_of(of_worker.worker, reduction),
                         contribution.gradient});
  std::sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::tie(a.layer, a.place) < std::tie(b.layer, b.place);
  });
  return parts;
}

// Who shares a parameter has the same square of its gradient.
at::Tensor norm(const Reduction& reduction,
                const std::vector<WorkerContributions>& all) {
  double sum = 0;
  for (const ParameterId parameter : reduction.parameters)
    sum += parts_of(parameter, reduction, all).at(0).gradient.item<double>();
  return at::full({}, std::sqrt(sum), at::kDouble);
}

}  // namespace

std::size_t place_of(WorkerId worker, const Reduction& reduction) {
  const auto& workers = reduction.workers;
  const auto found = std::find(workers.begin(), workers.end(), worker);
  PIPEWRIGHT_CHECK(found != workers.end(),
                   "a worker hands in what is not asked of it");
  return static_cast<std::size_t>(found - workers.begin());
}

std::size_t num_sums(const Reduction& reduction) {
  return reduction.is_norm ? 1 : reduction.parameters.size();
}

at::Tensor reduction_sum(const Reduction& reduction, std::size_t index,
                         const std::vector<WorkerContributions>& all) {
  if (reduction.is_norm) return norm(reduction, all);
  const Parts parts = parts_of(reduction.parameters[index], reduction, all);
  PIPEWRIGHT_CHECK(!parts.empty(), "a reduction without a gradient");
  if (parts.size() == 1) return parts[0].gradient;
  at::Tensor sum = parts[0].gradient.add(parts[1].gradient);
  for (std::size_t i = 2; i < parts.size(); ++i) sum.add_(parts[i].gradient);
  return sum;
}

Tensors reduction_sums(const Reduction& reduction,
                       const std::vector<WorkerContributions>& all) {
  Tensors sums;
  for (std::size_t i = 0; i < num_sums(reduction); ++i)
    sums.push_back(reduction_sum(reduction, i, all));
  return sums;
}

std::vector<Participants> participants_of(const Program& program) {
  std::vector<std::set<WorkerId>> givers(program.reductions.size());
  std::vector<std::set<std::pair<WorkerId, StageId>>> readers(givers.size());
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    const WorkerProgram& code = program.workers[w];
    for (const auto* section : {&code.prologue, &code.body, &code.epilogue})
      for (const Action& action : *section) {
        if (action.kind == ActionKind::Reduce) {
          givers[action.reduction.index()].insert(WorkerId(w));
          for (const ReductionId r : sums_read(
                   program.reduction(action.reduction), WorkerId(w), program))
            readers[r.index()].insert({WorkerId(w), StageId()});
        }
        if (action.kind != ActionKind::Step) continue;
        for (const ReductionId r : program.reads(action).reductions)
          readers[r.index()].insert({WorkerId(w), action.stage});
      }
  }
  std::vector<Participants> all;
  for (std::size_t r = 0; r < givers.size(); ++r)
    all.push_back({static_cast<int>(givers[r].size()),
                   static_cast<int>(readers[r].size())});
  return all;
}

}  // namespace pipewright
