// The data of a report: random plans of every planner, compared with what the
// simulator says and with simple second computations.

#include "pipewright/report/plan_report.h"

#include <doctest/doctest.h>

#include <numeric>

#include "pipewright/profile/analytic.h"
#include "pipewright/report/report_parts.h"
#include "pipewright/simulate/simulate.h"
#include "tests/planners/random_problems.h"

namespace pipewright {
namespace {

double number_at(const Json& json) {
  if (const auto* whole = std::get_if<std::int64_t>(&json.value()))
    return double(*whole);
  return std::get<double>(json.value());
}

const Json& member(const Json& json, const char* key) {
  const Json* found = json.find(key);
  REQUIRE_MESSAGE(found, key);
  return *found;
}

std::vector<double> numbers(const Json& json, const char* key) {
  std::vector<double> list;
  for (const Json& each : *member(json, key).if_array())
    list.push_back(number_at(each));
  return list;
}

const Json::Array& list_of(const Json& json, const char* key) {
  return *member(json, key).if_array();
}

// Each message starts after the action that sends it and ends before the one
// that reads it; ticks round by one.
void check_messages(const Json& timeline) {
  std::map<int, std::pair<std::vector<double>, std::vector<double>>> spans;
  for (const Json& row : list_of(timeline, "workers"))
    spans[int(number_at(member(row, "worker")))] = {numbers(row, "starts"),
                                                    numbers(row, "ends")};
  for (const Json& link : list_of(timeline, "links")) {
    const int from = int(number_at(member(link, "from")));
    const int to = int(number_at(member(link, "to")));
    const auto starts = numbers(link, "starts"), ends = numbers(link, "ends");
    const auto senders = numbers(link, "sent_by");
    const auto readers = numbers(link, "read_by");
    const std::string kinds = *member(link, "kinds").if_string();
    REQUIRE(kinds.size() == starts.size());
    for (std::size_t i = 0; i < starts.size(); ++i) {
      if (senders[i] >= 0)
        CHECK(spans[from].second[std::size_t(senders[i])] <= starts[i] + 1);
      if (readers[i] >= 0)
        CHECK(spans[to].first[std::size_t(readers[i])] >= ends[i] - 1);
      if (kinds[i] != 'V') CHECK(readers[i] >= 0);
    }
  }
}

// The highest point of the drawn curve is the simulated peak.
void check_memory(const Json& memory, const Timeline& timeline) {
  REQUIRE(memory.if_array()->size() == timeline.workers.size());
  for (std::size_t w = 0; w < timeline.workers.size(); ++w) {
    const Json& worker = (*memory.if_array())[w];
    double constant = 0;
    for (const auto& [name, bytes] : *member(worker, "constant").if_object())
      constant += number_at(bytes);
    const auto kept = numbers(worker, "kept");
    const auto buffers = numbers(worker, "buffers");
    double highest = 0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      CHECK(kept[i] >= 0);
      CHECK(buffers[i] >= 0);
      highest = std::max(highest, constant + kept[i] + buffers[i]);
    }
    CHECK(highest <= double(timeline.workers[w].peak.total().value()));
    CHECK(constant <= highest);
    CHECK(number_at(member(worker, "peak_bytes")) ==
          double(timeline.workers[w].peak.total().value()));
  }
}

// What is made up to a layer and used behind it, pair by pair.
double crossing_by_hand(const Profile& profile,
                        const std::vector<LayerSizes>& sizes, std::size_t cut) {
  const auto storages = profile.storages();
  double bytes = 0;
  for (std::size_t l = 0; l <= cut; ++l) {
    bool is_used = false;
    for (std::size_t user = cut + 1; user < profile.layers.size(); ++user)
      for (LayerId input : profile.layers[user].inputs)
        is_used = is_used || storages[input.index()].index() == l;
    if (is_used) bytes += double(sizes[l].output.value());
  }
  return bytes;
}

void check_model(const Json& model, const Plan& plan, const Profile& profile) {
  const auto& layers = list_of(model, "layers");
  REQUIRE(layers.size() == profile.layers.size());
  const auto sizes =
      sizes_at(profile, plan.microbatch, Outside::Extrapolate).value();
  for (std::size_t l = 0; l < layers.size(); ++l)
    CHECK(number_at(member(layers[l], "crossing_bytes")) ==
          crossing_by_hand(profile, sizes, l));
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (LayerId layer : plan.stages[s].forward)
      CHECK(number_at(member(layers[layer.index()], "forward_stage")) ==
            double(s));
}

void check_path(const Json& timeline) {
  const Json& path = member(timeline, "critical_path");
  const auto starts = numbers(path, "starts"), ends = numbers(path, "ends");
  if (starts.empty()) return;
  CHECK(starts.front() == 0);
  CHECK(ends.back() == doctest::Approx(1e7).epsilon(1e-6));
  for (std::size_t i = 1; i < starts.size(); ++i)
    CHECK(starts[i] == ends[i - 1]);
}

Problem problem_on(const Profile& profile, const Cluster& cluster,
                   int minibatch, int microbatch) {
  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = minibatch;
  problem.microbatches = {microbatch};
  set_estimators(problem);
  return problem;
}

}  // namespace

