#include "cli/schedule/stage_inputs.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "pipewright/base/files.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/base/units_text.h"
#include "pipewright/profile/profile.h"

namespace pipewright::cli {
namespace {

constexpr const char* kTimesHint =
    "seconds of forward, input gradient and weight gradient, for example "
    "1,1,1; "
    "one such group per stage, separated by ';', or one per line of a file";

// The times of a stage in --times, or in a line of a file.
struct TimesGroup {
  std::string text;
  std::string where;  // "times.txt:3"; "": the option itself
};

Error wrong_times(const TimesGroup& group, const std::string& expected,
                  std::string_view found) {
  const std::string message = "expected " + expected + " in --times, found \"" +
                              printable(shortened(std::string(found), 60)) +
                              "\"";
  return group.where.empty() ? bad_configuration(message, kTimesHint)
                             : malformed(message, group.where, kTimesHint);
}

Result<ScheduleRequest::StageTimes> parse_stage_times(const TimesGroup& group) {
  const auto parts = split(group.text, ',');
  if (parts.size() != 3)
    return wrong_times(group, "three numbers", trim(group.text));
  double numbers[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const auto number = parse_real(trim(parts[i]));
    if (!number || !(*number >= 0 && *number <= kMaxTime.value()))
      return wrong_times(group, "a time from 0 to " + to_text(kMaxTime.value()),
                         trim(parts[i]));
    numbers[i] = *number;
  }
  return ScheduleRequest::StageTimes{Seconds(numbers[0]), Seconds(numbers[1]),
                                     Seconds(numbers[2])};
}

// The groups of the text, or the lines of the file that it names. Lines that
// are empty or start with '#' do not count.
Result<std::vector<TimesGroup>> groups_of(const std::string& text) {
  std::vector<TimesGroup> groups;
  std::error_code ignored;
  const bool is_list = text.find(',') != std::string::npos;
  const bool is_file = !is_list && (text.find_first_of("./") != text.npos ||
                                    std::filesystem::exists(text, ignored));
  std::string content = text;
  if (is_file) {
    PIPEWRIGHT_TRY(content, read_file(text));
  }
  int line = 0;
  for (std::string_view group : split(content, is_file ? '\n' : ';')) {
    group = trim(group);
    ++line;
    if (!group.empty() && !group.starts_with("#"))
      groups.push_back(
          {std::string(group),
           is_file ? text + ":" + std::to_string(line) : std::string()});
  }
  if (groups.empty())
    return bad_configuration("--times has no stages", kTimesHint);
  return groups;
}

Result<std::vector<Bytes>> parse_sizes(const std::string& text,
                                       const std::string& option) {
  std::vector<Bytes> sizes;
  if (text.empty()) return sizes;
  for (std::string_view part : split(text, ',')) {
    const auto size = parse_bytes(trim(part));
    if (!size)
      return bad_configuration("expected a size in " + option + ", found \"" +
                                   std::string(trim(part)) + "\"",
                               "for example 800MB, or one per stage: "
                               "1.2GB,1.2GB,800MB");
    sizes.push_back(*size);
  }
  return sizes;
}

Result<void> read_memory_limit(const std::string& text, StageInputs& inputs) {
  if (text.empty()) return {};
  if (const auto bytes = parse_bytes(text); bytes && *bytes > Bytes(0)) {
    inputs.memory = *bytes;
  } else if (const auto count = parse_real(text); count && *count > 0) {
    inputs.max_activations = *count;
  } else {
    return bad_configuration(
        "expected bytes or a number of activations in --memory, found \"" +
            text + "\"",
        "for example 10GB, or 4");
  }
  if (!inputs.counts_bytes() || !inputs.activations.empty()) return {};
  return bad_configuration(
      "--memory " + text + " needs the bytes of activations",
      "add --activations SIZE, of one microbatch in one stage");
}

template <typename T>
Result<std::vector<T>> spread(std::vector<T> list, int stages, int workers,
                              const std::string& option) {
  if (list.empty()) return list;
  const int count = static_cast<int>(list.size());
  if (count == stages) return list;
  if (count != 1 && count != workers)
    return bad_configuration(
        option + " has " + std::to_string(count) +
            " entries for a schedule of " + std::to_string(stages) +
            " stages on " + std::to_string(workers) + " workers",
        "give one for all, one per stage or one per worker");
  std::vector<T> all;
  for (int s = 0; s < stages; ++s)
    all.push_back(list[std::size_t(std::int64_t{s} * count / stages)]);
  return all;
}

}  // namespace

int StageInputs::num_stages() const {
  return static_cast<int>(
      std::max({times.size(), activations.size(), weights.size()}));
}

Result<StageInputs> stage_inputs(const StageInputOptions& options) {
  StageInputs inputs;
  if (options.times.empty()) {
    inputs.times = {{}};
  } else {
    PIPEWRIGHT_TRY(const std::vector<TimesGroup> groups,
                   groups_of(options.times));
    for (const TimesGroup& group : groups) {
      PIPEWRIGHT_TRY(const ScheduleRequest::StageTimes times,
                     parse_stage_times(group));
      inputs.times.push_back(times);
    }
  }
  PIPEWRIGHT_TRY(inputs.activations,
                 parse_sizes(options.activations, "--activations"));
  PIPEWRIGHT_TRY(inputs.weights, parse_sizes(options.weights, "--weights"));
  if (auto read = read_memory_limit(options.memory, inputs); !read)
    return read.error();
  return inputs;
}

Result<StageInputs> for_stages(const StageInputs& inputs, int stages,
                               int workers) {
  StageInputs each = inputs;
  PIPEWRIGHT_TRY(each.times, spread(inputs.times, stages, workers, "--times"));
  PIPEWRIGHT_TRY(each.activations,
                 spread(inputs.activations, stages, workers, "--activations"));
  PIPEWRIGHT_TRY(each.weights,
                 spread(inputs.weights, stages, workers, "--weights"));
  // Parts of a stage that a worker has in one piece otherwise.
  const auto is_cut = [&](std::size_t count) {
    return count > 1 && static_cast<int>(count) != stages;
  };
  const int parts = stages / std::max(1, workers);
  if (is_cut(inputs.times.size()))
    for (auto& times : each.times)
      times = {times.forward / parts, times.backward_input / parts,
               times.backward_weight / parts};
  if (is_cut(inputs.activations.size()))
    for (Bytes& size : each.activations) size = size / std::int64_t{parts};
  if (is_cut(inputs.weights.size()))
    for (Bytes& size : each.weights) size = size / std::int64_t{parts};
  return each;
}

Bytes peak_bytes(const Schedule& schedule, WorkerId worker,
                 const StageInputs& inputs) {
  const auto of = [](const std::vector<Bytes>& list, StageId stage) {
    return list.empty() ? Bytes(0) : list[stage.index()];
  };
  std::set<StageId> own;
  Bytes held, peak, weights;
  const auto& sections = schedule.sections();
  for (const Orders* orders :
       {&sections.prologue, &sections.body, &sections.epilogue}) {
    if (worker.index() >= orders->size()) continue;
    for (const ComputeAction& action : (*orders)[worker.index()]) {
      if (own.insert(action.stage).second)
        weights += of(inputs.weights, action.stage);
      if (action.kind == ComputeKind::Forward)
        held += of(inputs.activations, action.stage);
      peak = std::max(peak, held);
      if (action.kind == ComputeKind::Backward ||
          action.kind == ComputeKind::BackwardWeight)
        held -= of(inputs.activations, action.stage);
    }
  }
  return weights + peak;
}

}  // namespace pipewright::cli
