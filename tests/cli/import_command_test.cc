// pipewright import as a person calls it: what it prints, writes and exits
// with.

#include <doctest/doctest.h>

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/base/text.h"
#include "tests/answer.h"
#include "tests/cli/import_folder.h"
#include "tests/profile/formats/formats_samples.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

using Folder = ImportFolder;

}  // namespace

TEST_CASE("import writes a profile and says what it is") {
  Folder folder;
  const std::string out = folder / "profile.json";
  const Answer answer =
      import_with((folder / "toy/graph.txt") + " --samples 8 -o " + out);
  CHECK(answer.code == 0);
  CHECK(says(answer, "recognised: pipedream, layer graph with plan (1 file)"));
  CHECK(says(answer, "layers: 3, edges: 3 (in the source: 4 nodes, 4"));
  CHECK(says(answer, "estimated: the split of backward"));
  CHECK(says(answer, "dropped: 1 input node that loads data (9 ms)"));
  CHECK(says(answer, "wrote " + out));
  auto text = read_file(out);
  REQUIRE(text);
  auto profile = parse_profile(*text, out);
  REQUIRE(profile);
  CHECK(profile->times.at("V100").count(8) == 1);
}

TEST_CASE("import --json is one object") {
  Folder folder;
  const Answer answer = import_with((folder / "toy/graph.txt") + " --json");
  CHECK(answer.code == 0);
  auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  CHECK(*json->find("from")->if_string() == "pipedream");
  REQUIRE(json->find("profile")->if_object());
  CHECK(json->find("profile")->find("times")->if_array()->size() == 1);
  CHECK(json->find("written")->is_null());
}

TEST_CASE("import fails with the right code and place") {
  Folder folder;
  Answer answer = import_with((folder / "bad.txt") + " --from pipedream");
  CHECK(answer.code == 65);
  CHECK(says(answer, "bad.txt:1: expected \"forward_compute_time=\""));
  answer = import_with(folder / "none.txt");
  CHECK(answer.code == 66);
  answer = import_with((folder / "hybrid_conf.json") + " -o " +
                       (folder / "profile.json"));
  CHECK(answer.code == 78);
  CHECK(says(answer, "no profile to write"));
  CHECK_FALSE(fs::exists(folder / "profile.json"));
  answer = import_with((folder / "bad.txt") + " --from pipedraem");
  CHECK(answer.code == 78);
  CHECK(says(answer, "did you mean \"pipedream\"?"));
  CHECK(import_with("").code == 2);
  CHECK(import_with((folder / "toy/graph.txt") + " --samples 0").code == 2);
}

TEST_CASE("whatever kind is named, missing is 66 and empty 65") {
  for (const Importer& importer : importers()) {
    CAPTURE(importer.name);
    const std::string from = " --from " + importer.name;
    CHECK(import_with("/no/such/file" + from).code == 66);
    const Answer empty = import_with("/dev/null" + from);
    CHECK(empty.code == 65);
    CHECK(says(empty, "/dev/null"));
  }
}

TEST_CASE("a measured plan becomes a plan, a cluster and a profile of ours") {
  Folder folder;
  std::string files;
  for (const char* name : {"plan_config.json", "OPT/V100-16/profile.json",
                           "llm_info.json", "network.json", "cluster.json"})
    files += (folder / name) + " ";
  const std::string written = "-o " + (folder / "p.json") + " --plan " +
                              (folder / "plan.json") + " --cluster " +
                              (folder / "c.json");
  const Answer imported = import_with(files + written + " --json");
  CHECK(imported.code == 0);
  const auto json = parse_json(imported.text, "stdout");
  REQUIRE(json);
  const Json& plan = json->find("plans")->if_array()->at(0);
  const Json& stage = plan.find("stages")->if_array()->at(1);
  CHECK(*stage.find("devices")->if_array()->at(0).if_string() == "V100-16");
  CHECK(stage.find("tensor_parallel")->if_array()->size() == 1);
  CHECK(plan.find("measured_reduce_seconds"));
  const auto ours = parse_json(read_file(folder / "plan.json").value(), "plan");
  REQUIRE(ours);
  CHECK(ours->find("device_kinds")->to_line() == "[\"V100-16\",\"V100-16\"]");
  const Answer simulated = answer_of(
      PIPEWRIGHT_BINARY " simulate " + (folder / "plan.json") + " --profile " +
      (folder / "p.json") + " --cluster " + (folder / "c.json") + " --json");
  CHECK(simulated.code == 0);
  const auto timeline = parse_json(simulated.text, "stdout");
  REQUIRE(timeline);
  // Two stages of 0.3 s and 0.6 s per microbatch, eight microbatches, and 0.31
  // ms for the gradients of a stage's layer; 32 bytes take no time at all.
  CHECK(
      parse_real(timeline->find("step_seconds")->to_line()).value() ==
      doctest::Approx(0.1 + 8 * (0.6 + 0.00031) + 0.2 + 0.00031).epsilon(1e-5));
}