TEST_CASE("reports of random plans agree with the simulator") {
  int reported = 0;
  for (const auto& planner : planners()) {
    if (planner->name() == "exact" || planner->name() == "auto") continue;
    CAPTURE(planner->name());
    RandomProblems random(7);
    for (int i = 0; i < 20; ++i) {
      CAPTURE(i);
      RandomProblem made = random.next(8);
      set_estimators(made.problem);
      if (random.chance(3)) made.problem.method = Method::TwoBw;
      const auto planned = planner->plan(made.problem);
      if (!planned) continue;
      const auto report = plan_report(planned->plan, made.problem);
      REQUIRE(report);
      const SimulatedPlan simulated =
          simulated_plan(planned->plan, made.problem).value();
      CHECK(number_at(member(member(*report, "simulation"), "step_seconds")) ==
            simulated.timeline.step_seconds.value());
      const Json& timeline = member(*report, "timeline");
      check_messages(timeline);
      check_memory(member(*report, "memory"), simulated.timeline);
      check_model(member(*report, "model"), planned->plan, *made.profile);
      if (simulated.timeline.duration > Seconds(0)) check_path(timeline);
      ++reported;
    }
  }
  CHECK(reported > 100);
}

TEST_CASE("a plan that fits beside base memory is not said to be too large") {
  const Model model = load_model("vgg16").value();
  const auto kinds = load_cluster("2xV100").value().kinds();
  const Profile profile =
      analytic_profile(model, kinds, std::vector{8}).value();
  int fitting = 0, too_large = 0;
  for (int megabytes = 2000; megabytes <= 8000; megabytes += 250) {
    CAPTURE(megabytes);
    const Cluster cluster =
        parse_cluster(R"({"format": "pipewright/cluster", "version": 1,
            "name": "pair", "kinds": [{"name": "V100", "base_memory": "1.5GB",
            "fragmentation": 0.1, "memory": ")" +
                          std::to_string(megabytes) + R"(MB"}],
            "devices": [{"kind": "V100", "count": 2}],
            "within_hosts": {"bandwidth": "10GB/s"}})",
                      "pair")
            .value();
    Problem problem = problem_on(profile, cluster, 64, 8);
    Problem plenty = problem;
    const Cluster large = load_cluster("2xV100").value();
    plenty.cluster = &large;
    set_estimators(plenty);
    const Plan plan =
        find_planner("balanced").value()->plan(plenty).value().plan;
    const bool fits = problem.estimate(plan).value().fits;
    ++(fits ? fitting : too_large);
    const Json report = plan_report(plan, problem).value();
    bool says_so = false;
    for (const Json& sentence : *member(report, "summary").if_array())
      if (*member(sentence, "about").if_string() == "memory")
        says_so = member(sentence, "text").if_string()->find("does not fit") !=
                  std::string::npos;
    CHECK(says_so == !fits);
    for (const Json& worker : *member(report, "memory").if_array()) {
      CHECK(number_at(member(worker, "limit_bytes")) ==
            doctest::Approx(megabytes * 1e6).epsilon(1e-6));
      if (fits)
        CHECK(number_at(member(worker, "peak_bytes")) <=
              number_at(member(worker, "limit_bytes")));
    }
  }
  CHECK(fitting > 0);
  CHECK(too_large > 0);
}

