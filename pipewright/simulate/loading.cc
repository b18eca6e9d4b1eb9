#include "pipewright/simulate/loading.h"

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/base/index.h"

namespace pipewright {
namespace {

bool is_first_forward(const Action& action) {
  return action.kind == ActionKind::Forward && action.stage == StageId(0);
}

}  // namespace

Loading::Loading(const Program& program, const Costs& costs, CodeWriter& writer,
                 TimedCode& code)
    : program_(program), costs_(costs), writer_(writer), code_(code) {
  if (costs.loading.seconds <= Seconds(0)) return;
  PIPEWRIGHT_CHECK(costs.loading.ahead >= 1, "a loader works ahead");
  loaders_.resize(program.workers.size());
  for (std::size_t w = 0; w < loaders_.size(); ++w) {
    const Operation* operation = program.operation(WorkerId(w), StageId(0));
    if (operation == nullptr) continue;
    const int samples = operation->num_samples();
    loaders_[w].loaded = writer.add_signal(1, KeyBase::Microbatch);
    loaders_[w].taken = writer.add_signal(1, KeyBase::Microbatch);
    loaders_[w].seconds =
        costs.loading.seconds.value() *
        (samples > 0 ? static_cast<double>(samples) / program.microbatch : 1);
    loaders_[w].cost = writer.add_cost({loaders_[w].seconds});
  }
}

bool Loading::loads(int w, const Action& action) const {
  return !loaders_.empty() && is_first_forward(action) &&
         loaders_[at(w)].loaded >= 0;
}

void Loading::wait_for(int w, const Action& action) {
  if (!loads(w, action)) return;
  Need need;
  need.transfer = code_.first_reduction + loaders_[at(w)].loaded;
  need.key = action.microbatch;
  writer_.add_need(need);
}

void Loading::take(int w, const Action& action) {
  if (loads(w, action))
    writer_.add_part(loaders_[at(w)].taken, action.microbatch,
                     KeyBase::Microbatch);
}

std::vector<std::int32_t> Loading::keys_of(std::size_t w, int section) const {
  const WorkerProgram& worker = program_.workers[w];
  std::vector<std::int32_t> keys;
  for (const Action& action : section == 0   ? worker.prologue
                              : section == 1 ? worker.body
                                             : worker.epilogue)
    if (is_first_forward(action)) keys.push_back(action.microbatch);
  return keys;
}

void Loading::add_loaders() {
  for (std::size_t w = 0; w < loaders_.size(); ++w) {
    const auto body = keys_of(w, 1);
    if (loaders_[w].loaded < 0 || body.empty()) continue;
    const auto prologue = keys_of(w, 0);
    const std::int32_t first =
        prologue.empty() ? body.front() : prologue.front();
    TimedWorker timed;
    timed.begin[0] = writer_.num_ops();
    for (int s = 0; s < 3; ++s) {
      add_section(loaders_[w], keys_of(w, s), body, s == 0, first - 1);
      timed.begin[s + 1] = writer_.num_ops();
    }
    timed.body_seconds = loaders_[w].seconds * static_cast<double>(body.size());
    code_.workers.push_back(timed);
  }
}

// Before the first of a section comes the body of the repetition before, which
// for the first repetition stands for the prologue, too.
void Loading::add_section(const Loader& loader,
                          const std::vector<std::int32_t>& keys,
                          const std::vector<std::int32_t>& body,
                          bool is_prologue, std::int32_t there_until) {
  const auto n = static_cast<std::int32_t>(body.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Op op = writer_.begin_work();
    op.cost = loader.cost;
    const std::int32_t before =
        static_cast<std::int32_t>(i) - costs_.loading.ahead;
    Need need;
    need.transfer = code_.first_reduction + loader.taken;
    need.there_until = there_until;
    if (before >= 0) {
      need.key = keys[at(before)];
    } else {
      const std::int32_t repetitions = (-before + n - 1) / n;
      need.key = body[at(before + repetitions * n)] -
                 repetitions * program_.num_microbatches;
    }
    if (before >= 0 || !is_prologue) writer_.add_need(need);
    writer_.end_work(op);
    writer_.add_part(loader.loaded, keys[i], KeyBase::Microbatch);
  }
}

}  // namespace pipewright
