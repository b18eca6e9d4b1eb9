// PyTorch's own test files: they round-trip, and the compute file gets the
// transfers of the comms file.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "pipewright/base/files.h"
#include "pipewright/plan/schedule/schedule_csv.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

std::string read_artifact(const std::string& name) {
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  if (!folder) {
    testing::skip("PIPEWRIGHT_DATA is not set");
    return {};
  }
  const auto text = read_file(
      std::string(folder) +
      "/pytorch-schedules/test/distributed/pipelining/artifacts/" + name);
  REQUIRE_MESSAGE(text.ok(), text.error().to_text());
  return *text;
}

bool is_transfer(const CsvCell& cell) {
  return cell.size() == 1 && cell[0].kind > CsvKind::BackwardWeight;
}

// Computations ahead of the cell in its row.
std::ptrdiff_t computations_before(const std::vector<CsvCell>& row,
                                   const CsvCell& cell) {
  return std::count_if(row.begin(), std::find(row.begin(), row.end(), cell),
                       [](const CsvCell& c) { return !is_transfer(c); });
}

TEST_CASE("PyTorch's files round-trip") {
  for (const char* name :
       {"zb1p_2rank_2stagep_compute.csv", "zb1p_2rank_2stagep_comms.csv"}) {
    const std::string text = read_artifact(name);
    if (text.empty()) return;
    const auto grid = parse_csv(text, name);
    REQUIRE_MESSAGE(grid.ok(), grid.error().to_text());
    CHECK(to_csv(*grid) == text);
    const auto schedule = schedule_of(*grid, name);
    REQUIRE_MESSAGE(schedule.ok(), schedule.error().to_text());
    CHECK(schedule->num_stages() == 4);
    CHECK(schedule->num_microbatches() == 8);
    CHECK(schedule->num_workers() == 2);
  }
}

TEST_CASE("the compute file gets the transfers of the comms file, as early") {
  const std::string compute = read_artifact("zb1p_2rank_2stagep_compute.csv");
  const std::string comms = read_artifact("zb1p_2rank_2stagep_comms.csv");
  if (compute.empty() || comms.empty()) return;
  const auto expected = parse_csv(comms, "comms");
  const auto ours = with_comms(*parse_csv(compute, "compute"), "compute");
  REQUIRE_MESSAGE(ours.ok(), ours.error().to_text());
  REQUIRE(ours->size() == expected->size());
  for (std::size_t w = 0; w < ours->size(); ++w) {
    auto a = (*ours)[w], b = (*expected)[w];
    for (const CsvCell& cell : a) {
      CAPTURE(to_text(cell));
      CHECK(computations_before(a, cell) <= computations_before(b, cell));
    }
    const auto computations = [](std::vector<CsvCell> row) {
      std::erase_if(row, is_transfer);
      return row;
    };
    CHECK(computations(a) == computations(b));
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    CHECK(a == b);
  }
}

}  // namespace
}  // namespace pipewright
