#include "pipewright/simulate/simulate.h"

#include <algorithm>
#include <map>

#include "pipewright/simulate/contended_execution.h"
#include "pipewright/simulate/engine/compile.h"
#include "pipewright/simulate/engine/engine.h"
#include "pipewright/simulate/history/memory_history.h"
#include "pipewright/simulate/history/spans.h"
#include "pipewright/simulate/steady_state.h"

namespace pipewright {
namespace {

bool overlaps_minibatches(const Program& program) {
  return program.minibatches_outside > 0 ||
         std::any_of(program.workers.begin(), program.workers.end(),
                     [](const WorkerProgram& worker) {
                       return !worker.prologue.empty() ||
                              !worker.epilogue.empty();
                     });
}

// Enough to show the steady state: a program that fills and drains in k
// minibatches runs for as many more, and a few.
int minibatches_of(const Program& program, const SimulateOptions& options) {
  if (options.minibatches > 0)
    return std::max(options.minibatches, program.minibatches_outside);
  if (!overlaps_minibatches(program)) return 1;
  return 2 * program.minibatches_outside + 4;
}

std::vector<LinkSummary> links_of(const Program& program,
                                  const Execution& execution) {
  std::map<std::pair<WorkerId, WorkerId>, LinkSummary> links;
  for (std::size_t t = 0; t < program.transfers.size(); ++t) {
    const Transfer& transfer = program.transfers[t];
    LinkSummary& link = links[{transfer.from, transfer.to}];
    link.from = transfer.from;
    link.to = transfer.to;
    link.bytes += transfer.bytes * execution.messages[t];
    link.busy += Seconds(execution.seconds_on_link[t]);
  }
  std::vector<LinkSummary> list;
  for (const auto& [pair, link] : links) list.push_back(link);
  return list;
}

void add_workers(const Program& program, const Execution& execution,
                 Timeline& timeline) {
  for (std::size_t w = 0; w < program.workers.size(); ++w) {
    WorkerSummary summary;
    summary.device = program.workers[w].device;
    summary.busy = Seconds(execution.workers[w].busy);
    summary.waiting_for_link = Seconds(execution.workers[w].waiting_for_link);
    summary.peak = constant_memory(program, WorkerId(w));
    timeline.workers.push_back(summary);
  }
}

// What the device holds beyond the program.
void add_device_memory(const Costs& costs, Timeline& timeline) {
  for (std::size_t w = 0; w < costs.memory.size(); ++w) {
    MemoryUse& peak = timeline.workers[w].peak;
    peak.base = costs.memory[w].base;
    peak.fragmentation = Bytes(static_cast<std::int64_t>(
        costs.memory[w].fragmentation *
        static_cast<double>(peak.of_program().value())));
    if (w >= timeline.memory.size()) continue;
    for (MemoryPoint& point : timeline.memory[w])
      point.bytes += peak.base + peak.fragmentation;
  }
}

void add_memory(const TimedCode& code, const Journal& journal, bool keep_points,
                Timeline& timeline) {
  MemoryHistories histories(code, journal);
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    WorkerSummary& summary = timeline.workers[w];
    MemoryHistory history =
        histories.of_worker(WorkerId(w), summary.peak.total(), keep_points);
    summary.peak.activations = history.activations;
    summary.peak.buffers = history.buffers;
    summary.peak_at = history.peak_at;
    if (keep_points) timeline.memory.push_back(std::move(history.points));
  }
}

// The share of a step in which workers do not compute: of the whole run, or, if
// minibatches overlap, of one period in the long run.
double bubble_of(const Timeline& timeline, const TimedCode& code,
                 bool overlapping) {
  double busy = 0;
  for (std::size_t w = 0; w < timeline.workers.size(); ++w)
    busy += overlapping ? code.workers[w].body_seconds
                        : timeline.workers[w].busy.value();
  const double available =
      static_cast<double>(timeline.workers.size()) *
      (overlapping ? timeline.step_seconds.value() : timeline.duration.value());
  return available > 0 ? 1 - busy / available : 0;
}

}  // namespace

Timeline simulate(const Program& program, const Costs& costs,
                  const SimulateOptions& options) {
  const bool overlapping = overlaps_minibatches(program);
  Timeline timeline;
  timeline.num_stages = program.num_stages;
  timeline.num_microbatches = program.num_microbatches;
  timeline.minibatches = minibatches_of(program, options);
  EngineOptions engine;
  engine.repetitions = program.repetitions(timeline.minibatches);
  engine.keep_journal = options.keep_spans || options.track_memory;
  CompileOptions compiler;
  compiler.runs_once = !overlapping && engine.repetitions <= 1;
  TimedCode code = compile(program, costs, compiler);
  const Execution execution = execute_contended(code, engine, costs.contention);
  timeline.duration = Seconds(execution.duration);
  timeline.step_seconds = overlapping
                              ? steady_state_period(program, costs)
                              : timeline.duration / timeline.minibatches;
  add_workers(program, execution, timeline);
  if (options.track_memory)
    add_memory(code, execution.journal, options.keep_spans, timeline);
  add_device_memory(costs, timeline);
  timeline.links = links_of(program, execution);
  timeline.bubble = bubble_of(timeline, code, overlapping);
  for (int w = 0; options.keep_spans && w < program.num_workers(); ++w)
    timeline.spans.push_back(spans_of(code, execution.journal, WorkerId(w)));
  return timeline;
}

}  // namespace pipewright
