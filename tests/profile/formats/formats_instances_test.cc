#include <doctest/doctest.h>

#include <algorithm>

#include "pipewright/profile/formats/assembly.h"
#include "tests/profile/formats/formats_samples.h"

namespace pipewright {
namespace {

std::string text_with(std::string text, const std::string& from,
                      const std::string& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

SourceFile piper_sample() {
  for (const FormatSample& sample : format_samples())
    if (sample.from == "piper") return sample.file;
  return {};
}

bool notes_say(const Imported& imported, const std::string& part) {
  return std::any_of(imported.notes.begin(), imported.notes.end(),
                     [&](const std::string& note) {
                       return note.find(part) != std::string::npos;
                     });
}

}  // namespace

TEST_CASE("dnn-partitioning: the instance in full, in topological order") {
  const Imported imported = imported_from({sample_named("toy.json")});
  REQUIRE(imported.placement);
  const PlacementInstance& instance = *imported.placement;
  CHECK(instance.max_size == 1000);
  CHECK(instance.max_accelerators == 2);
  CHECK(instance.max_cpus == 1);
  REQUIRE(instance.nodes.size() == 3);
  CHECK(instance.nodes[0].id == 1);
  CHECK(instance.nodes[1].id == 7);
  CHECK(instance.nodes[2].id == 9);
  CHECK(instance.nodes[0].cost == 0.5);
  CHECK(instance.nodes[1].cost == 0.25);
  CHECK(instance.nodes[2].cost == 0);
  CHECK(instance.nodes[2].is_backward);
  CHECK(instance.nodes[2].color_class == 2);
  CHECK(instance.nodes[1].cpu_latency == 20);
  REQUIRE(instance.edges.size() == 2);
  CHECK(instance.edges[0].size == 64);
}

TEST_CASE("dnn-partitioning: gradients join their forward node's layer") {
  const Imported imported = imported_from({sample_named("toy.json")});
  REQUIRE(imported.profile);
  const Profile& profile = *imported.profile;
  REQUIRE(profile.num_layers() == 2);
  const auto& times = profile.times.at("accelerator").at(1);
  CHECK(times[1].forward.value() == doctest::Approx(2e-3));
  CHECK(times[1].backward().value() == doctest::Approx(4e-3));
  CHECK(times[0].backward() == Seconds(0));
  CHECK(profile.times.at("instance-cpu").at(1)[1].forward.value() ==
        doctest::Approx(20e-3));
  CHECK(profile.sizes.at(1)[0].output == Bytes(64));
  CHECK(profile.sizes.at(1)[1].keeps_private == Bytes(60));
}

TEST_CASE("dnn-partitioning: loads of a split") {
  const Imported imported = imported_from(
      {sample_named("toy.json"), sample_named("toy_expert.json")});
  REQUIRE(imported.splits.size() == 1);
  auto load = loads(*imported.placement, imported.splits[0]);
  REQUIRE(load);
  // 1 + its output moved; 2 + 4 + the same moved in; nothing on the CPU.
  CHECK(*load == std::vector<double>{1.5, 6.5, 0});
  PlacementSplit broken = imported.splits[0];
  broken.accelerators[0].node_ids = {1, 7};
  CHECK_FALSE(loads(*imported.placement, broken).ok());
  broken.accelerators[0].node_ids = {};
  CHECK_FALSE(loads(*imported.placement, broken).ok());
  broken.accelerators[0].node_ids = {2};
  CHECK_FALSE(loads(*imported.placement, broken).ok());
}

TEST_CASE("dnn-partitioning: no profile if gradients cannot be paired") {
  SourceFile file = sample_named("toy.json");
  file.text = text_with(file.text, "\"colorClass\": 1", "\"colorClass\": 2");
  const Imported imported = imported_from({file});
  CHECK(imported.placement);
  CHECK_FALSE(imported.profile);
  CHECK(imported.no_profile.find("colour class 2 has 2 forward and 1") !=
        std::string::npos);
}

TEST_CASE(
    "dnn-partitioning: unequal costs, cycles, unknown nodes are rejected") {
  const std::string text = sample_named("toy.json").text;
  auto refused_text = [](const std::string& bad) {
    auto result = parse_placement(bad, "f");
    REQUIRE_FALSE(result.ok());
    return result.error().to_text();
  };
  CHECK(refused_text(text_with(text, "\"sourceId\": 7, \"destId\": 9",
                               "\"sourceId\": 1, \"destId\": 9"))
            .find("f:7: edges[1]: the cost 0.25 differs") == 0);
  CHECK(refused_text(text_with(text, "\"destId\": 9", "\"destId\": 1"))
            .find("cycle") != std::string::npos);
  CHECK(refused_text(text_with(text, "\"destId\": 9", "\"destId\": 8"))
            .find("f:7: edges[1].destId: no node has this id") == 0);
  CHECK(refused_text(
            text_with(text, "\"supportedOnFpga\": 1", "\"supportedOnFpga\": 2"))
            .find("2 is not between 0 and 1") != std::string::npos);
  CHECK(refused_text(text_with(text, "\"maxCPUs\"", "\"maxCPU\""))
            .find("found \"maxCPU\"") != std::string::npos);
}

TEST_CASE("piper: the instance in full, forward from recomputation") {
  SourceFile file = piper_sample();
  const Imported imported = imported_from({file});
  REQUIRE(imported.piper);
  CHECK(imported.piper->max_devices == 4);
  CHECK(imported.piper->microbatches == 8);
  const auto& ways = imported.piper->nodes[0].alternatives.at(1);
  REQUIRE(ways.size() == 2);
  CHECK(ways[1].memory_b == 210);
  CHECK(ways[0].sync_backward.at(1) == 0);
  REQUIRE(imported.profile);
  const auto& times = imported.profile->times.at("accelerator").at(1);
  CHECK(times[0].forward.value() == doctest::Approx(0.1));
  CHECK(times[0].backward().value() == doctest::Approx(0.2));
  CHECK(times[0].backward_input == Seconds(0));   // nothing before it
  CHECK(times[1].backward_weight == Seconds(0));  // no weights
  CHECK(imported.profile->sizes.at(1)[0].output == Bytes(32));
  CHECK(imported.profile->sizes.at(1)[0].keeps_private == Bytes(10));
  CHECK(imported.profile->parameter_bytes() == Bytes(100));
  REQUIRE(imported.devices.size() == 1);
  CHECK(imported.devices[0].bandwidth == BytesPerSecond(1e9));

  file.text = text_with(file.text, "activation recomp", "another");
  const Imported without = imported_from({file});
  CHECK(without.piper);
  CHECK_FALSE(without.profile);
}

TEST_CASE("piper: a tensor-parallel group has what its devices have") {
  SourceFile file = piper_sample();
  for (std::size_t at; (at = file.text.find("{\"1\": [")) != std::string::npos;)
    file.text.replace(at, 7, "{\"2\": [");
  file.text = text_with(file.text, "\"maxDevices\": 4", "\"maxDevices\": 5");
  ImportOptions options;
  options.tensor_parallel = 2;
  const Imported imported = imported_from({file}, options);
  REQUIRE(imported.profile);
  const Profile& profile = *imported.profile;
  REQUIRE(profile.times.count("accelerator-tp2") == 1);
  CHECK(profile.times.at("accelerator-tp2").at(1)[0].forward.value() ==
        doctest::Approx(0.1));
  CHECK(profile.parameter_bytes() == Bytes(200));
  CHECK(profile.sizes.at(1)[0].keeps_private == Bytes(20));
  CHECK(profile.sizes.at(1)[0].output == Bytes(32));
  REQUIRE(imported.devices.size() == 1);
  CHECK(imported.devices[0].kind == "accelerator-tp2");
  CHECK(imported.devices[0].count == 2);
  CHECK(imported.devices[0].memory == Bytes(2'000'000'000));
  CHECK(imported.devices[0].bandwidth == BytesPerSecond(2e9));
  CHECK(notes_say(imported, "dropped: 1 of 5 devices"));
  options.tensor_parallel = 8;
  CHECK(imported_from({file}, options).devices.empty());
}

TEST_CASE("piper: times have no unit, implausible ones are said") {
  SourceFile file = piper_sample();
  CHECK(notes_say(imported_from({file}), "assumed: times are in seconds"));
  CHECK_FALSE(notes_say(imported_from({file}), "implausible"));
  file.text = text_with(file.text, "0.6", "600");
  file.text = text_with(file.text, "0.8", "800");
  CHECK(notes_say(imported_from({file}),
                  "implausible: more than 1 s per sample in 1 of 2 layers, "
                  "most in node1: 600 s"));
  ImportOptions options;
  options.time_unit = Seconds(1e-3);
  const Imported in_ms = imported_from({file}, options);
  CHECK_FALSE(notes_say(in_ms, "implausible"));
  CHECK_FALSE(notes_say(in_ms, "assumed: times"));
  CHECK(in_ms.profile->times.at("accelerator").at(1)[1].forward.value() ==
        doctest::Approx(0.2));
}

TEST_CASE("orders: every node after its sources, smallest first") {
  // Random graphs whose edges go up: the order is a permutation, respects all
  // edges, and each choice is the smallest possible one.
  unsigned state = 7;
  auto random = [&state](int n) {
    state = state * 1664525u + 1013904223u;
    return static_cast<int>((state >> 8) % static_cast<unsigned>(n));
  };
  for (int round = 0; round < 200; ++round) {
    const int n = 1 + random(12);
    std::vector<int> name(n);
    for (int i = 0; i < n; ++i) name[i] = i;
    for (int i = n - 1; i > 0; --i) std::swap(name[i], name[random(i + 1)]);
    std::vector<std::pair<int, int>> edges;
    for (int i = 0; i < n; ++i)
      for (int j = i + 1; j < n; ++j)
        if (random(3) == 0) edges.emplace_back(name[i], name[j]);
    std::vector<int> expected;
    std::vector<bool> placed(n, false);
    while (static_cast<int>(expected.size()) < n)
      for (int v = 0; v < n; ++v) {
        if (placed[v]) continue;
        if (std::any_of(edges.begin(), edges.end(), [&](const auto& e) {
              return e.second == v && !placed[e.first];
            }))
          continue;
        placed[v] = true;
        expected.push_back(v);
        break;
      }
    CHECK(topological_order(n, edges) == expected);
  }
}

}  // namespace pipewright