TEST_CASE("replicas on one host sum at the rate of all their GPUs") {
  Folder folder;
  const std::string gpus =
      "[[[\"V100-16\", 1, \"z\"]], 1], [[[\"V100-16\", 1, \"z\"]], 1]";
  REQUIRE(write_file(
      folder / "plan_config.json",
      "{\"pipeline_list\": [{\"num_stages\": 1, \"layers_per_stage\": "
      "[[0, 1]], \"tmp_per_stage\": [[" +
          gpus + ", " + gpus +
          "]], \"dp\": [4]}],\n\"mbs\": 4, \"gbs\": 32, \"real\": 1.5}"));
  REQUIRE(write_file(folder / "network.json",
                     "{\"inter\": {\"V100-16\": {\"1\": [[0, 0, 2], 2e9]}}, "
                     "\"intra\": {\"V100-16\": {\"2\": [[0, 0, 49], 49e9], "
                     "\"4\": [[0, 0, 5], 5e9]}}}"));
  std::string files;
  for (const char* name : {"plan_config.json", "OPT/V100-16/profile.json",
                           "llm_info.json", "network.json", "cluster.json"})
    files += (folder / name) + " ";
  const Answer imported =
      import_with(files + "-o " + (folder / "p.json") + " --plan " +
                  (folder / "plan.json") + " --cluster " + (folder / "c.json"));
  CHECK_MESSAGE(imported.code == 0, imported.text);
  const auto text = read_file(folder / "c.json");
  REQUIRE(text);
  const auto cluster = parse_cluster(*text, "c.json");
  REQUIRE(cluster);
  REQUIRE(cluster->num_devices() == 4);
  const Link* link = cluster->link(DeviceId(0), DeviceId(3));
  REQUIRE(link);
  CHECK(message_rate(*link, Bytes(1 << 20)) == BytesPerSecond(49e9));
  CHECK(collective_rate(*link, Bytes(1 << 20)) == BytesPerSecond(5e9));
}

TEST_CASE("plans and devices of other sources, and what is missing") {
  Folder folder;
  const std::string plan = " --plan " + (folder / "plan.json");
  const std::string cluster = " --cluster " + (folder / "c.json");
  // PipeDream: stages, but no network.
  Answer answer =
      import_with((folder / "toy/graph.txt") + plan + cluster + " --samples 4");
  CHECK(answer.code == 78);
  CHECK(says(answer, "--on CLUSTER"));
  answer =
      import_with((folder / "toy/graph.txt") + plan + cluster +
                  " --samples 4 --on 2xV100@1GB/s -o " + (folder / "p.json"));
  CHECK(answer.code == 0);
  answer = answer_of(PIPEWRIGHT_BINARY " validate " + (folder / "plan.json") +
                     " --profile " + (folder / "p.json") + " --cluster " +
                     (folder / "c.json") + " 2>&1");
  CHECK(answer.code == 0);
  // Piper: devices with links, but no plan.
  const std::string piper =
      PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/piper/toy.json";
  answer = import_with(piper + cluster);
  CHECK(answer.code == 0);
  CHECK(answer_of(PIPEWRIGHT_BINARY " cluster " + (folder / "c.json")).code ==
        0);
  answer = import_with(piper + plan);
  CHECK(answer.code == 78);
  CHECK(says(answer, "no plan to write"));
  // A plan without its layers.
  answer = import_with((folder / "hybrid_conf.json") + plan);
  CHECK(answer.code == 78);
  CHECK(says(answer, "layer times of its model"));
}

