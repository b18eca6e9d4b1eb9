#include <doctest/doctest.h>

#include "pipewright/profile/formats/pipedream_graph.h"
#include "tests/profile/formats/formats_samples.h"

namespace pipewright {
namespace {

Result<Imported> import_text(const std::string& text,
                             const ImportOptions& options = {}) {
  const SourceFile file{"g.txt", text};
  return import_files(std::span(&file, 1), "pipedream", options);
}

std::string node(const std::string& id, const std::string& description = "A",
                 const std::string& figures =
                     "forward_compute_time=1, backward_compute_time=2, "
                     "activation_size=3, parameter_size=4") {
  return id + " -- " + description + " -- " + figures + "\n";
}

std::string error_of(const std::string& text) {
  auto imported = import_text(text);
  REQUIRE_FALSE(imported.ok());
  CHECK(imported.error().code == ErrorCode::MalformedInput);
  return imported.error().to_text();
}

}  // namespace

TEST_CASE("a graph stays a graph, its data loading is dropped") {
  ImportOptions options;
  options.samples = 32;
  const SourceFile file = sample_named("toy/graph.txt");
  auto imported = import_files(std::span(&file, 1), "", options);
  REQUIRE(imported);
  const Profile& profile = *imported->profile;
  REQUIRE(profile.num_layers() == 3);
  CHECK(profile.model == "toy");
  CHECK(profile.layers[0].name == "node2");
  CHECK(profile.layers[0].kind == "ReLU");
  CHECK(profile.layers[0].keeps_model_input);
  CHECK(profile.layers[0].inputs.empty());
  CHECK(profile.layers[1].name == "node3");
  CHECK(profile.layers[2].name == "node10");
  CHECK(profile.layers[2].inputs ==
        std::vector<LayerId>{LayerId(0), LayerId(1)});
  const auto& sizes = profile.sizes.at(32);
  CHECK(sizes[0].keeps_private == Bytes(64));  // the dropped node's output
  CHECK(sizes[1].output == Bytes(20));         // a tuple: 16 and 4
  CHECK(profile.parameter_bytes() == Bytes(128));
  const auto& times = profile.times.at("V100").at(32);
  CHECK(times[1].forward.value() == doctest::Approx(2e-3));
  CHECK(times[1].backward().value() == 4e-3);
  CHECK(times[1].backward_weight.value() == 2e-3);
  CHECK(times[2].backward_weight == Seconds(0));  // no weights
  CHECK(imported->totals.nodes == 4);
  CHECK(imported->totals.edges == 4);
  CHECK(imported->totals.forward.value() == doctest::Approx(12.5e-3));
  CHECK(profile.origin.split_is_estimated);
  CHECK(profile.origin.keeps_is_estimated);
}

TEST_CASE("stage_id makes a plan over the layers") {
  const SourceFile file = sample_named("toy/graph.txt");
  auto imported = import_files(std::span(&file, 1), "", {});
  REQUIRE(imported);
  REQUIRE(imported->plans.size() == 1);
  const auto& stages = imported->plans[0].stages;
  REQUIRE(stages.size() == 2);
  CHECK(stages[0].layers == std::vector<int>{0});
  CHECK(stages[1].layers == std::vector<int>{1, 2});
  CHECK(import_text(node("a") + "b -- A -- forward_compute_time=1, "
                                "backward_compute_time=2, activation_size=3, "
                                "parameter_size=4 -- stage_id=0\n")
            .ok() == false);
}

TEST_CASE("samples not named are recorded as one and said") {
  auto imported = import_text(node("a"));
  REQUIRE(imported);
  CHECK(imported->profile->sizes.count(1) == 1);
  bool said = false;
  for (const std::string& note : imported->notes)
    said = said || note.find("microbatch of 1 sample") != std::string::npos;
  CHECK(said);
  CHECK(imported->profile->origin.description.find("microbatch of 1 sample") !=
        std::string::npos);
}

TEST_CASE("the order does not depend on the order of lines") {
  const std::string a = node("node1") + node("node2") + node("node10");
  const std::string b = node("node10") + node("node2") + node("node1");
  const std::string edges = "\tnode1 -- node10\n";
  const std::string more = "\tnode1 -- node2\n";
  auto first = import_text(a + edges + more);
  auto second = import_text(b + more + edges);
  REQUIRE(first);
  REQUIRE(second);
  CHECK(to_text(*first->profile) == to_text(*second->profile));
  CHECK(first->profile->layers[1].name == "node2");  // before node10
}

TEST_CASE("only a source called Input is dropped") {
  auto imported =
      import_text(node("a") + node("b", "Input gate") + "\ta -- b\n");
  REQUIRE(imported);
  CHECK(imported->profile->num_layers() == 2);
  CHECK(error_of(node("a", "Input0")).find("all nodes only load data") !=
        std::string::npos);
}

TEST_CASE("a bad line is refused with its number and what was expected") {
  CHECK(error_of("").find("no node") != std::string::npos);
  CHECK(error_of(node("a") + "b -- A\n").rfind("g.txt:2: expected a node", 0) ==
        0);
  CHECK(error_of(node("a") + node("b", "A", "forward_compute_time=1, x=2"))
            .rfind("g.txt:2: expected \"backward_compute_time=\", found "
                   "\"x=2\"",
                   0) == 0);
  for (const char* bad : {"-1", "nan", "inf", "1e999", "", "3 4", "0x10"})
    CHECK(error_of(node("a", "A",
                        "forward_compute_time=" + std::string(bad) +
                            ", backward_compute_time=2, activation_size=3, "
                            "parameter_size=4"))
              .rfind("g.txt:1: expected a number", 0) == 0);
  CHECK(error_of(node("a", "A",
                      "forward_compute_time=1, backward_compute_time=2, "
                      "activation_size=[3; x], parameter_size=4"))
            .rfind("g.txt:1: expected a number", 0) == 0);
  CHECK(error_of(node("a") + node("a")) == "g.txt:2: duplicate node a");
  CHECK(error_of(node("a") + "\ta -- b\n") ==
        "g.txt:2: the edge names b, which is not a node of this file");
  CHECK(error_of(node("a") + node("b") + "\ta -- b\n" + node("c"))
            .rfind("g.txt:4: expected an edge", 0) == 0);
  CHECK(error_of(node("a") + "\ta -- a\n").rfind("g.txt:2: ", 0) == 0);
}

TEST_CASE("cycles and repeated edges are refused by name") {
  const std::string nodes = node("a") + node("b") + node("c") + node("d");
  CHECK(error_of(nodes + "\ta -- b\n\tb -- c\n\tc -- b\n\tc -- d\n") ==
        "g.txt: the edges form a cycle through b");
  CHECK(error_of(nodes + "\ta -- b\n\ta -- b\n") ==
        "g.txt: duplicate edge a -- b");
}

TEST_CASE("a runtime plan is read, a malformed one refused with its line") {
  const SourceFile file = sample_named("hybrid_conf.json");
  auto plan = parse_pipedream_plan(file.text, file.name);
  REQUIRE(plan);
  REQUIRE(plan->stages.size() == 2);
  CHECK(plan->stages[0].workers == std::vector<int>{0, 1, 2});
  CHECK(plan->stages[0].replicas == 3);
  CHECK(plan->stages[1].layers == std::vector<int>{1, 2});
  CHECK(plan->depths == std::vector<int>{1, 0});
  auto bad = parse_pipedream_plan(
      "{\"module_to_stage_map\": [0, 2],\n\"stage_to_rank_map\": {\"0\": [0]}}",
      "c.json");
  REQUIRE_FALSE(bad.ok());
  CHECK(bad.error().to_text() ==
        "c.json:1: module_to_stage_map[1]: 2 is not between 0 and 0");
}

}  // namespace pipewright
