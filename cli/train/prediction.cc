#include "cli/train/prediction.h"

#include <algorithm>
#include <cmath>

#include "cli/command.h"
#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/profile/analytic.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/timeline/stage_time.h"

namespace pipewright::cli {
namespace {

// One line of the comparison. The error is in percent of the measured value; of
// a share it is in points, since a percentage of nearly nothing says nothing.
struct Row {
  std::string name, key;
  double predicted = 0, measured = 0;
  std::string predicted_text, measured_text;
  bool is_share = false;
  bool is_predicted = true;

  double error() const {
    if (is_share) return (predicted - measured) * 100;
    return measured == 0 ? 0 : (predicted - measured) / measured * 100;
  }
  std::string error_text() const {
    if (!is_predicted || (measured == 0 && !is_share)) return "";
    return to_text(std::round(error() * 10) / 10 + 0.0) +
           (is_share ? " points" : " %");
  }
};

Row row(const std::string& name, const std::string& key, Seconds predicted,
        Seconds measured) {
  return {name,
          key,
          predicted.value(),
          measured.value(),
          to_text(predicted),
          to_text(measured)};
}

Row row(const std::string& name, const std::string& key, Bytes predicted,
        Bytes measured) {
  return {name,
          key,
          static_cast<double>(predicted.value()),
          static_cast<double>(measured.value()),
          to_text(predicted),
          to_text(measured)};
}

Seconds busy_per_step(const Timeline& timeline, std::size_t worker) {
  return timeline.workers[worker].busy / std::max(timeline.minibatches, 1);
}

std::vector<Row> rows(const Timeline& predicted, const TrainReport& measured) {
  std::vector<Row> all;
  all.push_back(row("step", "step_seconds", predicted.step_seconds,
                    measured.step_seconds));
  const Timeline& seen = measured.timeline;
  for (std::size_t w = 0; w < predicted.workers.size(); ++w) {
    if (w >= seen.workers.size()) continue;
    const std::string number = std::to_string(w);
    all.push_back(row("busy, worker " + number, "busy_seconds_" + number,
                      busy_per_step(predicted, w), busy_per_step(seen, w)));
  }
  const bool are_the_same =
      predicted.num_stages == static_cast<int>(predicted.workers.size());
  for (int s = 0; s < predicted.num_stages && !are_the_same; ++s) {
    const std::string number = std::to_string(s);
    all.push_back(row("busy, stage " + number, "stage_seconds_" + number,
                      busy_per_step(predicted, StageId(s)),
                      busy_per_step(seen, StageId(s))));
  }
  all.push_back({"bubble", "bubble", predicted.bubble, seen.bubble,
                 percent(predicted.bubble), percent(seen.bubble), true});
  Bytes in_workers;
  for (std::size_t w = 0; w < predicted.workers.size(); ++w) {
    if (w >= seen.workers.size()) continue;
    const Bytes used = seen.workers[w].peak.total();
    if (used == Bytes(0)) continue;  // not measured
    in_workers += used;
    const std::string number = std::to_string(w);
    all.push_back(row("memory, worker " + number, "memory_bytes_" + number,
                      predicted.workers[w].peak.total(), used));
  }
  if (measured.memory > in_workers) {
    Row beside = row("memory, beside the workers", "memory_bytes_beside",
                     Bytes(0), measured.memory - in_workers);
    beside.is_predicted = false;
    beside.predicted_text = "";
    all.push_back(std::move(beside));
  }
  return all;
}

// What of the predicted memory is not of programs; "" where nothing is.
std::string base_memory_line(const Timeline& predicted) {
  Bytes least = Bytes::max(), most;
  for (const WorkerSummary& worker : predicted.workers) {
    least = std::min(least, worker.peak.base);
    most = std::max(most, worker.peak.base);
  }
  if (most == Bytes(0)) return "";
  return "memory, worker: of programs and base memory, which is " +
         to_text(least) + (least < most ? " to " + to_text(most) : "") +
         " per worker\n";
}

// The first difference, if the profile is of another model.
std::string difference(const Profile& profile, const Profile& model) {
  if (profile.num_layers() != model.num_layers())
    return "it has " + std::to_string(profile.num_layers()) +
           " layers, the model has " + std::to_string(model.num_layers());
  for (int l = 0; l < model.num_layers(); ++l) {
    const ProfileLayer &here = profile.layers[l], &there = model.layers[l];
    if (here.name != there.name || here.kind != there.kind)
      return "layer " + std::to_string(l) + " is " + here.kind + " \"" +
             here.name + "\", the model's is " + there.kind + " \"" +
             there.name + "\"";
    const Bytes bytes = profile.parameter_bytes(LayerId(l)),
                wanted = model.parameter_bytes(LayerId(l));
    if (bytes != wanted)
      return "layer \"" + here.name + "\" has " + to_text(bytes) +
             " of parameters, the model's has " + to_text(wanted);
  }
  return "";
}

}  // namespace

Result<Profile> profile_of(const std::string& file, const Model& model,
                           const Program& program, const std::string& device) {
  PIPEWRIGHT_TRY(const std::string text, read_file(file));
  PIPEWRIGHT_TRY(Profile profile, parse_profile(text, file));
  const auto refused = [&file](const std::string& message) {
    Error error = bad_configuration(
        message, "leave --profile out: the layers are then measured here");
    error.where = file;
    return error;
  };
  if (const std::string found = difference(profile, profile_graph(model));
      !found.empty())
    return refused("is not a profile of this plan's model: " + found);
  for (const Operation& operation : program.operations)
    if (auto times = times_at(profile, device, operation.num_samples(),
                              Outside::Extrapolate);
        operation.num_samples() > 0 && !times)
      return refused(times.error().message);
  return profile;
}

Result<Timeline> predicted_timeline(const Program& program,
                                    const Profile& profile,
                                    const std::string& device,
                                    const InProcessChannelCosts& channel,
                                    const RunOverheads& overheads) {
  PIPEWRIGHT_TRY(const Costs costs,
                 costs_on(device, program, profile, channel, overheads));
  return simulate(program, costs);
}

std::string comparison_text(const Timeline& predicted,
                            const TrainReport& measured, int width) {
  using Align = TextTable::Align;
  TextTable table({{"", Align::Left},
                   {"predicted", Align::Right},
                   {"measured", Align::Right},
                   {"error", Align::Right}});
  for (const Row& line : rows(predicted, measured))
    table.add_row({line.name, line.predicted_text, line.measured_text,
                   line.error_text()});
  return table.to_text(width) +
         "beside the workers: code and threads of LibTorch, samples that are "
         "loaded ahead,\ncopies for checkpoints, memory kept for reuse\n" +
         base_memory_line(predicted);
}

Json comparison_json(const Timeline& predicted, const TrainReport& measured) {
  Json json = Json::object();
  for (const Row& line : rows(predicted, measured)) {
    Json item = Json::object();
    if (line.is_predicted) item.set("predicted", line.predicted);
    item.set("measured", line.measured);
    if (line.is_predicted)
      item.set(line.is_share ? "error_points" : "error_percent", line.error());
    json.set(line.key, std::move(item));
  }
  return json;
}

}  // namespace pipewright::cli
