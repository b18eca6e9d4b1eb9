// The CSV of torch.distributed.pipelining: what is read, written and refused.

#include "pipewright/plan/schedule/schedule_csv.h"

#include <doctest/doctest.h>

#include <random>

#include "pipewright/schedules/generator.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

std::string csv_complaint(const std::string& text) {
  const auto grid = parse_csv(text, "x.csv");
  if (!grid) return grid.error().to_text();
  const auto schedule = schedule_of(*grid, "x.csv");
  return schedule ? "accepted" : schedule.error().to_text();
}

TEST_CASE("cells read back as they were") {
  const std::string text =
      "0F0,,0SEND_F0,1UNSHARD,(0F1;1B0)OVERLAP_F_B,2REDUCE_GRAD\n"
      ",1RECV_F0,1F0,1I0,1SEND_B0,1W0,3RESHARD\n";
  const auto grid = parse_csv(text, "x.csv");
  REQUIRE_MESSAGE(grid.ok(), grid.error().to_text());
  CHECK(to_csv(*grid) == text);
  const auto windows = parse_csv("0F0,0B0\r\n", "x.csv");
  REQUIRE(windows.ok());
  CHECK(to_csv(*windows) == "0F0,0B0\n");
}

TEST_CASE("errors name line and cell") {
  CHECK(contains(csv_complaint("0F0,0B0\n1F0, 1X0\n"),
                 "x.csv:2, cell 2: \"1X0\" is not an action"));
  for (const char* cell :
       {"F0", "0F", "0F-1", "0SEND_F", "(0F0;1B0", "(0F0)OVERLAP_F_B",
        "(0F0;1B0)OVERLAP", "0F99999999999", "0F0x", "()OVERLAP_F_B"})
    CHECK(contains(csv_complaint(cell), "x.csv:1, cell 1"));
  CHECK(
      contains(csv_complaint("0B0,0F0\n"), "its forward does not come before"));
  CHECK(contains(csv_complaint("999999999F0,0B0\n"), "only 2 actions"));
  CHECK(contains(csv_complaint("0F0,0B0,0F1\n"), "0B1 is never run"));
  CHECK(contains(csv_complaint(""), "x.csv"));
}

TEST_CASE("B beside I and W of another microbatch stays as it is") {
  const auto grid = parse_csv("0F0,0F1,0B0,0I1,0W1\n", "x.csv");
  const auto schedule = schedule_of(*grid, "x.csv");
  REQUIRE(schedule.ok());
  CHECK(contains(schedule->to_text(), "0: 0F0 0F1 0B0 0I1 0W1"));
}

TEST_CASE("every schedule that drains reads back from its CSV") {
  std::mt19937 random(1);
  for (const ScheduleGenerator& generator : schedule_generators())
    for (int trial = 0; trial < 10; ++trial) {
      ScheduleRequest request;
      request.workers = 2 + static_cast<int>(random() % 7);
      request.microbatches = 1 + static_cast<int>(random() % 20);
      request.stages_per_worker = 1 + static_cast<int>(random() % 3);
      CAPTURE(generator.name);
      const auto schedule = generate_schedule(generator.name, request);
      if (!schedule) continue;
      const auto grid = grid_of(*schedule);
      if (schedule->is_asynchronous()) {
        CHECK(contains(grid.error().to_text(), "does not drain"));
        continue;
      }
      // Every stage is on two workers; a single microbatch goes one way.
      if (generator.name == "chimera" && request.microbatches > 1) {
        CHECK(contains(grid.error().to_text(), "runs a stage on one rank"));
        continue;
      }
      REQUIRE_MESSAGE(grid.ok(), grid.error().to_text());
      const auto read = parse_csv(to_csv(*grid), "x.csv");
      const auto again = schedule_of(*read, "x.csv");
      REQUIRE_MESSAGE(again.ok(), again.error().to_text());
      CHECK(*again == *schedule);
      const auto comms = with_comms(*grid, "x.csv");
      REQUIRE_MESSAGE(comms.ok(), comms.error().to_text());
    }
}

TEST_CASE("transfers of a small grid") {
  const auto comms =
      with_comms(*parse_csv("0F0,,0I0,0W0\n,1F0,1B0\n", "x.csv"), "x.csv");
  REQUIRE(comms.ok());
  CHECK(to_csv(*comms) ==
        "0F0,0SEND_F0,0RECV_B0,0B0\n"
        "1RECV_F0,1F0,1B0,1SEND_B0\n");
  CHECK_FALSE(with_comms(*comms, "x.csv").ok());
  const auto replicas = parse_csv("0F0,0B0\n0F0,0B0\n", "x.csv");
  CHECK(contains(with_comms(*replicas, "x.csv").error().to_text(), "replicas"));
}

TEST_CASE("broken cells are refused, never a crash") {
  std::mt19937 random(13);
  const std::string letters = "0123456789FBIW,\n();SENDRCV_OVLAP";
  for (int trial = 0; trial < 3000; ++trial) {
    std::string text = "0F0,0F1,,0B0,0B1\n,1F0,1B0,(1F1;1B1)OVERLAP_F_B\n";
    for (int edits = static_cast<int>(random() % 4); edits > 0; --edits)
      text[random() % text.size()] = letters[random() % letters.size()];
    const auto grid = parse_csv(text, "x.csv");
    if (!grid) continue;
    CHECK(to_csv(*grid) == to_csv(*parse_csv(to_csv(*grid), "x.csv")));
    (void)with_comms(*grid, "x.csv");
  }
}

}  // namespace
}  // namespace pipewright
