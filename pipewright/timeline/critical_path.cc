#include "pipewright/timeline/critical_path.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

using Kind = PathPiece::Kind;

// A point of the path: a span, and its number if it is the worker's own work.
struct Stop {
  const Span* span = nullptr;
  int own = -1;  // number among the worker's own spans; -1: not own
};

class Walk {
 public:
  Walk(const Program& program, const Timeline& timeline)
      : program_(program),
        timeline_(timeline),
        slack_(1e-9 * timeline.duration.value()) {
    own_.resize(timeline.workers.size());
    reads_.resize(timeline.workers.size());
    for (std::size_t w = 0; w < timeline.spans.size(); ++w)
      for (const Span& span : timeline.spans[w]) note(w, span);
    for (std::size_t w = 0; w < timeline.workers.size(); ++w) note_actions(w);
  }

  std::vector<PathPiece> run() {
    std::vector<PathPiece> path;
    Stop stop = last_stop();
    std::size_t steps = 1;
    for (const auto& spans : timeline_.spans) steps += spans.size();
    while (stop.span != nullptr && steps-- > 0) {
      path.push_back(piece_of(stop));
      const Stop before = bounding(stop);
      const Seconds reached =
          before.span == nullptr ? Seconds(0) : before.span->end;
      // What streams overlaps the work that makes it, which is on the path.
      path.back().start =
          std::clamp(reached, path.back().start, path.back().end);
      add_gap(path, stop, reached);
      stop = before;
    }
    std::reverse(path.begin(), path.end());
    return path;
  }

 private:
  using MessageKey = std::pair<TransferId, std::int32_t>;

  static bool is_own(const Span& span) {
    return is_compute(span.kind) || span.kind == ActionKind::Step;
  }

  void note(std::size_t w, const Span& span) {
    if (is_own(span)) own_[w].push_back(&span);
    if (span.kind == ActionKind::Reduce)
      reduces_[{span.worker, span.version}].push_back(&span);
    if (span.kind != ActionKind::Send) return;
    const bool weights =
        program_.transfers[span.transfer.index()].is_keyed_by_version();
    messages_[{span.transfer, weights ? span.version : span.microbatch.value}] =
        &span;
  }

  // What each own span reads, and after which own span each send and receive
  // comes. Only if the timeline has exactly the program's actions.
  void note_actions(std::size_t w) {
    const int minibatches =
        std::max(timeline_.minibatches, program_.minibatches_outside);
    const auto actions = unrolled(program_, WorkerId(w), minibatches);
    int count = 0;
    for (const Action& action : actions) {
      if (is_compute(action.kind) || action.kind == ActionKind::Step) {
        reads_[w].push_back(action);
        ++count;
      } else if (action.kind == ActionKind::Send ||
                 action.kind == ActionKind::Receive) {
        auto& places = action.kind == ActionKind::Send ? sent_ : posted_;
        places[{action.transfer, program_.key(action)}] = count - 1;
      }
    }
    if (reads_[w].size() != own_[w].size()) reads_[w].clear();
  }

  Stop last_stop() const {
    Stop last;
    for (std::size_t w = 0; w < own_.size(); ++w)
      if (!own_[w].empty())
        take_later(last, own_stop(w, static_cast<int>(own_[w].size()) - 1));
    for (const auto& [key, span] : messages_)
      if (last.span == nullptr ||
          span->end.value() > last.span->end.value() + slack_)
        last = {span, -1};
    return last;
  }

  Stop own_stop(std::size_t w, int i) const {
    if (i < 0 || i >= static_cast<int>(own_[w].size())) return {};
    return {own_[w][i], i};
  }

  void take_later(Stop& best, const Stop& other) const {
    if (other.span == nullptr) return;
    if (best.span == nullptr ||
        other.span->end.value() > best.span->end.value() + slack_)
      best = other;
  }

  Stop bounding(const Stop& stop) const {
    return stop.own >= 0                           ? before_work(stop)
           : stop.span->kind == ActionKind::Reduce ? before_reduce(*stop.span)
                                                   : before_message(*stop.span);
  }

  // The own work before it (not one it is joined with), or a later input.
  Stop before_work(const Stop& stop) const {
    const std::size_t w = stop.span->worker.index();
    int first = stop.own;
    while (first > 0 && is_joined(w, first - 1)) --first;
    int last = stop.own;
    while (is_joined(w, last)) ++last;
    Stop best = own_stop(w, first - 1);
    for (int i = first; i <= last; ++i) add_reads(w, i, best);
    return best;
  }

