#include "cli/train/prediction.h"

#include <algorithm>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/simulate/simulate.h"

namespace pipewright::cli {
namespace {

// One line of the comparison; the error is in percent of the measured value.
struct Row {
  std::string name, key;
  double predicted = 0, measured = 0;
  std::string predicted_text, measured_text;

  double error() const {
    return measured == 0 ? 0 : (predicted - measured) / measured * 100;
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

// What all replicas of a stage spend on it.
Seconds busy_per_step(const Timeline& timeline, StageId stage) {
  Seconds busy;
  for (const auto& worker : timeline.spans)
    for (const Span& span : worker)
      if (span.stage == stage && span.kind != ActionKind::Reduce)
        busy += span.end - span.start;
  return busy / std::max(timeline.minibatches, 1);
}

std::vector<Row> rows(const Timeline& predicted, const TrainReport& measured) {
  std::vector<Row> all;
  all.push_back(row("step", "step_seconds", predicted.step_seconds,
                    measured.step_seconds));
  Bytes memory;
  const Timeline& seen = measured.timeline;
  for (std::size_t w = 0; w < predicted.workers.size(); ++w) {
    memory += predicted.workers[w].peak.total();
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
                 to_text(predicted.bubble * 100) + " %",
                 to_text(seen.bubble * 100) + " %"});
  for (std::size_t w = 0; w < predicted.workers.size(); ++w) {
    if (w >= seen.workers.size()) continue;
    const Bytes used = seen.workers[w].peak.total();
    if (used == Bytes(0)) continue;  // not measured
    const std::string number = std::to_string(w);
    all.push_back(row("memory, worker " + number, "memory_bytes_" + number,
                      predicted.workers[w].peak.total(), used));
  }
  all.push_back(
      row("memory, whole process", "memory_bytes", memory, measured.memory));
  return all;
}

}  // namespace

Result<Timeline> predicted_timeline(const Program& program, Profile profile,
                                    const std::string& device,
                                    InProcessChannelCosts channel) {
  const auto times = profile.times.find(device);
  if (times == profile.times.end())
    return bad_configuration(
        "the profile has no times of " + device,
        "measure it with pipewright profile --device " + device);
  if (device != "cpu") {
    // in_process_costs() reads the times of "cpu". How fast a GPU adds
    // gradients is not measured: it counts as nothing.
    profile.times = {{"cpu", times->second}};
    channel.bytes_added = 0;
  }
  PIPEWRIGHT_TRY(const Costs costs,
                 in_process_costs(program, profile, channel));
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
                   line.measured == 0 ? "" : to_text(line.error()) + " %"});
  return table.to_text(width);
}

Json comparison_json(const Timeline& predicted, const TrainReport& measured) {
  Json json = Json::object();
  for (const Row& line : rows(predicted, measured)) {
    Json item = Json::object();
    item.set("predicted", line.predicted).set("measured", line.measured);
    item.set("error_percent", line.error());
    json.set(line.key, std::move(item));
  }
  return json;
}

}  // namespace pipewright::cli
