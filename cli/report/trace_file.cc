#include "cli/report/trace_file.h"

#include <algorithm>
#include <map>

#include "pipewright/base/json_cursor.h"
#include "pipewright/base/text.h"
#include "pipewright/report/timeline_rows.h"

namespace pipewright::cli {
namespace {

// Lanes as chrome_trace.cc numbers them.
constexpr int kSendLane = 100, kReceiveLane = 200, kReduceLane = 300;
constexpr int kMaxTracedWorkers = 4096;

bool ends_step(const TraceSpan& span) { return span.kind == 'S'; }

// "1F0", "step stage 1", "all-reduce stage 1".
char kind_in(const std::string& name) {
  if (name.starts_with("step ")) return 'S';
  if (name.starts_with("all-reduce ")) return 'A';
  for (char c : name)
    if (std::string_view("FBIWR").find(c) != std::string_view::npos) return c;
  return '+';
}

// "activation 3 to 1": the message, and where it goes.
void read_message(const std::string& name, TraceSpan& span) {
  const auto words = split(name, ' ');
  span.kind = '>';
  if (words.size() < 4) return;
  span.microbatch = static_cast<int>(parse_integer(words[1]).value_or(0));
  span.to =
      WorkerId(static_cast<std::int32_t>(parse_integer(words[3]).value_or(-1)));
}

void read_slice(JsonCursor& event, TraceFile& trace) {
  TraceSpan span;
  const auto worker = event.at("pid").integer(0, kMaxTracedWorkers);
  const auto lane = event.at("tid").integer(0, 1 << 30);
  const std::string name = event.at("name").text();
  span.worker = WorkerId(static_cast<std::int32_t>(worker));
  span.start = Seconds(event.at("ts").real(-1e18, 1e18) * 1e-6);
  span.end = span.start + Seconds(event.at("dur").real(0, 1e18) * 1e-6);
  JsonCursor arguments = event.at("args");
  if (lane >= kSendLane && lane < kReceiveLane) {
    read_message(name, span);
    span.bytes = Bytes(arguments.at("bytes").integer(0));
  } else if (lane < kSendLane || lane >= kReduceLane) {
    span.kind = kind_in(name);
    span.stage = StageId(
        static_cast<std::int32_t>(arguments.at("stage").integer(-1, 1 << 30)));
    span.microbatch = static_cast<int>(
        arguments.at("microbatch").integer(-(1 << 30), 1 << 30));
  } else {
    return;  // the same message at its receiver
  }
  trace.num_workers = std::max(trace.num_workers, static_cast<int>(worker) + 1);
  trace.spans.push_back(span);
}

void read_memory(JsonCursor& event, TraceFile& trace) {
  const auto worker =
      static_cast<std::size_t>(event.at("pid").integer(0, kMaxTracedWorkers));
  const Bytes bytes(event.at("args").at("bytes").integer(0));
  if (trace.memory_peaks.size() <= worker)
    trace.memory_peaks.resize(worker + 1);
  trace.memory_peaks[worker] = std::max(trace.memory_peaks[worker], bytes);
}

bool is_compute_span(const TraceSpan& span) {
  return span.kind != '>' && span.kind != 'A' && span.kind != 'S';
}

PageMessage page_message(const TraceSpan& span) {
  return {span.to > span.worker ? 'A' : 'G',
          span.microbatch,
          -1,
          -1,
          span.bytes,
          span.start,
          span.end};
}

}  // namespace

Result<TraceFile> parse_trace(std::string_view text, const std::string& file) {
  return read_json(text, file, [](JsonCursor& root) {
    TraceFile trace;
    for (JsonCursor event : root.at("traceEvents").elements())
      if (const std::string phase = event.at("ph").text(); phase == "X")
        read_slice(event, trace);
      else if (phase == "C")
        read_memory(event, trace);
    return trace;
  });
}

std::optional<TracedStep> last_step(const TraceFile& trace,
                                    int num_microbatches) {
  // Steps carry the first microbatch of their minibatch.
  std::map<int, std::map<std::pair<WorkerId, StageId>, Seconds>> ends;
  for (const TraceSpan& span : trace.spans)
    if (ends_step(span))
      ends[span.microbatch / num_microbatches][{span.worker, span.stage}] =
          span.end;
  std::size_t all = 0;
  for (const auto& [minibatch, steps] : ends) all = std::max(all, steps.size());
  TracedStep found;
  found.minibatch = -1;
  for (const auto& [minibatch, steps] : ends)
    if (steps.size() == all) found.minibatch = minibatch;
  if (found.minibatch < 0) return {};
  Seconds first = Seconds::max(), last;
  for (const TraceSpan& span : trace.spans)
    if (is_compute_span(span) &&
        span.microbatch / num_microbatches == found.minibatch)
      first = std::min(first, span.start);
  for (const auto& [who, end] : ends[found.minibatch])
    last = std::max(last, end);
  if (first >= last) return {};
  found.duration = found.step = last - first;
  if (auto before = ends.find(found.minibatch - 1); before != ends.end()) {
    Seconds earlier;
    for (const auto& [who, end] : before->second)
      earlier = std::max(earlier, end);
    found.step = last - earlier;
  }
  for (TraceSpan span : trace.spans) {
    if (span.end <= first || span.start >= last) continue;
    span.start = std::max(Seconds(0), span.start - first);
    span.end = std::min(found.duration, span.end - first);
    if (span.kind != 'S' && span.kind != 'A')
      span.microbatch -= found.minibatch * num_microbatches;
    found.spans.push_back(span);
  }
  std::stable_sort(
      found.spans.begin(), found.spans.end(),
      [](const auto& a, const auto& b) { return a.start < b.start; });
  return found;
}

Json timeline_json(const TracedStep& step, int num_workers,
                   int num_microbatches) {
  const TickClock clock(step.duration);
  std::vector<SpanRow> own(static_cast<std::size_t>(num_workers)),
      reductions(own.size());
  std::map<WorkerPair, std::vector<PageMessage>> links;
  for (const TraceSpan& span : step.spans)
    if (span.kind == '>')
      links[{span.worker, span.to}].push_back(page_message(span));
    else
      (span.kind == 'A' ? reductions : own)[span.worker.index()].add(
          span.kind, span.stage, span.microbatch, span.start, span.end, clock);
  PageTimeline page;
  page.duration = step.duration;
  page.num_microbatches = num_microbatches;
  for (std::size_t w = 0; w < own.size(); ++w) {
    Json row = own[w].take_json();
    row.set("worker", w);
    row.set("reductions", reductions[w].take_json_without_microbatches());
    page.workers.push(std::move(row));
  }
  for (const auto& [link, entries] : links)
    page.links.push(link_json(link, entries, clock));
  return to_json(std::move(page));
}

}  // namespace pipewright::cli
