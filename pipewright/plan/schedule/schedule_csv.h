// The CSV of torch.distributed.pipelining: one line per worker, one cell per
// time step, read and written so that schedules can be exchanged with it.
//
//   0F0,0F1,,0B0,0B1        STAGE KIND MICROBATCH; an empty cell is idle
//   ,1F0,1B0,1F1,1B1
//   (0F1;1B0)OVERLAP_F_B    two actions at once
//   0SEND_F0 1RECV_F0       transfers, in files with communication
//
// KIND is F, B (both gradients), I (input gradient), W (weight gradient),
// SEND_F, RECV_F, SEND_B, RECV_B; UNSHARD, RESHARD and REDUCE_GRAD, which
// belong to sharded weights, are read and kept. Source of the form:
// PyTorch 2.13, torch/distributed/pipelining/schedules.py.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/plan/schedule/schedule.h"

namespace pipewright {

enum class CsvKind : std::uint8_t {
  Forward,
  Backward,
  BackwardInput,
  BackwardWeight,
  SendForward,
  ReceiveForward,
  SendBackward,
  ReceiveBackward,
  Unshard,
  Reshard,
  ReduceGradient,
};

struct CsvAction {
  StageId stage = StageId(0);
  CsvKind kind = CsvKind::Forward;
  MicrobatchId microbatch;  // none: not written, as in 1UNSHARD

  auto operator<=>(const CsvAction&) const = default;
};

using CsvCell = std::vector<CsvAction>;  // none: idle; two: OVERLAP_F_B
using CsvGrid = std::vector<std::vector<CsvCell>>;  // one row per worker

std::string to_text(const CsvCell& cell);

// Fails with MalformedInput, naming line and cell.
Result<CsvGrid> parse_csv(std::string_view text, const std::string& file);
std::string to_csv(const CsvGrid& grid);

// The compute actions, as a schedule; transfers and sharding follow from the
// plan and are left out. As the CSV may mix B with I and W on one stage, and a
// Schedule may not, B of such a stage is read as I and W.
Result<Schedule> schedule_of(const CsvGrid& grid, const std::string& file);

// Without idle cells. Fails with BadConfiguration for what the CSV cannot say:
// a schedule that does not drain, recomputation, other pairs than a forward
// with a backward, a stage on several workers.
Result<CsvGrid> grid_of(const Schedule& schedule);

// A compute-only grid with its transfers, as that library runs it: idle cells
// dropped, an I followed by its W made one B, a send right after what it
// sends, and the receive in the receiver's row as soon as the send is there.
Result<CsvGrid> with_comms(const CsvGrid& compute, const std::string& file);

}  // namespace pipewright
