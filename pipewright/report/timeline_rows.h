// The timeline of a page as JSON: rows of spans and messages by columns, in
// ticks. Both write it: timeline_part() of a simulated plan, and `report
// RUN_FOLDER` of a trace.

#pragma once

#include <string>
#include <utility>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/json.h"
#include "pipewright/report/report_parts.h"
#include "pipewright/timeline/critical_path.h"

namespace pipewright {

using WorkerPair = std::pair<WorkerId, WorkerId>;

// Actions of one worker.
class SpanRow {
 public:
  // `kind` is a letter of FBIWRSA, or + for several of different kinds.
  void add(char kind, StageId stage, std::int64_t microbatch, Seconds start,
           Seconds end, const TickClock& clock);
  // The row is empty afterwards.
  Json take_json();
  Json take_json_without_microbatches();

 private:
  std::string kinds_;
  Json::Array stages_, microbatches_, starts_, ends_;
};

// A message from one worker to another.
struct PageMessage {
  char kind = 'A';       // A activation, G gradient, K kept, V version
  std::int32_t key = 0;  // its microbatch or version
  // The sender's last span before it and its reader's, by number; -1: unknown.
  std::int32_t sent_by = -1, read_by = -1;
  Bytes bytes;
  Seconds start, end;
};

// The messages of one link, in the order of time.
Json link_json(const WorkerPair& link, const std::vector<PageMessage>& messages,
               const TickClock& clock);

struct PageTimeline {
  Seconds duration;
  int num_microbatches = 0;
  int num_minibatches = 1;
  std::string thinned;  // what was left out, in words
  Json workers = Json::array(), links = Json::array();
  std::vector<PathPiece> path;
};

Json to_json(PageTimeline timeline);

}  // namespace pipewright