TEST_CASE("import says why a file is not a plan of stages") {
  const Folder folder;
  folder.write("graph.txt",
               "node1 -- Linear -- forward_compute_time=1.0, "
               "backward_compute_time=2.0, activation_size=4.0, "
               "parameter_size=8.0\n");
  const std::string plan = " --plan " + (folder / "plan.json") + " --on 4xV100";
  Answer answer = import_with(folder.files({"hybrid_conf.json", "graph.txt"}) +
                              "--samples 32 --device V100" + plan);
  CHECK_MESSAGE(says(answer, "modules of PipeDream's runtime, not layers"),
                answer.text);
  CHECK_FALSE(says(answer, "--blocks"));
  const std::string samples = PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/";
  const std::string toy = samples + "dnn-partitioning/toy";
  answer = import_with(toy + ".json " + toy + "_expert.json" + plan);
  CHECK_MESSAGE(says(answer, "pipewright place INSTANCE solves the instance"),
                answer.text);
}

TEST_CASE("simulate does not advise an import that fails") {
  const Folder folder;
  folder.write("mp_conf.json", "{\"module_to_stage_map\": [0, 1]}");
  const Answer answer = answer_of(PIPEWRIGHT_BINARY " simulate " +
                                  (folder / "mp_conf.json") + " 2>&1");
  CHECK(answer.code == 65);
  CHECK(says(answer, "import cannot read it: "));
  CHECK_FALSE(says(answer, "pipewright import"));
}

TEST_CASE("simulate says who reads a plan of another system") {
  Folder folder;
  const std::string samples = PIPEWRIGHT_SOURCE_DIR "/fuzz/samples/";
  const std::pair<std::string, std::string> files[] = {
      {folder / "plan_config.json", "sailor"},
      {folder / "toy/graph.txt", "pipedream"},
      {folder / "hybrid_conf.json", "pipedream"},
      {samples + "galvatron/galvatron_config.json", "galvatron"},
      {samples + "piper/toy.json", "piper"}};
  for (const auto& [file, system] : files)
    for (const std::string cluster : {"", " --cluster 2xV100"}) {
      const Answer answer =
          answer_of(PIPEWRIGHT_BINARY " simulate " + file + cluster + " 2>&1");
      CHECK(answer.code == 65);
      CHECK(says(answer, "this is a file of " + system + ", not a plan file"));
      CHECK(says(answer, "pipewright import " + file));
    }
}

TEST_CASE("simulate names --plan only for files that have a plan") {
  Folder folder;
  for (const FormatSample& sample : format_samples()) {
    CAPTURE(sample.file.name);
    const std::string file =
        folder / sample.file.name.substr(sample.file.name.rfind('/') + 1);
    REQUIRE(write_file(file, sample.file.text));
    const Answer answer =
        answer_of(PIPEWRIGHT_BINARY " simulate " + file + " 2>&1");
    CHECK(answer.code == 65);
    CHECK(says(answer, "this is a file of " + sample.from));
    CHECK(says(answer, file + " "));
    const bool has_plan = sample.file.name == "plan_config.json" ||
                          sample.file.name == "toy/graph.txt";
    CHECK(says(answer, "--plan our-plan.json") == has_plan);
  }
}

TEST_CASE("simulate says who reads a schedule's CSV") {
  Folder folder;
  const std::string file = folder / "1f1b.csv";
  // A damaged file is one, too.
  for (const char* text : {"0F0,0F1,,0B0,0B1\n,1F0,1B0,1F1,1B1\n",
                           ",1F0,1B0\n0F0,,,0B0\n", "0F0,0B0\n1F0,what\n"}) {
    folder.write("1f1b.csv", text);
    const Answer answer = run_pipewright("simulate " + file);
    CHECK(answer.code == 65);
    CHECK(says(answer, file + ": this is a schedule of "
                              "torch.distributed.pipelining, not a plan file"));
    CHECK(says(answer, "pipewright validate " + file));
    CHECK(says(answer, "pipewright schedule " + file));
  }
  for (const char* other : {"", "\n\n", ",,,\n", "1,2,4\n3.5, 4.5, 5.0\n"}) {
    folder.write("1f1b.csv", other);
    CHECK_FALSE(says(run_pipewright("simulate " + file), "is a schedule"));
  }
}

TEST_CASE("a file of nobody's is refused in one line") {
  Folder folder;
  const std::string file = folder / "other.json";
  REQUIRE(write_file(file, "{\"layers\": 26, \"heads\": 16}\n"));
  const Answer answer =
      answer_of(PIPEWRIGHT_BINARY " simulate " + file + " 2>&1");
  CHECK(answer.code == 65);
  CHECK(answer.text == "pipewright: " + file +
                           ":1: missing key \"format\" (here it is "
                           "\"pipewright/plan\")\n");
}

}  // namespace pipewright
