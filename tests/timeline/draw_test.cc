// Pictures of known schedules, drawn as a person would.

#include "pipewright/timeline/draw.h"

#include <doctest/doctest.h>

#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/timeline/bottleneck.h"
#include "pipewright/timeline/chrome_trace.h"
#include "pipewright/timeline/critical_path.h"
#include "pipewright/timeline/svg.h"
#include "pipewright/timeline/timeline_json.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;

struct Run {
  Program program;
  Timeline timeline;
};

Run run(const Chain& chain, double f, double b, double latency) {
  Run run{chain_program(chain), {}};
  run.timeline = simulate(run.program, even_costs(run.program, f, b, latency));
  return run;
}

TEST_CASE("1F1B on two workers") {
  const Run two = run(one_f_one_b(2, 3), 1, 2, 0);
  const std::string text = draw(two.timeline, {32, false});
  CHECK(text.substr(0, text.find("  12 s")) ==
        "0 F0F1    B0\u2500\u2500F2B1\u2500\u2500  B2\u2500\u2500  75 %\n"
        "1   F0B0\u2500\u2500F1B1\u2500\u2500F2B2\u2500\u2500      75 %\n");
}

TEST_CASE("eight workers by sixteen microbatches fit 80 columns exactly") {
  const Run wide = run(one_f_one_b(8, 16), 1, 2, 0);
  const std::string text = draw(wide.timeline, {80, false});
  const auto lines = split(text, '\n');
  REQUIRE(lines.size() >= 9);
  for (std::string_view line : lines)
    CHECK(display_width(std::string(line)) <= 80);
  CHECK(lines[7].substr(0, 36) == "7        0B01B12B23B34B45B56B67B78B8");
  // Every forward of every row is there.
  for (int w = 0; w < 8; ++w)
    for (char digit : std::string("0123456789abcdef"))
      CHECK(lines[w].find(digit, 2) != std::string_view::npos);
}

TEST_CASE("of a long run the beginning is drawn, with a note") {
  const Run far = run(one_f_one_b(4, 200), 1, 2, 0.25);
  const std::string text = draw(far.timeline, {80, false});
  CHECK(text.find("the first ") != std::string::npos);
  for (std::string_view line : split(text, '\n'))
    CHECK(display_width(std::string(line)) <= 80);
  for (const char* early : {"0 F0", "B0", "B1"})
    CHECK(text.find(early) != std::string::npos);
  CHECK(draw(run(one_f_one_b(2, 3), 1, 2, 0).timeline).find("the first ") ==
        std::string::npos);
}

TEST_CASE("colour adds codes and changes no width") {
  const Run two = run(one_f_one_b(2, 3), 1, 2, 0);
  CHECK(draw(two.timeline, {80, false}).find('\x1b') == std::string::npos);
  const std::string text = draw(two.timeline, {80, true});
  CHECK(text.find("\x1b[") != std::string::npos);
  for (std::string_view line : split(text, '\n'))
    if (line.find('\x1b') != std::string_view::npos)
      CHECK(line.find("\x1b[0m") != std::string_view::npos);
}

TEST_CASE("the trace is JSON: a slice per action, an arrow per transfer") {
  const Run two = run(one_f_one_b(2, 3), 1, 2, 0.5);
  const auto json =
      parse_json(chrome_trace(two.program, two.timeline), "trace");
  REQUIRE(json);
  int slices = 0, starts = 0, ends = 0;
  for (const Json& event : *json->find("traceEvents")->if_array()) {
    const std::string phase = *event.find("ph")->if_string();
    slices += phase == "X";
    starts += phase == "s";
    ends += phase == "f";
  }
  // 12 computes, 2 steps, 6 transfers at both ends.
  CHECK(slices == 12 + 2 + 2 * 6);
  CHECK(starts == 6);
  CHECK(ends == 6);
}

TEST_CASE("the picture has a box per action and a line per transfer") {
  const Run two = run(one_f_one_b(2, 3), 1, 2, 0.5);
  const std::string text = svg(two.program, two.timeline);
  const auto count = [&text](const std::string& what) {
    int n = 0;
    for (std::size_t at = text.find(what); at != std::string::npos;
         at = text.find(what, at + 1))
      ++n;
    return n;
  };
  CHECK(count("fill=\"#8fb8f0\"") == 6 + 1);  // and the legend's
  CHECK(count("fill=\"#93d19a\"") == 6 + 1);
  CHECK(count("stroke-opacity") == 6);
  CHECK(text.starts_with("<svg "));
  CHECK(text.ends_with("</svg>\n"));
}

TEST_CASE(
    "a large picture is wide, and lines that would cover it are left out") {
  const Run large = run(one_f_one_b(16, 32), 1, 2, 0.5);
  SvgOptions options;
  options.title = "1f1b: 16 < 32 & more";
  const std::string wide = svg(large.program, large.timeline, options);
  CHECK(wide.find("1f1b: 16 &lt; 32 &amp; more</text>") != std::string::npos);
  CHECK(wide.find("width=\"1000\"") == std::string::npos);
  CHECK(wide.find("stroke-opacity") != std::string::npos);
  options.width = 300;
  const std::string narrow = svg(large.program, large.timeline, options);
  CHECK(narrow.find("stroke-opacity") == std::string::npos);
}

TEST_CASE("the critical path covers the run and names the slowest") {
  for (double latency : {0.0, 0.3}) {
    Run four = run(one_f_one_b(4, 20), 1, 2, latency);
    Costs costs = even_costs(four.program, 1, 2, latency);
    costs.operations[2].compute[0] = Seconds(5);
    four.timeline = simulate(four.program, costs);
    const auto path = critical_path(four.program, four.timeline);
    REQUIRE(!path.empty());
    CHECK(path.front().start == Seconds(0));
    CHECK(path.back().end == four.timeline.duration);
    for (std::size_t i = 1; i < path.size(); ++i)
      CHECK(path[i].start.value() == doctest::Approx(path[i - 1].end.value()));
    CHECK(bottleneck_text(path).starts_with("stage 2 is the bottleneck: "));
  }
}

TEST_CASE("a slow link is the bottleneck") {
  Run two = run(gpipe(2, 10), 1, 1, 0);
  Costs costs = even_costs(two.program, 1, 1, 0);
  two.program.transfers[0].bytes = Bytes(100);
  costs.transfers[0].bandwidth = BytesPerSecond(10);
  two.timeline = simulate(two.program, costs);
  CHECK(bottleneck_text(critical_path(two.program, two.timeline))
            .starts_with("link 0 to 1 is the bottleneck: "));
}

TEST_CASE("the JSON has the numbers") {
  const Json json = to_json(run(one_f_one_b(4, 8), 1, 2, 0).timeline);
  CHECK(json.find("step_seconds")->to_line() == "33.0");
  CHECK(json.find("devices")->if_array()->size() == 4);
  CHECK(json.find("links")->if_array()->size() == 6);
  for (const char* key : {"busy_seconds", "memory_peak_bytes"})
    CHECK((*json.find("devices")->if_array())[0].find(key) != nullptr);
  for (const char* key : {"bytes", "busy_seconds"})
    CHECK((*json.find("links")->if_array())[0].find(key) != nullptr);
}

}  // namespace
}  // namespace pipewright
