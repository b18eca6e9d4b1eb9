// A step of all workers as one piece of work: once each of them has recorded
// its actions, those up to the first Reduce or Step are joined, in the order
// that the program gives them, and given to the devices at once. Then a message
// is a line of a graph, and costs nobody a call.
//
// Possible for workers of one process on one GPU whose recordings read nothing
// of each other but messages in place, and have not too many kernels. The bits
// are those of the actions one by one: they are the same recordings.
//
// Workers meet in agree() until it is decided: recordings read each other's
// memory, so all of them have recorded, or none. Every call is made by all
// workers, each in its own thread.

#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/event.h"
#include "pipewright/runtime/devices/worker_device.h"
#include "pipewright/runtime/execution/recorded_actions.h"

namespace pipewright {

class WholeStep {
 public:
  // Whether workers of the program on these devices may be joined.
  static bool is_possible(const Program& program,
                          std::span<WorkerDevice* const> devices);

  // By worker; all outlive this object.
  WholeStep(const Program& program, std::vector<WorkerDevice*> devices,
            std::vector<const RecordedActions*> recorded);

  // Actions of the worker's body that are part of it.
  std::size_t num_actions(WorkerId worker) const {
    return num_actions_[worker.index()];
  }

  // Before the threads of a run start.
  void begin_run();
  // One of them has failed: the others get Cancelled.
  void cancel();

  // Whether agree() is called at the start of a step.
  bool is_to_agree(bool is_first_of_run) const {
    return !is_off_ && (is_first_of_run || !is_decided_);
  }
  // Waits for all. False: their phases differ, and all have to start over.
  bool agree(WorkerId worker, RecordedActions::Phase phase);
  // Some worker does not record, so messages are not lent.
  bool is_off() const { return is_off_; }
  // Whether steps are given as a whole, and why not, once it is decided.
  bool is_joined() const { return plain_ != nullptr; }
  const std::string& why_not() const { return why_not_; }

  // Gives a step to the devices, after what each was given before. `times` are
  // those of the starts and ends of the worker's compute actions, in a step
  // that is timed; all workers say the same.
  void run(WorkerId worker, bool is_timed, std::span<Seconds* const> times);

 private:
  std::unique_ptr<JointRecording> joined(bool is_timed) const;
  void decide();
  void join();
  // Returns when all have called it; the last one does `work` before.
  template <class Work>
  void meet(Work work);

  const Program& program_;
  const std::vector<WorkerDevice*> devices_;
  const std::vector<const RecordedActions*> recorded_;
  std::vector<std::size_t> num_actions_;

  std::mutex mutex_;
  Event met_;
  std::size_t num_here_ = 0, num_meetings_ = 0;
  bool is_cancelled_ = false;

  // Written by the last to arrive, while all others wait.
  bool is_off_ = false, is_decided_ = false, is_agreed_ = false;
  std::vector<RecordedActions::Phase> phases_;
  std::vector<MomentPointer> before_;
  MomentPointer end_;
  std::unique_ptr<JointRecording> plain_, timed_;
  std::string why_not_;
};

}  // namespace pipewright
