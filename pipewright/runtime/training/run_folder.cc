#include "pipewright/runtime/training/run_folder.h"

#include <algorithm>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/checkpoint/checkpoint.h"
#include "pipewright/timeline/chrome_trace.h"

namespace pipewright {

namespace fs = std::filesystem;

namespace {

Json to_json(const Evaluation& evaluation) {
  Json json = Json::object();
  json.set("loss", evaluation.loss);
  if (evaluation.accuracy) json.set("accuracy", *evaluation.accuracy);
  json.set("samples", evaluation.samples);
  json.set("seconds", evaluation.seconds.value());
  return json;
}

// Whether a checkpoint fits on the disk, as far as the file system says.
Result<void> check_space(const fs::path& run, Bytes checkpoint) {
  std::error_code failed;
  const fs::space_info space = fs::space(run, failed);
  if (failed) return {};  // unknown
  const Bytes free(static_cast<std::int64_t>(
      std::min<std::uintmax_t>(space.available, std::uintmax_t{1} << 62)));
  if (checkpoint <= free) return {};
  return Error{ErrorCode::CannotWrite,
               "a checkpoint takes " + to_text(checkpoint) + ", but only " +
                   to_text(free) + " are free",
               run.string(),
               "make room, or choose another --run",
               {}};
}

}  // namespace

Result<RunFolder> RunFolder::open(const TrainRequest& request, Bytes checkpoint,
                                  LeaseOptions lease) {
  RunFolder folder;
  folder.path_ = request.run;
  std::error_code failed;
  fs::create_directories(request.run, failed);
  if (failed)
    return Error{ErrorCode::CannotCreate,
                 failed.message(),
                 request.run.string(),
                 "choose another --run",
                 {}};
  if (auto fits = check_space(request.run, checkpoint); !fits)
    return fits.error();
  PIPEWRIGHT_TRY(folder.lease_, RunLease::take(request.run, std::move(lease)));
  if (!request.resume && has_checkpoint(request.run))
    return bad_configuration(request.run.string() + " already has a run",
                             "continue with --resume, or choose another --run");
  if (auto written = write_file(request.run / "plan.json",
                                pipewright::to_json(request.plan).to_text());
      !written)
    return written.error();
  const fs::path metrics = request.run / "metrics.jsonl";
  folder.metrics_.open(metrics,
                       request.resume ? std::ios::app : std::ios::trunc);
  if (!folder.metrics_)
    return Error{
        ErrorCode::CannotCreate, "cannot be opened", metrics.string(), "", {}};
  folder.metrics_size_ = fs::file_size(metrics, failed);
  return folder;
}

// Lines are in the order of their steps. One that cannot be read was cut off
// when a process died.
Result<void> RunFolder::go_back_to(std::int64_t step) {
  const fs::path file = path_ / "metrics.jsonl";
  std::ifstream lines(file, std::ios::binary);
  std::uintmax_t end = 0;
  for (std::string line; std::getline(lines, line);) {
    const Result<Json> json = parse_json(line, file.string());
    const Json* found = json ? json->find("step") : nullptr;
    const auto* at =
        found ? std::get_if<std::int64_t>(&found->value()) : nullptr;
    if (lines.eof() || at == nullptr || *at > step) break;
    end += line.size() + 1;
  }
  if (end == metrics_size_) return {};
  std::error_code failed;
  fs::resize_file(file, end, failed);
  if (failed)
    return Error{
        ErrorCode::CannotWrite, failed.message(), file.string(), "", {}};
  metrics_size_ = end;
  return {};
}

Result<void> RunFolder::add(const StepReport& step) {
  Json line = Json::object();
  line.set("step", step.step).set("loss", step.loss).set("rate", step.rate);
  line.set("step_seconds", step.seconds.value());
  line.set("samples_per_second", step.samples_per_second);
  if (step.bubble) line.set("bubble", *step.bubble);
  return add_line(line);
}

Result<void> RunFolder::add(const Evaluation& evaluation) {
  Json line = Json::object();
  line.set("step", evaluation.step).set("evaluation", to_json(evaluation));
  return add_line(line);
}

Result<void> RunFolder::add_line(const Json& line) {
  std::string text = line.to_line();
  if (text.empty() || text.back() != '\n') text += '\n';
  metrics_ << text << std::flush;
  if (metrics_) {
    metrics_size_ += text.size();
    return {};
  }
  // Removes the part of the line that was written: the next line may succeed.
  const fs::path file = path_ / "metrics.jsonl";
  std::error_code ignored;
  metrics_.close();
  fs::resize_file(file, metrics_size_, ignored);
  metrics_.clear();
  metrics_.open(file, std::ios::app);
  return Error{ErrorCode::CannotWrite,
               "cannot be written",
               (path_ / "metrics.jsonl").string(),
               "is the disk full?",
               {}};
}

Result<void> RunFolder::finish(const Program& program,
                               const TrainReport& report) const {
  if (auto written = write_file(path_ / "trace.json",
                                chrome_trace(program, report.timeline));
      !written)
    return written;
  Json json = Json::object();
  json.set("first_step", report.first_step).set("steps", report.steps);
  json.set("first_loss", report.first_loss).set("loss", report.last_loss);
  json.set("step_seconds", report.step_seconds.value());
  json.set("bubble", report.timeline.bubble);
  json.set("memory_bytes", report.memory.value());
  if (report.evaluation) json.set("evaluation", to_json(*report.evaluation));
  json.set("checkpoint", report.checkpoint).set("signal", report.signal);
  return write_file(path_ / "summary.json", json.to_text());
}

}  // namespace pipewright
