// Reads a trace that Pipewright wrote (chrome_trace.h): the measured timeline
// of a run folder, and the predicted one beside it.

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/json.h"
#include "pipewright/base/result.h"
#include "pipewright/base/units.h"

namespace pipewright::cli {

// An action or a message of a trace.
struct TraceSpan {
  WorkerId worker, to;  // `to`: of a message
  char kind = 'F';      // F B I W R S; A all-reduce; > message
  StageId stage;
  int microbatch = 0;  // of a message: microbatch or version
  Bytes bytes;
  Seconds start, end;
};

struct TraceFile {
  int num_workers = 0;
  std::vector<TraceSpan> spans;
  std::vector<Bytes> memory_peaks;  // per worker; fewer where none is known
};

// Fails with MalformedInput.
Result<TraceFile> parse_trace(std::string_view text, const std::string& file);

// One minibatch of a trace, its first action at time 0.
struct TracedStep {
  int minibatch = 0;
  Seconds duration;  // from its first action to its last step
  Seconds step;      // since the step before; `duration` if there is none
  std::vector<TraceSpan> spans;  // microbatches count from the minibatch's
};

// The last minibatch that has all its steps; none if there is none.
std::optional<TracedStep> last_step(const TraceFile& trace,
                                    int num_microbatches);

// In the form of a report's "timeline".
Json timeline_json(const TracedStep& step, int num_workers,
                   int num_microbatches);

}  // namespace pipewright::cli
