// The Chrome trace as its reader sees it, event by event, and the SVG as one of
// XML does.

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "pipewright/base/json.h"
#include "pipewright/simulate/simulate.h"
#include "pipewright/timeline/chrome_trace.h"
#include "pipewright/timeline/svg.h"
#include "tests/plan/set_effect.h"
#include "tests/simulate/chain_programs.h"

namespace pipewright {
namespace {

using namespace test;
using Lane = std::pair<int, int>;  // process and thread: worker and lane

struct Slice {
  double start, end;
};

// Everything in a trace, by lane.
struct ReadTrace {
  std::map<Lane, std::vector<Slice>> slices;
  std::map<Lane, std::string> lane_names;
  std::map<int, std::vector<std::pair<double, double>>> memory;  // ts, bytes
  struct End {
    Lane lane;
    double time;
  };
  std::map<int, std::vector<End>> starts, finishes;  // of flows, by id
};

double number(const Json& event, const char* key) {
  const Json* found = event.find(key);
  REQUIRE(found != nullptr);
  if (const auto* real = std::get_if<double>(&found->value())) return *real;
  const auto* whole = std::get_if<std::int64_t>(&found->value());
  REQUIRE(whole != nullptr);
  return static_cast<double>(*whole);
}

ReadTrace read(const std::string& text) {
  const auto json = parse_json(text, "trace");
  REQUIRE_MESSAGE(json.ok(), json.error().to_text());
  ReadTrace trace;
  for (const Json& event : *json->find("traceEvents")->if_array()) {
    const std::string phase(*event.find("ph")->if_string());
    const Lane lane{static_cast<int>(number(event, "pid")),
                    static_cast<int>(number(event, "tid"))};
    const std::string name(*event.find("name")->if_string());
    if (phase == "M") {
      if (name == "thread_name")
        trace.lane_names[lane] =
            std::string(*event.find("args")->find("name")->if_string());
      continue;
    }
    const double time = number(event, "ts");
    if (phase == "X") {
      trace.slices[lane].push_back({time, time + number(event, "dur")});
    } else if (phase == "C") {
      trace.memory[lane.first].emplace_back(
          time, number(*event.find("args"), "bytes"));
    } else {
      REQUIRE((phase == "s" || phase == "f"));
      auto& ends = phase == "s" ? trace.starts : trace.finishes;
      ends[static_cast<int>(number(event, "id"))].push_back({lane, time});
    }
  }
  return trace;
}

struct Made {
  Program program;
  Timeline timeline;
};

Made made() {
  Chain chain = one_f_one_b(4, 6);
  chain.bytes = Bytes(100);
  Made one{chain_program(chain), {}};
  for (Operation& operation : one.program.operations) {
    set_effect(one.program, operation.stage, ActionKind::Forward,
               {Bytes(50), Bytes(0)});
    set_effect(one.program, operation.stage, ActionKind::Backward,
               {Bytes(0), Bytes(50)});
    operation.gradients = Bytes(7);
  }
  Costs costs = even_costs(one.program, 1, 2, 0.5);
  for (auto& cost : costs.transfers) cost.bandwidth = BytesPerSecond(250);
  for (auto& cost : costs.operations) cost.step = Seconds(0.25);
  SimulateOptions two;
  two.minibatches = 2;
  one.timeline = simulate(one.program, costs, two);
  return one;
}

TEST_CASE("lanes are named, in order of time, and do not overlap") {
  const Made one = made();
  const ReadTrace trace = read(chrome_trace(one.program, one.timeline));
  std::map<std::string, int> lanes;
  for (const auto& [lane, slices] : trace.slices) {
    REQUIRE(trace.lane_names.count(lane) == 1);
    ++lanes[trace.lane_names.at(lane)];
    for (std::size_t i = 0; i < slices.size(); ++i) {
      CHECK(slices[i].end >= slices[i].start);
      if (i > 0) CHECK(slices[i].start >= slices[i - 1].end - 1e-6);
    }
  }
  CHECK(lanes["compute"] == 4);
  CHECK(lanes["step"] == 4);
  CHECK(lanes["send"] >= 4);
  CHECK(lanes["receive"] >= 4);
  std::size_t computes = 0;
  for (const auto& [lane, slices] : trace.slices)
    if (trace.lane_names.at(lane) == "compute") computes += slices.size();
  CHECK(computes == 4 * 6 * 2 * 2);
}

TEST_CASE("every transfer is one arrow from a send to a receive") {
  const Made one = made();
  const ReadTrace trace = read(chrome_trace(one.program, one.timeline));
  CHECK(trace.starts.size() == 2 * 3 * 6 * 2);
  REQUIRE(trace.starts.size() == trace.finishes.size());
  const auto is_inside = [&trace](const ReadTrace::End& end,
                                  const std::string& name) {
    const auto& slices = trace.slices.at(end.lane);
    return trace.lane_names.at(end.lane) == name &&
           std::any_of(slices.begin(), slices.end(), [&](const Slice& slice) {
             return slice.start <= end.time && end.time <= slice.end;
           });
  };
  for (const auto& [id, starts] : trace.starts) {
    const auto& finishes = trace.finishes.at(id);
    REQUIRE(starts.size() == 1);
    REQUIRE(finishes.size() == 1);
    CHECK(starts[0].time <= finishes[0].time);
    CHECK(starts[0].lane.first != finishes[0].lane.first);
    CHECK(is_inside(starts[0], "send"));
    CHECK(is_inside(finishes[0], "receive"));
  }
}

TEST_CASE("memory counters rise to the peak and come back") {
  const Made one = made();
  const ReadTrace trace = read(chrome_trace(one.program, one.timeline));
  REQUIRE(trace.memory.size() == 4);
  for (const auto& [worker, points] : trace.memory) {
    CHECK(std::is_sorted(
        points.begin(), points.end(),
        [](const auto& a, const auto& b) { return a.first < b.first; }));
    double most = 0;
    for (const auto& [time, bytes] : points) most = std::max(most, bytes);
    const MemoryUse& peak = one.timeline.workers[worker].peak;
    CHECK(most <= static_cast<double>(peak.total().value()));
    CHECK(most > 7);
    CHECK(points.front().second >= 7);
    CHECK(points.back().second == 7);
  }
}

// Tags that open and close, attributes in quotes, no bare & or <.
bool is_well_formed(const std::string& text) {
  std::vector<std::string> open;
  std::size_t at = 0;
  while (at < text.size()) {
    if (text[at] == '&') {
      const std::size_t end = text.find(';', at);
      if (end == std::string::npos || end - at > 6) return false;
    }
    if (text[at++] != '<') continue;
    const std::size_t end = text.find('>', at);
    if (end == std::string::npos) return false;
    std::string tag = text.substr(at, end - at);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return false;
    if (tag.find('<') != std::string::npos) return false;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != tag) return false;
      open.pop_back();
    } else if (tag.front() != '?' && tag.back() != '/') {
      open.push_back(name);
    }
    at = end + 1;
  }
  return open.empty();
}

