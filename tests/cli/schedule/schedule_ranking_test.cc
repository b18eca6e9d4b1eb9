// pipewright schedule with times and bytes per stage, and several schedules in
// one ranking.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

Json answered(const std::string& arguments) {
  const Answer answer =
      run_pipewright("schedule " + arguments + " --json", "2>/dev/null");
  auto json = parse_json(answer.text, "stdout");
  REQUIRE_MESSAGE(json.ok(), arguments);
  return *json;
}

double real(const Json& json, const char* key) {
  const Json* value = json.find(key);
  REQUIRE(value);
  if (const auto* whole = std::get_if<std::int64_t>(&value->value()))
    return static_cast<double>(*whole);
  return std::get<double>(value->value());
}

bool flag(const Json& json, const char* key) {
  return std::get<bool>(json.find(key)->value());
}

fs::path temporary(const std::string& extension) {
  return fs::temp_directory_path() /
         ("ranking_test." + std::to_string(::getpid()) + extension);
}

}  // namespace

// GPipe: all forwards, then all backwards. Stage 1 takes 3 per forward and 6
// per backward, stage 0 takes 1 and 2; 1 + 3 * 4 forwards, then 4 * 6 + 2.
TEST_CASE("every stage has its times") {
  const Json json = answered("gpipe --microbatches 4 --times '1,1,1; 3,3,3'");
  CHECK(real(json, "step_seconds") == 1 + 4 * 3 + 4 * 6 + 2);
}

TEST_CASE("times from a file, one line per stage") {
  const fs::path file = temporary(".txt");
  REQUIRE(write_file(file, "# F, I, W\n1,1,1\n\n3,3,3\n").ok());
  const Json json = answered("gpipe --microbatches 4 --times " + file.string());
  CHECK(real(json, "step_seconds") == 39);
  fs::remove(file);
}

TEST_CASE("stages of several per worker are parts of those given") {
  const Json parts = answered(
      "interleaved --stages-per-worker 2 --microbatches 4 "
      "--times '2,2,2; 4,4,4'");
  CHECK(real(parts, "stages") == 4);
  const auto& devices = *parts.find("devices")->if_array();
  // Stages 0 and 2 are half of 2 and half of 4.
  for (const Json& device : devices)
    CHECK(real(device, "busy_seconds") == 4 * (3 * 1 + 3 * 2));
}

// 1F1B on four workers holds 4, 3, 2 and 1 microbatches.
TEST_CASE("memory is counted in bytes") {
  const Json json = answered(
      "1f1b --microbatches 8 --activations 1GB,2GB,4GB,8GB --weights 3GB");
  const auto& peaks = *json.find("memory_peak_bytes")->if_array();
  REQUIRE(peaks.size() == 4);
  const double expected[] = {3 + 4 * 1, 3 + 3 * 2, 3 + 2 * 4, 3 + 8};
  for (std::size_t w = 0; w < 4; ++w)
    CHECK(std::get<std::int64_t>(peaks[w].value()) == expected[w] * 1e9);
  const std::string limit =
      "schedule 1f1b --microbatches 8 --activations 2GB --weights 3GB "
      "--memory ";
  CHECK(run_pipewright(limit + "11GB").code == 0);
  const Answer refused = run_pipewright(limit + "10GB");
  CHECK(refused.code == 78);
  CHECK(
      contains(refused.text, "worker 0 would hold 11 GB, the limit is 10 GB"));
}

TEST_CASE("a ranking: those that fit first, the fastest first") {
  const Json json = answered(
      "all --stages 4 --microbatches 8 --activations 1GB --memory 4GB");
  bool fits = true;
  double before = 0;
  int rows = 0, refused = 0;
  for (const Json& row : *json.find("schedules")->if_array()) {
    if (row.find("refused")) {
      ++refused;
      continue;
    }
    CHECK(refused == 0);
    ++rows;
    CHECK(flag(row, "fits") <= fits);
    if (flag(row, "fits") != fits) before = 0;
    fits = flag(row, "fits");
    CHECK(real(row, "step_seconds") >= before);
    before = real(row, "step_seconds");
    CHECK((real(row, "memory_peak_bytes") <= 4e9) == fits);
    // All do the same work: 8 microbatches of 3 s on every worker.
    CHECK(real(row, "step_seconds") * (1 - real(row, "bubble")) ==
          doctest::Approx(24));
  }
  CHECK(rows > 10);
  CHECK_FALSE(fits);  // gpipe does not
  const Answer text = run_pipewright("schedule 1f1b,gpipe --stages 4");
  CHECK(text.code == 0);
  CHECK(text.text.find("1f1b") < text.text.find("gpipe"));
  CHECK(run_pipewright("schedule gpipe,1f1b --activations 1GB --memory 900MB")
            .code == 78);
}

TEST_CASE("the CSV of a plan") {
  const fs::path csv = temporary(".csv");
  const Answer written = run_pipewright("schedule " PIPEWRIGHT_SOURCE_DIR
                                        "/examples/simulate/plan.json --csv " +
                                        csv.string());
  CHECK(written.code == 0);
  const std::string text = read_file(csv).value();
  CHECK(text.starts_with("0F0,0F1,0F2,0F3,0B0,"));
  CHECK(run_pipewright("schedule " + csv.string()).code == 0);
  fs::remove(csv);
}

}  // namespace pipewright::cli
