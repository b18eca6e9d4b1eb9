// Which worker did which action from when to when, and the memory it held.
// The simulator predicts a Timeline; the runtime measures one.

#pragma once

#include <string>
#include <vector>

#include "pipewright/base/ids.h"
#include "pipewright/base/units.h"
#include "pipewright/plan/memory/memory_use.h"
#include "pipewright/plan/program/program.h"

namespace pipewright {

// One action in time. Compute, Reduce and Step occupy the worker; a Send span
// is the time that a message is on the link.
struct Span {
  WorkerId worker;
  ActionKind kind = ActionKind::Forward;
  StageId stage;                              // none for transfers
  MicrobatchId microbatch = MicrobatchId(0);  // from the start of the run
  std::int32_t version = 0;
  TransferId transfer;  // for Send
  Seconds start, end;
};

struct MemoryPoint {
  Seconds time;
  Bytes bytes;
  Bytes buffers = {};  // of these; 0 where they are not told apart
};

struct WorkerSummary {
  DeviceId device;
  Seconds busy;              // computing
  Seconds waiting_for_link;  // idle while a message it needs is on its way
  MemoryUse peak;
  Seconds peak_at;
};

struct LinkSummary {
  WorkerId from, to;
  Bytes bytes;
  Seconds busy;
};

struct Timeline {
  int num_stages = 0;
  int num_microbatches = 1;
  int minibatches = 1;
  Seconds duration;      // of the whole run
  Seconds step_seconds;  // per minibatch: steady-state period if asynchronous
  double bubble = 0;     // share of the workers' time not spent computing
  std::vector<WorkerSummary> workers;
  std::vector<LinkSummary> links;
  std::vector<std::vector<Span>> spans;          // per worker; may be empty
  std::vector<std::vector<MemoryPoint>> memory;  // per worker; may be empty
};

}  // namespace pipewright
