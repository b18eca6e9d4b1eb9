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

// A trace is written again after this many times the time that it took.
constexpr int kTracePause = 200;

Json to_json(const Evaluation& evaluation) {
  Json json = Json::object();
  json.set("loss", evaluation.loss);
  if (evaluation.accuracy) json.set("accuracy", *evaluation.accuracy);
  json.set("samples", evaluation.samples);
  json.set("seconds", evaluation.seconds.value());
  return json;
}

Json numbers(const std::vector<double>& list) {
  Json json = Json::array();
  for (double number : list) json.push(number);
  return json;
}

Json to_json(const PieceReport& piece) {
  Json memory = Json::array();
  for (Bytes bytes : piece.memory) memory.push(bytes.value());
  Json json = Json::object();
  json.set("step", piece.step).set("steps", piece.steps);
  json.set("busy", numbers(piece.busy));
  json.set("memory_bytes", std::move(memory));
  json.set("rates", numbers(piece.rates));
  json.set("staleness", numbers(piece.staleness));
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
  PIPEWRIGHT_TRY(std::unique_ptr<RunLease> taken,
                 RunLease::take(request.run, std::move(lease)));
  if (request.resume)
    if (auto saved = find_checkpoint(request.run); !saved) return saved.error();
  if (!request.resume && has_checkpoint(request.run))
    return bad_configuration(request.run.string() + " already has a run",
                             "continue with --resume, or choose another --run");
  if (auto written = write_file(request.run / "plan.json",
                                pipewright::to_json(request.plan).to_text());
      !written)
    return written.error();
  PIPEWRIGHT_TRY(LineFile metrics,
                 LineFile::open(request.run / "metrics.jsonl", request.resume));
  PIPEWRIGHT_TRY(LineFile pieces,
                 LineFile::open(request.run / "pieces.jsonl", request.resume));
  RunFolder folder(std::move(metrics), std::move(pieces));
  folder.path_ = request.run;
  folder.lease_ = std::move(taken);
  return folder;
}

Result<void> RunFolder::go_back_to(std::int64_t step) {
  static_cast<void>(pieces_.go_back_to(step));
  return metrics_.go_back_to(step);
}

Result<void> RunFolder::add(const StepReport& step) {
  Json line = Json::object();
  line.set("step", step.step).set("loss", step.loss).set("rate", step.rate);
  line.set("step_seconds", step.seconds.value());
  line.set("samples_per_second", step.samples_per_second);
  if (step.bubble) line.set("bubble", *step.bubble);
  return metrics_.add(line);
}

Result<void> RunFolder::add(const Evaluation& evaluation) {
  Json line = Json::object();
  line.set("step", evaluation.step).set("evaluation", to_json(evaluation));
  return metrics_.add(line);
}

Result<void> RunFolder::add_skipped(std::int64_t step) {
  return metrics_.add(Json::object().set("step", step).set("skipped", true));
}

void RunFolder::add(const PieceReport& piece, const Program& program,
                    const Timeline& timeline) {
  static_cast<void>(pieces_.add(to_json(piece)));
  const Clock::time_point start = Clock::now();
  if (start < next_trace_) return;
  static_cast<void>(
      write_file(path_ / "trace.json", chrome_trace(program, timeline)));
  const Clock::time_point end = Clock::now();
  next_trace_ = end + kTracePause * (end - start);
}

void RunFolder::add_warning(std::int64_t step, const std::string& text) {
  static_cast<void>(pieces_.add(
      Json::object().set("step", step).set("warning", printable(text))));
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
  json.set("skipped", report.skipped).set("repeated", report.repeated);
  json.set("step_seconds", report.step_seconds.value());
  json.set("bubble", report.timeline.bubble);
  json.set("memory_bytes", report.memory.value());
  if (report.evaluation) json.set("evaluation", to_json(*report.evaluation));
  json.set("checkpoint", report.checkpoint).set("signal", report.signal);
  return write_file(path_ / "summary.json", json.to_text());
}

}  // namespace pipewright
