// pipewright import on plans of Sailor that are not as its authors' are: what
// is not measured, missing, or of another GPU.

#include <doctest/doctest.h>

#include "pipewright/base/json.h"
#include "tests/cli/import_folder.h"

namespace pipewright {
namespace {

const std::vector<std::string> kSailorFiles = {
    "plan_config.json", "OPT/V100-16/profile.json", "llm_info.json",
    "network.json", "cluster.json"};

// The sample with a change.
class ChangedPlan {
 public:
  void change(const std::string& from, const std::string& to) {
    const std::size_t at = text_.find(from);
    REQUIRE(at != std::string::npos);
    text_.replace(at, from.size(), to);
    folder.write("plan_config.json", text_);
  }

  ImportFolder folder;

 private:
  std::string text_ = sample_named("plan_config.json").text;
};

Json plan_in(const Answer& answer) {
  CHECK_MESSAGE(answer.code == 0, answer.text);
  const auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  return json->find("plans")->if_array()->at(0);
}

// The second stage on another kind, of which machines and network are known.
void use_a100(ChangedPlan& plan) {
  plan.change("1, \"z\"]], 1]], [[[[\"V100-16\"",
              "1, \"z\"]], 1]], [[[[\"A100-40\"");
  plan.folder.write("network.json",
                    "{\"inter\": {\"V100-16\": {\"1\": [[0, 0, 2], 2e9]}, "
                    "\"A100-40\": {\"1\": [[0, 0, 3], 3e9]}}}");
  plan.folder.write(
      "cluster.json",
      "{\"V100-16\": {\"gpus_per_node\": 4, \"mem_per_gpu\": 17179869184},\n"
      "\"A100-40\": {\"gpus_per_node\": 4, \"mem_per_gpu\": 42949672960}}");
}

// The host of each device of the cluster that import writes: "0 1 ".
std::string hosts_of(const ImportFolder& folder) {
  const auto text = read_file(folder / "c.json");
  REQUIRE(text);
  const auto json = parse_json(*text, "c.json");
  REQUIRE(json);
  std::string hosts;
  for (const Json& device : *json->find("devices")->if_array()) {
    const Json* host = device.find("host");
    hosts += (host ? host->to_line() : "0") + " ";
  }
  return hosts;
}

std::string refusal(const ImportFolder& folder,
                    const std::vector<std::string>& names) {
  const Answer answer = import_with(folder.files(names) + folder.outputs());
  CHECK(answer.code == 78);
  for (const char* file : {"p.json", "plan.json", "c.json"})
    CHECK_FALSE(std::filesystem::exists(folder / file));
  return answer.text;
}

}  // namespace

TEST_CASE("sailor: a measurement that is not a number was not made") {
  for (const std::string value : {"\"OOM\"", "\"1000000\"", "NaN", "Infinity",
                                  "-Infinity", "[1]", "{}", "false"}) {
    CAPTURE(value);
    ChangedPlan plan;
    plan.change("\"max_mem\": 1000000", "\"max_mem\": " + value);
    const std::string file = plan.folder / "plan_config.json";
    const Json memory = plan_in(import_with(file + " --json"));
    CHECK_FALSE(memory.find("measured_memory_bytes"));
    CHECK(memory.find("measured_step_seconds"));
    CHECK(says(import_with(file), "not measured: max_mem is "));
    plan.change("\"real\": 1.5", "\"real\": " + value);
    const Answer neither = import_with(file);
    CHECK_FALSE(says(neither, "per step"));
    CHECK(says(neither, "not measured: real is "));
    CHECK(says(neither, ", not a number, in " + file));
  }
}

TEST_CASE("sailor: a null is missing without a note, a wrong number refused") {
  ChangedPlan plan;
  const std::string file = plan.folder / "plan_config.json";
  plan.change("\"max_mem\": 1000000", "\"max_mem\": null");
  const Answer missing = import_with(file);
  CHECK(missing.code == 0);
  CHECK_FALSE(says(missing, "not measured"));
  plan.change("null", "-1");
  CHECK(import_with(file).code == 65);
}

TEST_CASE("sailor: what only measurements may be is refused elsewhere") {
  ChangedPlan plan;
  plan.change("\"mbs\": 4", "\"mbs\": NaN");
  const Answer answer = import_with(plan.folder / "plan_config.json");
  CHECK(answer.code == 65);
  CHECK(says(answer, "mbs: expected an integer"));
  plan.change("\"zone\": \"z\"", "\"zone\": \"a NaN\\\" Infinity\"");
  plan.change("\"mbs\": NaN", "\"mbs\": 4");
  CHECK(import_with(plan.folder / "plan_config.json").code == 0);
}

TEST_CASE("sailor: GPUs of two hosts have one kind where it is the same") {
  for (const auto& [second, kind] :
       {std::pair<std::string, std::string>{"V100-16", "V100-16"},
        {"A100-40", "V100-16+A100-40"}}) {
    ChangedPlan plan;
    plan.change(
        "[[\"V100-16\", 1, \"z\"]], 1]",
        "[[\"V100-16\", 1, \"z\"], [\"" + second + "\", 1, \"z\"]], 2]");
    const Json json =
        plan_in(import_with((plan.folder / "plan_config.json") + " --json"));
    const Json& stage = json.find("stages")->if_array()->at(0);
    CHECK(*stage.find("devices")->if_array()->at(0).if_string() == kind);
  }
}

TEST_CASE("sailor: a group of several kinds is refused as such") {
  ChangedPlan plan;
  for (int stage = 0; stage < 2; ++stage)
    plan.change("[[\"V100-16\", 1, \"z\"]], 1]",
                "[[\"V100-16\", 1, \"z\"], [\"A100-40\", 1, \"z\"]], 2]");
  CHECK(contains(refusal(plan.folder, kSailorFiles),
                 "a tensor-parallel group of V100-16+A100-40 has GPUs of "
                 "several kinds"));
}

TEST_CASE("sailor: layer times of one kind only are refused at import") {
  ChangedPlan plan;
  use_a100(plan);
  const std::string text = refusal(plan.folder, kSailorFiles);
  CHECK(contains(text,
                 "layer 1 is on A100-40, and there are layer times only "
                 "of V100-16"));
  CHECK(contains(text,
                 "import the layer times of A100-40 too: "
                 "MODEL/A100-40/profile.json"));
  // With them it can be simulated.
  plan.folder.write("OPT/A100-40/profile.json",
                    sample_named("OPT/V100-16/profile.json").text);
  std::vector<std::string> all = kSailorFiles;
  all.push_back("OPT/A100-40/profile.json");
  const Answer imported =
      import_with(plan.folder.files(all) + plan.folder.outputs());
  CHECK_MESSAGE(imported.code == 0, imported.text);
  CHECK(run_pipewright("simulate " + (plan.folder / "plan.json") +
                       " --profile " + (plan.folder / "p.json") +
                       " --cluster " + (plan.folder / "c.json"))
            .code == 0);
}

TEST_CASE("sailor: a plan's nodes are its hosts where GPUs divide equally") {
  ChangedPlan plan;
  const std::string files = plan.folder.files(kSailorFiles);
  const Answer two = import_with(files + plan.folder.outputs());
  CHECK_MESSAGE(two.code == 0, two.text);
  CHECK(hosts_of(plan.folder) == "0 1 ");
  CHECK(plan_in(import_with(files + "--json")).find("hosts")->to_line() == "2");
  plan.change("\"N\": 2", "\"N\": 1");
  CHECK(import_with(files + plan.folder.outputs()).code == 0);
  CHECK(hosts_of(plan.folder) == "0 ");
  plan.change("\"N\": 1", "\"N\": 3");
  const Answer three = import_with(files + plan.folder.outputs());
  CHECK(hosts_of(plan.folder) == "0 ");
  CHECK(says(three, "assumed: the groups fill 1 host; "));
  CHECK(says(three, "has N = 3, and they cannot fill as many equally"));
  plan.change("\"N\": 3", "\"N\": \"3\"");
  CHECK(says(import_with(files + plan.folder.outputs()), "not read: \"N\""));
}

TEST_CASE("sailor: a count that is not the degree is kept and noted") {
  ChangedPlan plan;
  const std::string file = plan.folder / "plan_config.json";
  CHECK_FALSE(says(import_with(file), "assumed: a group"));
  plan.change("[[\"V100-16\", 1, \"z\"]], 1]", "[[\"V100-16\", 4, \"z\"]], 1]");
  CHECK(says(import_with(file),
             "assumed: a group of stage 0 has 1 GPU, its tensor-parallel "
             "degree, and not the 4 that " +
                 file + " counts"));
  const Json json = plan_in(import_with(file + " --json"));
  const Json& stage = json.find("stages")->if_array()->at(0);
  CHECK(stage.find("gpus")->to_line() == "[4]");
}

TEST_CASE("sailor: a source's minibatch is not changed by an option") {
  ChangedPlan plan;
  plan.change("\"gbs\": 32", "\"gbs\": 31");
  const std::string text = refusal(plan.folder, kSailorFiles);
  CHECK(contains(text, "a minibatch of 31 samples is not a whole number"));
  CHECK(contains(text, "it can only be changed there"));
  CHECK_FALSE(contains(text, "--minibatch"));
}

namespace {

std::string replica_of(int degree) {
  const std::string number = std::to_string(degree);
  return "[[[\"V100-16\", " + number + ", \"z\"]], " + number + "]";
}

// Files that import writes for one stage with replicas of these degrees.
std::vector<std::string> mixed_stage(int first, int second) {
  const ImportFolder folder;
  folder.write("plan_config.json",
               "{\"pipeline_list\": [{\"num_stages\": 1, "
               "\"layers_per_stage\": [[0, 1]], \"tmp_per_stage\": [[" +
                   replica_of(first) + ", " + replica_of(second) +
                   "]], \"dp\": [2]}], \"mbs\": 4, \"gbs\": 32}");
  const std::string sizes = sample_named("llm_info.json").text;
  const std::string of_one = sizes.substr(sizes.find("{\"0\""));
  const std::string layers = of_one.substr(0, of_one.size() - 2);
  std::string larger = layers;  // in groups of two a GPU keeps 20 bytes, not 16
  larger.replace(larger.find("\"act_mem_bytes\": 16"), 19,
                 "\"act_mem_bytes\": 20");
  folder.write("llm_info.json",
               "{\"OPT\": {\"1\": " + layers + ", \"2\": " + larger + "}}");
  const Answer answer =
      import_with(folder.files(kSailorFiles) + folder.outputs());
  CHECK_MESSAGE(answer.code == 0, answer.text);
  CHECK(says(answer,
             "assumed: where replicas of a stage have different "
             "tensor-parallel degrees, a layer has on each the bytes "
             "of the largest group") == (first != second));
  return {*read_file(folder / "p.json"), *read_file(folder / "c.json")};
}

}  // namespace

TEST_CASE("sailor: the order of replicas of two degrees changes no size") {
  const std::string one_first = mixed_stage(1, 2)[0];
  CHECK(one_first == mixed_stage(2, 1)[0]);
  CHECK(contains(one_first, "128"));  // 4 x (2 x 20 - 8)
}

TEST_CASE("sailor: base memory is a group's, whatever the other groups are") {
  const std::string cluster = mixed_stage(1, 2)[1];
  CHECK(contains(cluster, "\"base_memory\": 2000000000"));
  CHECK(contains(cluster, "\"base_memory\": 6000000000"));
}

TEST_CASE("sailor: without sizes, import says what it assumes") {
  const ImportFolder folder;
  const Answer without = import_with(folder / "OPT/V100-16/profile.json");
  CHECK(without.code == 0);
  CHECK(says(without,
             "missing: bytes of parameters and outputs; import "
             "llm_info.json too"));
  CHECK(says(without, "assumed: 0 bytes of each"));
  const Answer with =
      import_with(folder.files({"OPT/V100-16/profile.json", "llm_info.json"}));
  CHECK_FALSE(says(with, "assumed: 0 bytes"));
}

TEST_CASE("sailor: layer times of other GPUs name both kinds") {
  const ImportFolder folder;
  const std::string times = sample_named("OPT/V100-16/profile.json").text;
  const std::vector<std::string> rest = {"plan_config.json", "llm_info.json",
                                         "network.json", "cluster.json"};
  for (const auto& [file, kind] : {std::pair<std::string, std::string>{
                                       "OPT/A100-40/profile.json", "A100-40"},
                                   {"times.json", "accelerator"}}) {
    folder.write(file, times);
    std::vector<std::string> names = rest;
    names.push_back(file);
    const std::string text = refusal(folder, names);
    CHECK(contains(
        text, "its GPUs are V100-16, but " + folder / file + " is of " + kind));
    CHECK(contains(text, "MODEL/V100-16/profile.json"));
  }
  const Answer named =
      import_with(folder.files(rest) + folder / "times.json" +
                  " --device V100-16 --model OPT " + folder.outputs());
  CHECK_MESSAGE(named.code == 0, named.text);
}

TEST_CASE("sailor: a degree that the layer times do not have is the plan's") {
  ChangedPlan plan;
  plan.change("1, \"z\"]], 1]", "8, \"z\"]], 8]");
  const std::string text = refusal(plan.folder, kSailorFiles);
  CHECK(contains(text, "no times at tensor-parallel degree 8, the plan's"));
  CHECK_FALSE(contains(text, "--tensor-parallel"));
}

}  // namespace pipewright