TEST_CASE("improvements are what the simulator says of the changed cluster") {
  const Model model = load_model("vgg16").value();
  int compared = 0;
  for (const std::string speed : {"1", "4"}) {
    const std::string twice = std::to_string(2 * std::stoi(speed));
    const Cluster cluster = load_cluster("4xV100@" + speed + "GB/s").value();
    const Cluster faster = load_cluster("4xV100@" + twice + "GB/s").value();
    const Profile profile =
        analytic_profile(model, cluster.kinds(), std::vector{4, 8, 16}).value();
    const Problem problem = problem_on(profile, cluster, 64, 8);
    for (const std::string name : {"uniform", "balanced", "data-parallel"}) {
      CAPTURE(name);
      const Planned planned = find_planner(name).value()->plan(problem).value();
      const auto simulated = simulated_plan(planned.plan, problem);
      REQUIRE(simulated);
      const auto found = improvements(*simulated, planned_anew(*simulated));
      for (std::size_t i = 0; i < found.size(); ++i) {
        CHECK(found[i].saved >= 0.001);
        if (i > 0) CHECK(found[i].saved <= found[i - 1].saved);
        CHECK(found[i].saved ==
              1 - found[i].step / simulated->timeline.step_seconds);
        if (found[i].what != "doubling the bandwidth of all links") continue;
        const Estimate estimate =
            simulating_estimator(profile, faster)(planned.plan).value();
        CHECK(found[i].step.value() ==
              doctest::Approx(estimate.step.value()).epsilon(1e-9));
        ++compared;
      }
    }
  }
  CHECK(compared >= 4);
}

TEST_CASE("what has too many workers or microbatches is thinned out") {
  const Cluster cluster = load_cluster("600xV100@nvlink").value();
  const Profile profile = analytic_profile(load_model("mlp:layers=598").value(),
                                           cluster.kinds(), std::vector{1})
                              .value();
  const Problem problem = problem_on(profile, cluster, 400, 1);
  const Planned planned =
      find_planner("uniform").value()->plan(problem).value();
  REQUIRE(planned.plan.num_workers() > 256);
  const SimulatedPlan simulated = simulated_plan(planned.plan, problem).value();
  const Json timeline = timeline_part(simulated);
  CHECK(list_of(timeline, "workers").size() == 256);
  CHECK(list_of(timeline, "links").empty());
  std::size_t shown = 0;
  double busy_until = 0;
  for (const Json& row : list_of(timeline, "workers")) {
    shown += member(row, "kinds").if_string()->size();
    for (double end : numbers(row, "ends"))
      busy_until = std::max(busy_until, end);
  }
  CHECK(shown <= 121'000);
  CHECK(busy_until == 1e7);
  const std::string told = *member(timeline, "thinned").if_string();
  CHECK(told.find("256 of ") == 0);
  CHECK(told.find("a block is 2 actions") != std::string::npos);
}

TEST_CASE("spread indices have both ends and no duplicates") {
  for (std::size_t size = 0; size < 60; ++size)
    for (std::size_t count = 1; count < 60; ++count) {
      const auto indices = spread_indices(size, count);
      CHECK(indices.size() == std::min(size, count));
      for (std::size_t i = 1; i < indices.size(); ++i)
        CHECK(indices[i] > indices[i - 1]);
      if (indices.size() > 1) CHECK(indices.front() == 0);
      if (indices.size() > 1) CHECK(indices.back() == size - 1);
    }
}

}  // namespace pipewright
