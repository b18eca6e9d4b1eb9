#include "pipewright/plan/runs_file.h"

#include "pipewright/base/json_cursor.h"
#include "pipewright/profile/profile.h"

namespace pipewright {
namespace {

RunRecord read_run(JsonCursor at) {
  RunRecord run;
  run.plan = at.at("plan").text();
  if (JsonCursor profile = at.find("profile"); profile.exists())
    run.profile = profile.text();
  if (JsonCursor cluster = at.find("cluster"); cluster.exists())
    run.cluster = cluster.text();
  run.step = Seconds(at.at("step_seconds").real(1e-9, kMaxTime.value()));
  if (JsonCursor memory = at.find("memory_bytes"); memory.exists())
    run.memory = Bytes(memory.integer(1, kMaxSize.value()));
  at.refuse_other_keys();
  return run;
}

}  // namespace

Result<std::vector<RunRecord>> parse_runs(std::string_view text,
                                          const std::string& file) {
  return read_json(text, file, [](JsonCursor& root) {
    root.require_format("pipewright/runs", 1);
    std::vector<RunRecord> runs;
    JsonCursor list = root.at("runs");
    for (const JsonCursor& run : list.elements()) runs.push_back(read_run(run));
    if (list.exists() && runs.empty()) list.fail("no runs");
    root.refuse_other_keys();
    return runs;
  });
}

}  // namespace pipewright
