// Whether a run goes on, has ended, or has failed, by the files of its folder.

#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace pipewright::cli {

enum class RunPhase {
  Running,  // a process holds the folder's lease
  Ended,
  Stopped,  // by a signal; it was saved
  Failed,   // a failure was written
  Broken,   // none of these: its process is gone
};

struct RunState {
  RunPhase phase = RunPhase::Broken;
  std::string text;  // a sentence
  bool operator==(const RunState&) const = default;
};

const char* phase_name(RunPhase phase);  // "running"

// Files that cannot be read count as absent. `last_step` is the last one with a
// line in metrics.jsonl.
RunState run_state(const std::filesystem::path& folder, std::int64_t last_step);

}  // namespace pipewright::cli
