#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

#include "pipewright/base/text.h"
#include "pipewright/report/report_parts.h"
#include "pipewright/report/timeline_rows.h"
#include "pipewright/timeline/picture_scale.h"

namespace pipewright {
namespace {

constexpr double kTicksPerRun = 1e7;
constexpr std::size_t kMaxShownWorkers = 256;
constexpr std::size_t kMaxShownSpans = 120'000;  // and as many messages

char message_letter(TransferKind kind) {
  constexpr char kLetters[] = {'G', 'A', 'K', 'V'};
  return kLetters[static_cast<int>(kind)];
}

struct Message {
  const Span* span;
  std::int32_t key;
  std::int32_t sent_by = -1, read_by = -1;  // numbers of own spans
};

// All messages by link, with the spans before their sends and of their readers.
class Messages {
 public:
  explicit Messages(const SimulatedPlan& simulated)
      : program_(simulated.program), timeline_(simulated.timeline) {
    for (const auto& spans : timeline_.spans)
      for (const Span& span : spans)
        if (span.kind == ActionKind::Send) add(span);
    for (auto& [pair, list] : links_)
      std::stable_sort(list.begin(), list.end(),
                       [](const auto& a, const auto& b) {
                         return a.span->start < b.span->start;
                       });
    for (auto& [pair, list] : links_)
      for (Message& message : list)
        by_key_[key(message.span->transfer, message.key)] = &message;
    for (std::size_t w = 0; w < timeline_.workers.size(); ++w) connect(w);
  }

  const std::map<WorkerPair, std::vector<Message>>& links() const {
    return links_;
  }
  std::size_t size() const { return by_key_.size(); }

 private:
  static std::uint64_t key(TransferId transfer, std::int32_t key) {
    return static_cast<std::uint64_t>(transfer.value) << 32 |
           static_cast<std::uint32_t>(key);
  }

  void add(const Span& span) {
    const Transfer& what = program_.transfer(span.transfer);
    links_[{what.from, what.to}].push_back(
        {&span,
         what.is_keyed_by_version() ? span.version : span.microbatch.value});
  }

  Message* find(TransferId transfer, std::int32_t its_key) {
    const auto found = by_key_.find(key(transfer, its_key));
    return found == by_key_.end() ? nullptr : found->second;
  }

  void connect(std::size_t w) {
    const int minibatches =
        std::max(timeline_.minibatches, program_.minibatches_outside);
    std::int32_t own = -1;
    for (const Action& action : unrolled(program_, WorkerId(w), minibatches)) {
      if (action.kind == ActionKind::Send)
        if (Message* sent = find(action.transfer, program_.key(action)))
          sent->sent_by = own;
      if (!is_compute(action.kind) && action.kind != ActionKind::Step) continue;
      ++own;
      if (!action.read_set.is_none()) note_reads(action, own);
    }
  }

  void note_reads(const Action& action, std::int32_t own) {
    for (TransferId transfer : program_.reads(action).transfers) {
      if (program_.transfer(transfer).is_keyed_by_version()) continue;
      Message* read = find(transfer, action.microbatch.value);
      if (read && read->read_by < 0) read->read_by = own;
    }
  }

  const Program& program_;
  const Timeline& timeline_;
  std::map<WorkerPair, std::vector<Message>> links_;
  std::unordered_map<std::uint64_t, Message*> by_key_;
};

// Groups of `merged` consecutive spans become one block: of their kind and
// stage if those are equal, of kind + otherwise.
Json worker_row(const std::vector<Span>& own, std::size_t merged,
                const TickClock& clock) {
  SpanRow row;
  for (std::size_t i = 0; i < own.size(); i += merged) {
    const std::size_t last = std::min(own.size(), i + merged) - 1;
    bool equal = true;
    for (std::size_t k = i; k <= last; ++k)
      equal = equal && own[k].kind == own[i].kind;
    row.add(equal ? letter(own[i].kind) : '+', own[i].stage,
            own[i].microbatch.value, own[i].start, own[last].end, clock);
  }
  return row.take_json();
}

Json reductions_row(const std::vector<Span>& spans, const TickClock& clock) {
  SpanRow row;
  for (const Span& span : spans)
    if (span.kind == ActionKind::Reduce)
      row.add('A', span.stage, 0, span.start, span.end, clock);
  return row.take_json_without_microbatches();
}

Json link_row(const WorkerPair& link, const std::vector<Message>& messages,
              const Program& program, const TickClock& clock) {
  std::vector<PageMessage> entries;
  for (const Message& message : messages) {
    const Transfer& what = program.transfer(message.span->transfer);
    entries.push_back({message_letter(what.kind), message.key, message.sent_by,
                       message.read_by, what.bytes, message.span->start,
                       message.span->end});
  }
  return link_json(link, entries, clock);
}

std::string thinning_text(std::size_t shown, std::size_t workers,
                          std::size_t merged, bool links) {
  std::vector<std::string> parts;
  if (shown < workers)
    parts.push_back(with_thousands(std::int64_t(shown)) + " of " +
                    with_thousands(std::int64_t(workers)) +
                    " workers are shown");
  if (merged > 1)
    parts.push_back("a block is " + std::to_string(merged) + " actions");
  if (!links) parts.push_back("transfers are left out");
  return join(parts, "; ");
}

}  // namespace

TickClock::TickClock(Seconds duration)
    : tick_(duration > Seconds(0) ? duration / kTicksPerRun : Seconds(1)) {}

std::int64_t TickClock::ticks(Seconds time) const {
  return std::llround(time / tick_);
}

std::vector<std::size_t> spread_indices(std::size_t size, std::size_t count) {
  const std::size_t chosen = std::min(size, count);
  std::vector<std::size_t> indices(chosen);
  for (std::size_t i = 0; i < chosen; ++i)
    indices[i] = chosen == 1 ? 0 : i * (size - 1) / (chosen - 1);
  return indices;
}

Json timeline_part(const SimulatedPlan& simulated) {
  const Timeline& timeline = simulated.timeline;
  const TickClock clock(timeline.duration);
  const auto shown = spread_indices(timeline.workers.size(), kMaxShownWorkers);
  std::size_t longest = 0;
  for (std::size_t w : shown)
    longest = std::max(longest, own_spans(timeline, w).size());
  const std::size_t merged = std::max<std::size_t>(
      1, (longest * shown.size() + kMaxShownSpans - 1) / kMaxShownSpans);
  const Messages messages(simulated);
  const bool links = merged == 1 && shown.size() == timeline.workers.size() &&
                     messages.size() <= kMaxShownSpans;
  PageTimeline page;
  page.duration = timeline.duration;
  page.num_microbatches = timeline.num_microbatches;
  page.num_minibatches = timeline.minibatches;
  page.thinned =
      thinning_text(shown.size(), timeline.workers.size(), merged, links);
  for (std::size_t w : shown) {
    Json row = worker_row(own_spans(timeline, w), merged, clock);
    row.set("worker", w);
    row.set("reductions", reductions_row(timeline.spans[w], clock));
    page.workers.push(std::move(row));
  }
  for (const auto& [link, list] : messages.links())
    if (links) page.links.push(link_row(link, list, simulated.program, clock));
  page.path = simulated.path;
  return to_json(std::move(page));
}

}  // namespace pipewright
