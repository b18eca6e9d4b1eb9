// `pipewright schedule` from outside: pictures, files, exit codes.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <random>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/schedules/generator.h"
#include "pipewright/schedules/makespan.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

Answer scheduled(const std::string& arguments) {
  return answer_of("COLUMNS=80 '" PIPEWRIGHT_BINARY "' schedule " + arguments +
                   " 2>&1");
}

std::string picture_file(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("pipewright_schedule_" + std::to_string(::getpid()) + name))
      .string();
}

// Dashes that fill an action, as one byte each.
std::string plain(std::string text) {
  const std::string dash = "\u2500";
  for (auto at = text.find(dash); at != std::string::npos; at = text.find(dash))
    text.replace(at, dash.size(), "=");
  return text;
}

TEST_CASE("1f1b draws the well-known picture") {
  const Answer answer = scheduled("1f1b --stages 4 --microbatches 8");
  CHECK(answer.code == 0);
  CHECK(contains(plain(answer.text),
                 "0 F0F1F2F3            B0==F4B1==F5B2==F6B3==F7B4==  B5==  "
                 "B6==  B7==  73 %\n"
                 "1   F0F1F2        B0==F3B1==F4B2==F5B3==F6B4==F7B5==  B6==  "
                 "B7==      73 %\n"
                 "2     F0F1    B0==F2B1==F3B2==F4B3==F5B4==F6B5==F7B6==  B7== "
                 "         73 %\n"
                 "3       F0B0==F1B1==F2B2==F3B3==F4B4==F5B5==F6B6==F7B7==     "
                 "         73 %\n"));
  CHECK(contains(answer.text, "step 33 s, bubble 27.3 %"));
}

TEST_CASE("zb-v is drawn in bands, the second stage in lower case") {
  const Answer answer = scheduled("zb-v --stages 4 --microbatches 8");
  CHECK(contains(answer.text,
                 "0 F0F1F2F3F4F5F6f0i0w0f1i1w1f2i2w2f3i3w3F7I0W0f4i4w4I1\n"
                 "1   F0F1F2F3F4f0F5f1i0w0f2i1w1f3i2w2F6I0W0f4i3w3F7I1W1\n"));
  CHECK(contains(answer.text,
                 "\n\n0 W1f5i5w5I2W2f6i6w6I3W3f7i7w7I4W4I5W5I6W6I7W7"));
  CHECK(contains(answer.text, "step 51 s"));
}

TEST_CASE("every schedule of 8 workers and 16 microbatches fits 80 columns") {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    const Answer answer =
        scheduled(generator.name + " --stages 8 --microbatches 16");
    CHECK(answer.code == 0);
    for (std::string_view line : split(answer.text, '\n'))
      CHECK_MESSAGE(display_width(std::string(line)) <= 80, answer.text);
    // All of it is drawn, unless it fills once and never drains.
    CHECK(contains(answer.text, "the first ") ==
          contains(answer.text, " in steady state"));
  }
}

TEST_CASE("the simulated step equals schedule_makespan() on random times") {
  std::mt19937 random(4);
  for (const ScheduleGenerator& generator : schedule_generators())
    for (int trial = 0; trial < 2; ++trial) {
      ScheduleRequest request;
      request.workers = 2 * (1 + static_cast<int>(random() % 3));
      request.microbatches =
          request.workers * (1 + static_cast<int>(random() % 3));
      request.transfer = Seconds(static_cast<double>(random() % 3));
      const auto schedule = generate_schedule(generator.name, request);
      REQUIRE(schedule.ok());
      if (schedule->is_asynchronous()) continue;
      const Answer answer =
          scheduled(generator.name + " --json --stages " +
                    std::to_string(request.workers) + " --microbatches " +
                    std::to_string(request.microbatches) + " --transfer " +
                    std::to_string(request.transfer.value()));
      const auto json = parse_json(answer.text, "answer");
      REQUIRE_MESSAGE(json.ok(), answer.text);
      CAPTURE(generator.name);
      CHECK(std::get<double>(json->find("step_seconds")->value()) ==
            schedule_makespan(*schedule, request).value());
      CHECK(json->find("devices")->if_array()->size() ==
            static_cast<std::size_t>(schedule->num_workers()));
      CHECK((*json->find("links")->if_array())[0].find("bytes") != nullptr);
    }
}

