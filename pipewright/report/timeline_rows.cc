#include "pipewright/report/timeline_rows.h"

#include <set>

namespace pipewright {
namespace {

constexpr std::size_t kMaxShownPieces = 120'000;  // of the critical path

Json path_json(const std::vector<PathPiece>& path, const TickClock& clock) {
  constexpr char kLetters[] = {'C', 'L', 'R', 'O'};
  std::string kinds;
  Json::Array workers, to, stages, starts, ends;
  for (std::size_t i : spread_indices(path.size(), kMaxShownPieces)) {
    const PathPiece& piece = path[i];
    kinds += kLetters[static_cast<int>(piece.kind)];
    workers.push_back(piece.worker.value);
    to.push_back(piece.to.value);
    stages.push_back(piece.stage.value);
    starts.push_back(clock.ticks(piece.start));
    ends.push_back(clock.ticks(piece.end));
  }
  Json json = Json::object();
  json.set("kinds", std::move(kinds));
  json.set("workers", std::move(workers));
  json.set("to", std::move(to));
  json.set("stages", std::move(stages));
  json.set("starts", std::move(starts));
  json.set("ends", std::move(ends));
  return json;
}

}  // namespace

void SpanRow::add(char kind, StageId stage, std::int64_t microbatch,
                  Seconds start, Seconds end, const TickClock& clock) {
  kinds_ += kind;
  stages_.push_back(stage.value);
  microbatches_.push_back(microbatch);
  starts_.push_back(clock.ticks(start));
  ends_.push_back(clock.ticks(end));
}

Json SpanRow::take_json() {
  Json::Array microbatches = std::exchange(microbatches_, {});
  Json json = take_json_without_microbatches();
  json.set("microbatches", std::move(microbatches));
  return json;
}

Json SpanRow::take_json_without_microbatches() {
  Json json = Json::object();
  json.set("kinds", std::exchange(kinds_, {}));
  json.set("stages", std::exchange(stages_, {}));
  json.set("starts", std::exchange(starts_, {}));
  json.set("ends", std::exchange(ends_, {}));
  microbatches_.clear();
  return json;
}

Json link_json(const WorkerPair& link, const std::vector<PageMessage>& messages,
               const TickClock& clock) {
  std::string kinds;
  Json::Array keys, senders, readers, starts, ends;
  std::vector<std::int64_t> sizes;
  for (const PageMessage& message : messages) {
    kinds += message.kind;
    keys.push_back(message.key);
    senders.push_back(message.sent_by);
    readers.push_back(message.read_by);
    sizes.push_back(message.bytes.value());
    starts.push_back(clock.ticks(message.start));
    ends.push_back(clock.ticks(message.end));
  }
  if (std::set(sizes.begin(), sizes.end()).size() == 1) sizes.resize(1);
  Json json = Json::object();
  json.set("from", link.first.value);
  json.set("to", link.second.value);
  json.set("kinds", std::move(kinds));
  json.set("keys", std::move(keys));
  json.set("sent_by", std::move(senders));
  json.set("read_by", std::move(readers));
  // One number if all are equal.
  json.set("bytes", Json::Array(sizes.begin(), sizes.end()));
  json.set("starts", std::move(starts));
  json.set("ends", std::move(ends));
  return json;
}

Json to_json(PageTimeline timeline) {
  const TickClock clock(timeline.duration);
  Json json = Json::object();
  json.set("tick_seconds", clock.tick().value());
  json.set("duration_seconds", timeline.duration.value());
  json.set("microbatches", timeline.num_microbatches);
  json.set("minibatches", timeline.num_minibatches);
  json.set("thinned", std::move(timeline.thinned));
  json.set("workers", std::move(timeline.workers));
  json.set("links", std::move(timeline.links));
  json.set("critical_path", path_json(timeline.path, clock));
  return json;
}

}  // namespace pipewright
