// with_comms() of schedule_csv.h: where sends and receives go in the CSV of
// torch.distributed.pipelining. Our own programs are lowered by lower.h; this
// is for exchange only.

#include <algorithm>

#include "pipewright/base/check.h"
#include "pipewright/plan/schedule/schedule_csv.h"

namespace pipewright {
namespace {

bool is_input_gradient(CsvKind kind) {
  return kind == CsvKind::Backward || kind == CsvKind::BackwardInput;
}

// The row as it will be run: no idle cells, and I with its W as one B.
std::vector<CsvCell> compacted(const std::vector<CsvCell>& row) {
  std::vector<CsvCell> result;
  for (const CsvCell& cell : row) {
    if (cell.empty()) continue;
    const bool closes =
        !result.empty() && cell.size() == 1 && result.back().size() == 1 &&
        cell[0].kind == CsvKind::BackwardWeight &&
        result.back()[0] == CsvAction{cell[0].stage, CsvKind::BackwardInput,
                                      cell[0].microbatch};
    if (closes)
      result.back()[0].kind = CsvKind::Backward;
    else
      result.push_back(cell);
  }
  return result;
}

// Runs all rows in turns, one cell a turn. What a cell makes for another worker
// is sent at once and received at once, so that receives stand in each row in
// the order in which the values come into being.
class Exchange {
 public:
  Exchange(const Schedule& schedule, const CsvGrid& compute)
      : num_stages_(schedule.num_stages()),
        num_microbatches_(schedule.num_microbatches()),
        rows_(compute.size()),
        next_(compute.size(), 0),
        result_(compute.size()) {
    const std::size_t cells = index(StageId(num_stages_), MicrobatchId(0));
    worker_of_.assign(cells, 0);
    there_.assign(2 * cells, false);
    for (std::size_t w = 0; w < compute.size(); ++w) {
      rows_[w] = compacted(compute[w]);
      for (const CsvCell& cell : rows_[w])
        for (const CsvAction& a : cell)
          worker_of_[index(a.stage, a.microbatch)] = w;
    }
  }

  CsvGrid run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < rows_.size(); ++w) {
        if (next_[w] == rows_[w].size() || !is_ready(rows_[w][next_[w]]))
          continue;
        take(w, rows_[w][next_[w]++]);
        moved = true;
      }
    }
    for (std::size_t w = 0; w < rows_.size(); ++w)
      PIPEWRIGHT_CHECK(next_[w] == rows_[w].size(), "a schedule that stops");
    return std::move(result_);
  }

 private:
  std::size_t index(StageId stage, MicrobatchId microbatch) const {
    return stage.index() * num_microbatches_ + microbatch.index();
  }
  std::size_t gradient_index(StageId stage, MicrobatchId microbatch) const {
    return there_.size() / 2 + index(stage, microbatch);
  }

  bool is_ready(const CsvCell& cell) const {
    return std::all_of(cell.begin(), cell.end(), [&](const CsvAction& a) {
      if (a.kind == CsvKind::Forward)
        return a.stage.value == 0 ||
               there_[index(StageId(a.stage.value - 1), a.microbatch)];
      if (is_input_gradient(a.kind))
        return a.stage.value == num_stages_ - 1 ||
               there_[gradient_index(StageId(a.stage.value + 1), a.microbatch)];
      return true;
    });
  }

  void take(std::size_t worker, const CsvCell& cell) {
    result_[worker].push_back(cell);
    for (const CsvAction& a : cell) {
      if (a.kind == CsvKind::Forward) {
        there_[index(a.stage, a.microbatch)] = true;
        hand_over(worker, a, StageId(a.stage.value + 1), CsvKind::SendForward,
                  CsvKind::ReceiveForward);
      } else if (is_input_gradient(a.kind)) {
        there_[gradient_index(a.stage, a.microbatch)] = true;
        hand_over(worker, a, StageId(a.stage.value - 1), CsvKind::SendBackward,
                  CsvKind::ReceiveBackward);
      }
    }
  }

  void hand_over(std::size_t worker, const CsvAction& a, StageId to,
                 CsvKind send, CsvKind receive) {
    if (to.is_none() || to.value >= num_stages_) return;
    const std::size_t receiver = worker_of_[index(to, a.microbatch)];
    if (receiver == worker) return;
    result_[worker].push_back({{a.stage, send, a.microbatch}});
    result_[receiver].push_back({{to, receive, a.microbatch}});
  }

  int num_stages_, num_microbatches_;
  CsvGrid rows_;
  std::vector<std::size_t> next_;
  CsvGrid result_;
  std::vector<std::size_t> worker_of_;
  std::vector<bool> there_;  // forwards, then input gradients
};

}  // namespace

Result<CsvGrid> with_comms(const CsvGrid& compute, const std::string& file) {
  std::int64_t forwards = 0;
  for (const auto& row : compute)
    for (const CsvCell& cell : row)
      for (const CsvAction& action : cell) {
        if (action.kind > CsvKind::BackwardWeight)
          return malformed(
              to_text(CsvCell{action}) +
                  " is not a compute action: transfers are added here",
              file);
        forwards += action.kind == CsvKind::Forward;
      }
  PIPEWRIGHT_TRY(const Schedule schedule, schedule_of(compute, file));
  if (forwards !=
      std::int64_t{schedule.num_stages()} * schedule.num_microbatches())
    return malformed("several workers run the same microbatch of a stage", file,
                     "the CSV has no replicas");
  return Exchange(schedule, compute).run();
}

}  // namespace pipewright
