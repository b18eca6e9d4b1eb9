// The command with which simulate answers a published file of another system
// works once what stands in capitals is filled in.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/answer.h"
#include "tests/skipped.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using Values = std::vector<std::pair<std::string, std::string>>;

// A folder to work in, gone when the test ends.
class WorkFolder {
 public:
  WorkFolder()
      : path_(fs::temp_directory_path() /
              ("pipewright-usage-" + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~WorkFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Answer run(const std::string& arguments) const {
    return answer_of("cd " + path_.string() + " && " PIPEWRIGHT_BINARY " " +
                     arguments + " 2>&1");
  }

 private:
  fs::path path_;
};

void fill_in(std::string& text, const Values& values) {
  for (const auto& [name, value] : values)
    if (const std::size_t at = text.find(name); at != std::string::npos)
      text.replace(at, name.size(), value);
}

// What follows "pipewright" in the hint.
std::string command_in(const std::string& answer) {
  const std::string program = "pipewright ";
  const std::size_t import = answer.find(program + "import ");
  const std::size_t start =
      import == std::string::npos ? answer.find(program + "place ") : import;
  REQUIRE(start != std::string::npos);
  std::string command = answer.substr(start + program.size());
  for (const char* end : {" makes ", " prints ", " solves "})
    command = command.substr(0, command.find(end));
  return command;
}

// The command that simulate names for a file, filled in.
std::string usage_of(const WorkFolder& folder, const fs::path& file,
                     Values values) {
  const Answer answer = folder.run("simulate " + file.string());
  CHECK(answer.code == 65);
  std::string command = command_in(answer.text);
  const Values usual = {{"--tensor-parallel N", "--tensor-parallel 4"},
                        {"--samples N", "--samples 32"},
                        {"--sequence N", "--sequence 2048"},
                        {"--blocks N", "--blocks 32"},
                        {"--device KIND", "--device V100"},
                        {"--on CLUSTER", "--on 16xV100@10GB/s"}};
  values.insert(values.end(), usual.begin(), usual.end());
  fill_in(command, values);
  return command;
}

void check_usage(const fs::path& file, const Values& values = {}) {
  CAPTURE(file.string());
  const WorkFolder folder;
  const std::string command = usage_of(folder, file, values);
  CAPTURE(command);
  const Answer imported = folder.run(command);
  CAPTURE(imported.text);
  CHECK(imported.code == 0);
  if (!contains(command, "--plan our-plan.json")) return;
  const Answer simulated = folder.run(
      "simulate our-plan.json --profile our-profile.json --cluster "
      "our-cluster.json");
  CHECK(contains(simulated.text, "\nstep "));
}

fs::path published_data() {
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  if (!folder) testing::skip("PIPEWRIGHT_DATA is not set");
  return folder ? folder : "";
}

}  // namespace

TEST_CASE("the command that simulate names: Sailor") {
  const fs::path data = published_data();
  if (data.empty()) return;
  const fs::path sailor = data / "sailor/sailor";
  const fs::path planner = sailor / "Planner";
  const fs::path sizes = planner / "llm_info.json";
  const fs::path times =
      planner / "sailor_planner/profiles/OPT-350/GH-96/profile.json";
  const fs::path machines =
      planner / "simulations/configs/basic_cluster_config.json";
  const fs::path network = sailor / "providers/network_coeffs_all_homo.json";
  const Values files = {{"LLM_INFO.json", sizes},
                        {"MACHINES.json", machines},
                        {"MODEL/KIND/profile.json...", times},
                        {"MODEL/KIND/profile.json", times},
                        {"NETWORK.json...", network}};
  check_usage(planner /
                  "simulations/validation/clariden/OPT-350/N2"
                  "/plan_config_N2_D1.json",
              files);
  for (const fs::path& file : {sizes, times, machines, network})
    check_usage(file, files);
}

TEST_CASE("the command that simulate names: Galvatron") {
  const fs::path data = published_data();
  if (data.empty()) return;
  const fs::path gpt = data / "galvatron/galvatron/models/gpt_hf";
  const std::string size = "_profiling_bf16_hidden2560_head32_seqlen2048.json";
  const fs::path times = gpt / "configs" / ("computation" + size);
  const fs::path memory = gpt / "configs" / ("memory" + size);
  const Values files = {{"COMPUTATION_PROFILING.json", times},
                        {"MEMORY_PROFILING.json", memory}};
  const std::string plan =
      "galvatron_config_gpt-2.7b_2nodes_8gpus_per_node_"
      "40GB_bf16_";
  for (const fs::path& file :
       {gpt / "configs" / (plan + "example.json"),
        gpt / "configs" / (plan + "3D_example.json"), times, memory,
        gpt / "meta_configs/gpt-2.7b.json",
        data / "galvatron/galvatron/profile_hardware/hardware_configs"
               "/p2p_bandwidth_1nodes_8gpus_per_node.json"})
    check_usage(file, files);
}

TEST_CASE("the command that simulate names: other systems") {
  const fs::path data = published_data();
  if (data.empty()) return;
  for (const char* file :
       {"pipedream/graph/test_graphs/vgg16_partitioned.txt",
        "pipedream/profiler/translation/profiles/gnmt/graph.txt",
        "pipedream/runtime/image_classification/models/vgg16/gpus=4"
        "/hybrid_conf.json",
        "piper/inputs/bert32a100.json",
        "aceso/profiler/profiled-time-eurosys/gpt_350M_mbs1_tp4_algo0.csv",
        "aceso/profiler/profiled-time-eurosys/p2p_inter_node.csv",
        "dnn-partitioning/throughput-inputs/LayerGraphs/bert24_training.json",
        "dnn-partitioning/human-experts/bert24_training_expert.json"})
    check_usage(data / file);
}

}  // namespace pipewright