TEST_CASE("the SVG is well-formed, with a box for every compute action") {
  const Made one = made();
  const std::string text = svg(one.program, one.timeline);
  CHECK(is_well_formed(text));
  CHECK(!is_well_formed(text.substr(0, text.size() / 2)));
  CHECK(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  std::size_t boxes = 0;
  for (std::size_t at = text.find("<rect"); at != std::string::npos;
       at = text.find("<rect", at + 1))
    ++boxes;
  CHECK(boxes >= 4 * 6 * 2 * 2);
}

std::size_t count_in(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos;
       at = text.find(part, at + 1))
    ++count;
  return count;
}

TEST_CASE("the SVG has a title, and no lines where they would cover the rows") {
  const Made one = made();
  SvgOptions options;
  options.title = "a <b> & c";
  const std::string wide = svg(one.program, one.timeline, options);
  CHECK(is_well_formed(wide));
  CHECK(count_in(wide, "a &lt;b&gt; &amp; c") == 1);
  // Three pairs of neighbours, six microbatches, both ways, two minibatches.
  CHECK(count_in(wide, "stroke-opacity") == 3 * 6 * 2 * 2);
  options.width = 200;
  const std::string narrow = svg(one.program, one.timeline, options);
  CHECK(count_in(narrow, "stroke-opacity") == 0);
  CHECK(count_in(narrow, "<rect") > 0);
}

}  // namespace
}  // namespace pipewright