  bool is_joined(std::size_t w, int i) const {
    return i < std::ssize(reads_[w]) && reads_[w][i].joined;
  }

  void add_reads(std::size_t w, int i, Stop& best) const {
    if (i >= std::ssize(reads_[w]) || reads_[w][i].read_set.is_none()) return;
    const Action& action = reads_[w][i];
    const ReadSet& reads = program_.reads(action);
    for (TransferId t : reads.transfers) {
      const bool weights = program_.transfers[t.index()].is_keyed_by_version();
      auto found = messages_.find({t, weights ? version_read(action, reads, t)
                                              : action.microbatch.value});
      if (found != messages_.end()) take_later(best, {found->second, -1});
    }
    if (reads.reductions.empty()) return;
    auto found =
        reduces_.find({WorkerId(w), program_.minibatch_of(action.microbatch)});
    if (found == reduces_.end()) return;
    for (const Span* span : found->second)
      if (span->end.value() <= own_[w][i]->start.value() + slack_)
        take_later(best, {span, -1});
  }

  std::int32_t version_read(const Action& action, const ReadSet& reads,
                            TransferId t) const {
    for (const WeightRead& read : reads.weights)
      for (LayerId layer : program_.weight_group(read.group).layers)
        for (const Value& value : program_.transfers[t.index()].values)
          if (value.layer == layer) return action.version + read.offset;
    return action.version;
  }

  // The later of both ends: the sender, or a receiver that posted late.
  Stop before_message(const Span& span) const {
    const Transfer& what = program_.transfers[span.transfer.index()];
    const MessageKey key{span.transfer, what.is_keyed_by_version()
                                            ? span.version
                                            : span.microbatch.value};
    Stop best;
    if (auto sent = sent_.find(key); sent != sent_.end())
      take_later(best, own_stop(what.from.index(), sent->second));
    if (auto posted = posted_.find(key); posted != posted_.end())
      take_later(best, own_stop(what.to.index(), posted->second));
    return best;
  }

  // The last work, anywhere in the reduction, that ended before it began.
  Stop before_reduce(const Span& span) const {
    Stop best;
    for (const Reduction& reduction : program_.reductions) {
      const auto& workers = reduction.workers;
      if (std::find(workers.begin(), workers.end(), span.worker) ==
          workers.end())
        continue;
      for (WorkerId w : workers) {
        const auto& own = own_[w.index()];
        for (int i = static_cast<int>(own.size()) - 1; i >= 0; --i)
          if (own[i]->end.value() <= span.start.value() + slack_) {
            take_later(best, own_stop(w.index(), i));
            break;
          }
      }
    }
    return best;
  }

  PathPiece piece_of(const Stop& stop) const {
    PathPiece piece;
    piece.worker = stop.span->worker;
    piece.stage = stop.span->stage;
    piece.start = stop.span->start;
    piece.end = stop.span->end;
    piece.kind = stop.own >= 0 ? Kind::Compute : Kind::Reduce;
    if (stop.span->kind == ActionKind::Send) {
      piece.kind = Kind::Link;
      piece.to = program_.transfers[stop.span->transfer.index()].to;
    }
    return piece;
  }

  // Between a transfer and what it waited for is its time in the queue.
  void add_gap(std::vector<PathPiece>& path, const Stop& stop,
               Seconds reached) const {
    if (stop.span->start.value() <= reached.value() + slack_) return;
    PathPiece gap = path.back();
    if (gap.kind != Kind::Link) gap.kind = Kind::Other;
    gap.end = stop.span->start;
    gap.start = reached;
    path.push_back(gap);
  }

  const Program& program_;
  const Timeline& timeline_;
  const double slack_;
  std::vector<std::vector<const Span*>> own_;
  std::vector<std::vector<Action>> reads_;  // of own spans; empty: not known
  std::map<MessageKey, const Span*> messages_;
  std::map<MessageKey, int> sent_, posted_;  // own span before; -1 for none
  std::map<std::pair<WorkerId, std::int32_t>, std::vector<const Span*>>
      reduces_;  // by worker and minibatch
};

}  // namespace

std::vector<PathPiece> critical_path(const Program& program,
                                     const Timeline& timeline) {
  return Walk(program, timeline).run();
}

}  // namespace pipewright
