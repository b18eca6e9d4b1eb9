// Runs on a cluster that is slower than its file says, for tests of calibrate:
// plans of several shapes, and what their steps and their memory would be
// there.

#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "tests/answer.h"

namespace pipewright {

class CalibrationFolder {
 public:
  CalibrationFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("pipewright-calibrate-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~CalibrationFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

inline Json json_of(const std::string& arguments) {
  const Answer answer = run_pipewright(arguments + " --json", "2>/dev/null");
  REQUIRE(answer.code == 0);
  const auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  return *json;
}

inline double number(const Json& json, const std::string& key) {
  return parse_real(json.find(key)->to_line()).value();
}

// Of the runs that calibrate prints.
inline std::vector<double> numbers(const Json& json, const std::string& key) {
  std::vector<double> found;
  for (const Json& run : *json.find("runs")->if_array())
    found.push_back(number(run, key));
  return found;
}

struct ClusterShape {
  std::string keys;  // of its kind, ", \"layer_overhead\": 0.3"
  std::string bandwidth = "10GB/s";
};

// Two devices.
inline std::string cluster_text(const ClusterShape& shape,
                                const std::string& name = "pair") {
  return R"({"format": "pipewright/cluster", "version": 1, "name": ")" + name +
         R"(", "kinds": [{"name": "V100", "peak": {"float32": 15.7e12},
             "achievable": {"float32": 12.6e12}, "memory": "16GB",
             "memory_bandwidth": "900GB/s")" +
         shape.keys + R"(}],
  "devices": [{"kind": "V100", "count": 2}],
  "within_hosts": {"bandwidth": ")" +
         shape.bandwidth + "\", \"latency\": \"5us\"}}";
}

struct RunShape {
  int layers = 0, microbatch = 0, minibatch = 16;
};
inline const std::vector<RunShape> kOneModel = {{4, 1}, {4, 2}, {4, 4}, {4, 8}};
inline const std::vector<RunShape> kTwoModels = {
    {2, 1}, {2, 8}, {8, 1}, {8, 8}};
inline const std::vector<RunShape> kManyShapes = {
    {2, 1}, {4, 2}, {8, 4}, {4, 8}, {2, 8},
    {8, 1}, {4, 1}, {2, 4}, {8, 2}, {4, 4}};

// What is sent per step differs, too.
inline const std::vector<RunShape> kManySizes = {
    {2, 1, 16}, {4, 2, 32}, {8, 4, 16}, {2, 8, 64}, {8, 1, 32},
    {4, 8, 64}, {4, 4, 64}, {2, 2, 32}, {8, 8, 32}};

// What somebody would have measured.
struct SlowRun {
  std::string plan;
  double step = 0, memory = 0;  // seconds, bytes
};

inline double most_memory(const Json& timeline) {
  double most = 0;
  for (const Json& device : *timeline.find("devices")->if_array())
    most = std::max(most, number(device, "memory_peak_bytes"));
  return most;
}

// Plans for plain.json, as they would run on slow.json: both are written.
inline std::vector<SlowRun> slow_runs(const CalibrationFolder& folder,
                                      const ClusterShape& plain,
                                      const ClusterShape& slow,
                                      const std::vector<RunShape>& shapes) {
  REQUIRE(write_file(folder / "plain.json", cluster_text(plain)));
  REQUIRE(write_file(folder / "slow.json", cluster_text(slow)));
  std::vector<SlowRun> runs;
  for (const RunShape& shape : shapes) {
    const std::string layers = std::to_string(shape.layers),
                      microbatch = std::to_string(shape.microbatch),
                      minibatch = std::to_string(shape.minibatch);
    const std::string plan =
        folder / ("plan" + layers + "-" + microbatch +
                  (shape.minibatch == 16 ? "" : "-" + minibatch) + ".json");
    REQUIRE(run_pipewright("plan --model gpt:layers=" + layers +
                           " --planner uniform --cluster " +
                           (folder / "plain.json") + " --minibatch " +
                           minibatch + " --microbatch " + microbatch + " -o " +
                           plan)
                .code == 0);
    const Json timeline =
        json_of("simulate " + plan + " --cluster " + (folder / "slow.json"));
    runs.push_back(
        {plan, number(timeline, "step_seconds"), most_memory(timeline)});
  }
  return runs;
}

// As a file of runs; its name.
inline std::string runs_file(const CalibrationFolder& folder,
                             const std::vector<SlowRun>& runs,
                             bool has_memory = false) {
  Json rows = Json::array();
  for (const SlowRun& run : runs) {
    Json row = Json::object();
    row.set("plan", run.plan);
    row.set("step_seconds", run.step);
    if (has_memory)
      row.set("memory_bytes", static_cast<std::int64_t>(run.memory));
    rows.push(std::move(row));
  }
  Json json = Json::object();
  json.set("format", "pipewright/runs");
  json.set("version", 1);
  json.set("runs", std::move(rows));
  REQUIRE(write_file(folder / "runs.json", json.to_text()));
  return folder / "runs.json";
}

inline std::string calibration_of(const CalibrationFolder& folder,
                                  const std::vector<SlowRun>& runs,
                                  bool has_memory = false) {
  return "calibrate --runs " + runs_file(folder, runs, has_memory) +
         " --cluster " + (folder / "plain.json");
}

}  // namespace pipewright