TEST_CASE("pictures go to files") {
  const std::string svg = picture_file(".svg"), trace = picture_file(".json");
  CHECK(scheduled("chimera --svg " + svg + " --trace " + trace).code == 0);
  CHECK(read_file(svg).value().starts_with("<svg "));
  CHECK(parse_json(read_file(trace).value(), "trace").ok());
  CHECK(scheduled("1f1b --svg /no/such/folder/a.svg").code == 73);
  std::filesystem::remove(svg);
  std::filesystem::remove(trace);
}

TEST_CASE("transfers and times change the step") {
  CHECK(contains(
      scheduled("1f1b --stages 4 --microbatches 8 --transfer 0.3").text,
      "step 37.8 s"));
  CHECK(contains(
      scheduled("1f1b-so --stages 4 --microbatches 8 --transfer 0.3").text,
      "step 34.8 s"));
  CHECK(contains(scheduled("1f1b --stages 2 --microbatches 2 --times 2,2,1 "
                           "--json")
                     .text,
                 "\"step_seconds\": 15"));
}

TEST_CASE("the list has one line per schedule") {
  const Answer answer = scheduled("--list");
  CHECK(answer.code == 0);
  for (const char* name : {"gpipe", "1f1b-so", "zb-v", "hanayo", "spp-pe"})
    CHECK(contains(answer.text, std::string("\n") + name + " "));
}

TEST_CASE("bad input is refused with the reason") {
  const Answer unknown = scheduled("1f1c");
  CHECK(unknown.code == 78);
  CHECK(contains(unknown.text, "did you mean \"1f1b\""));
  const Answer none = scheduled("1f1b --stages 0");
  CHECK(none.code == 78);
  CHECK(contains(none.text, "at least 1"));
  CHECK(scheduled("").code == 2);
  CHECK(scheduled("1f1b --stages x").code == 2);
  CHECK(scheduled("1f1b --times 1,2").code == 78);
  CHECK(scheduled("1f1b --times 1,-2,1").code == 78);
  CHECK(scheduled("1f1b --transfer -1").code == 78);
  CHECK(scheduled("gpipe --memory 3").code == 78);
  CHECK(scheduled("no/such/file.csv").code == 66);
  CHECK(scheduled("async-1f1b --csv " + picture_file("a.csv")).code == 78);
  CHECK(scheduled("1f1b --csv /no/such/folder/a.csv").code == 73);
}

TEST_CASE("a worker has as many stages as --stages-per-worker says") {
  const Answer answer = scheduled("interleaved --stages-per-worker 3 --text");
  CHECK(answer.code == 0);
  CHECK(contains(answer.text, "stages=12"));
}

TEST_CASE("the schedule of a plan is written for torch") {
  const std::string csv = picture_file("plan.csv");
  const std::string plan = PIPEWRIGHT_SOURCE_DIR "/examples/simulate/plan.json";
  CHECK(scheduled(plan + " --csv " + csv).code == 0);
  CHECK(scheduled(csv + " --text").text == scheduled(plan + " --text").text);
  std::filesystem::remove(csv);
  CHECK(scheduled("chimera --csv " + csv).code == 78);
  CHECK(!std::filesystem::exists(csv));
}

TEST_CASE("no bubble is 0 %, not the rest of a sum") {
  for (const char* times : {"0.1,0.1,0.1", "0.3,0.7,0.9"}) {
    const Answer answer = scheduled(
        std::string("1f1b --stages 1 --microbatches 7 --times ") + times);
    CHECK(answer.code == 0);
    CHECK(contains(answer.text, "bubble 0 %"));
  }
}

TEST_CASE("what --csv and --text write reads back") {
  const std::string csv = picture_file(".csv"), text = picture_file(".txt");
  CHECK(
      scheduled("interleaved --stages 3 --microbatches 6 --csv " + csv).code ==
      0);
  const Answer written =
      scheduled("interleaved --stages 3 --microbatches 6 --text");
  CHECK(scheduled(csv + " --text").text == written.text);
  REQUIRE(write_file(text, written.text).ok());
  CHECK(scheduled(text + " --text").text == written.text);
  REQUIRE(write_file(csv, "0F0,0B0\n1F0,1Q0\n").ok());
  const Answer broken = scheduled(csv);
  CHECK(broken.code == 65);
  CHECK(contains(broken.text, csv + ":2, cell 2: \"1Q0\""));
  std::filesystem::remove(csv);
  std::filesystem::remove(text);
}

}  // namespace
}  // namespace pipewright
