// pipewright export, from outside: what each system is given for plans that it
// can run, and what is named where it cannot.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "pipewright/plan/plan.h"
#include "pipewright/schedules/generator.h"
#include "tests/answer.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kBlocks = 6;
// Layers of gpt:layers=6: three before the blocks, twelve in each, three after.
constexpr int kBefore = 3, kInBlock = 12, kAfter = 3;
constexpr int kLayers = kBefore + kBlocks * kInBlock + kAfter;

int first_layer(int block) { return kBefore + block * kInBlock; }

// Stages that begin with these blocks, after the first.
Plan plan_of(const std::vector<int>& blocks, const std::string& schedule,
             int workers) {
  std::vector<int> cuts;
  for (int block : blocks) cuts.push_back(first_layer(block));
  Plan plan;
  plan.model = "gpt:layers=6";
  plan.planner = "by hand";
  plan.minibatch = 32;
  plan.microbatch = 8;
  plan.stages = stages_of_cuts(cuts, kLayers);
  const int stages = plan.num_stages();
  plan.schedule_name = schedule;
  plan.schedule =
      generate_schedule(schedule, {workers, 4, stages / workers, {}, {}, {}})
          .value();
  for (int w = 0; w < workers; ++w) plan.devices.emplace_back(w);
  for (int w = 0; w < workers; ++w)
    for (const ComputeAction& action :
         plan.schedule.sections().body[static_cast<std::size_t>(w)])
      plan.stages[action.stage.index()].workers = {WorkerId(w)};
  return plan;
}

class ExportFolder {
 public:
  ExportFolder()
      : path_(fs::temp_directory_path() /
              ("export_test." + std::to_string(::getpid()))) {
    fs::create_directories(path_);
  }
  ~ExportFolder() { fs::remove_all(path_); }

  Answer exported(const Plan& plan, const std::string& arguments) const {
    const std::string file = path_ / "plan.json";
    CHECK(write_file(file, to_json(plan).to_text()));
    return answer_of(std::string(PIPEWRIGHT_BINARY) + " export " + file +
                     " --to " + arguments + " 2>&1");
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

bool has(const Answer& answer, const std::string& text) {
  const bool found = answer.text.find(text) != std::string::npos;
  if (!found) MESSAGE(answer.text);
  return found;
}

}  // namespace

TEST_CASE("Megatron gets counts of layers where they suffice, else a layout") {
  const ExportFolder folder;
  const Answer even = folder.exported(plan_of({2, 4}, "1f1b", 3), "megatron");
  CHECK(even.code == 0);
  CHECK(has(even,
            "--num-layers 6\n  --pipeline-model-parallel-size 3\n"
            "  --micro-batch-size 8\n  --global-batch-size 32\n"));
  const Answer ends =
      folder.exported(plan_of({1, 3, 5}, "1f1b", 4), "megatron");
  CHECK(has(ends, "--decoder-first-pipeline-num-layers 1\n"));
  CHECK(has(ends, "--decoder-last-pipeline-num-layers 1\n"));
  const Answer two = folder.exported(plan_of({4}, "1f1b", 2), "megatron");
  CHECK(has(two, "--decoder-first-pipeline-num-layers 4\n"));
  const Answer any = folder.exported(plan_of({1, 4, 5}, "1f1b", 4), "megatron");
  CHECK(has(any, "--pipeline-model-parallel-layout 'Et|t*3|t|tL'\n"));
  const Answer looped =
      folder.exported(plan_of({1, 2, 4}, "interleaved", 2), "megatron");
  CHECK(has(looped, "--pipeline-model-parallel-size 2\n"));
  CHECK(has(looped, "layout 'Et|t|t*2|t*2L'\n"));
}

TEST_CASE("export prints what the example shows") {
  const std::string folder = PIPEWRIGHT_SOURCE_DIR "/examples/export/";
  const Answer answer =
      run_pipewright("export " + folder + "plan.json --to deepspeed");
  CHECK(answer.text == read_file(folder + "expected.txt").value());
}

TEST_CASE(
    "replicas become data parallelism where all stages have equally many") {
  const ExportFolder folder;
  Plan plan = plan_of({2, 4}, "1f1b", 3);
  plan.schedule =
      with_replicas(plan.schedule, {2, 2, 2}, Replication::Split).value();
  plan.devices.clear();
  for (int w = 0; w < 6; ++w) plan.devices.emplace_back(w);
  for (int s = 0; s < 3; ++s)
    plan.stages[static_cast<std::size_t>(s)].workers = {WorkerId(2 * s),
                                                        WorkerId(2 * s + 1)};
  CHECK(has(folder.exported(plan, "megatron"), "--micro-batch-size 4\n"));
  CHECK(has(folder.exported(plan, "deepspeed"),
            "\"train_micro_batch_size_per_gpu\": 4"));
  CHECK(has(folder.exported(plan, "torchtitan"),
            "data_parallel_replicate_degree = 2\n"));
  plan.microbatch = 32;
  plan.schedule =
      with_replicas(generate_schedule("1f1b", {3, 1, 1, {}, {}, {}}).value(),
                    {1, 2, 2}, Replication::Split)
          .value();
  plan.devices.pop_back();
  for (int s = 1; s < 3; ++s)
    plan.stages[static_cast<std::size_t>(s)].workers = {WorkerId(2 * s - 1),
                                                        WorkerId(2 * s)};
  plan.stages[0].workers = {WorkerId(0)};
  const Answer refused = folder.exported(plan, "megatron");
  CHECK(refused.code == 78);
  CHECK(has(refused,
            "replicates all stages equally; stage 0 of the plan has 1 "
            "worker, stage 1 has 2"));
}

TEST_CASE("DeepSpeed gets uniform cuts by name and others by their bounds") {
  const ExportFolder folder;
  // 3 + 6 + 2 modules: 4, 4 and 3 of them.
  const Answer uniform =
      folder.exported(plan_of({1, 5}, "1f1b", 3), "deepspeed");
  CHECK(has(uniform, "BOUNDS = [0,4,8,11]"));
  CHECK(has(uniform, "return PipelineModule(layers=layers, num_stages=3"));
  const Answer other = folder.exported(plan_of({2, 5}, "1f1b", 3), "deepspeed");
  CHECK(has(other, "BOUNDS = [0,5,8,11]"));
  CHECK(has(other, "return PlannedPipeline(layers=layers, num_stages=3"));
  CHECK(has(folder.exported(plan_of({1, 2, 4}, "interleaved", 2), "deepspeed"),
            "has one stage per worker; the plan has 4 stages on 2 workers"));
  CHECK(has(folder.exported(plan_of({2}, "gpipe", 2), "deepspeed"),
            "runs 1f1b; the plan's order is another (gpipe)"));
}

TEST_CASE("torchtitan gets names of modules and of schedules, or a CSV") {
  const ExportFolder folder;
  const Answer named =
      folder.exported(plan_of({1, 3, 5}, "zb-v", 2), "torchtitan");
  CHECK(has(named,
            "pipeline_parallel_degree = 2\n"
            "pipeline_parallel_schedule = \"ZBVZeroBubble\"\n"));
  CHECK(has(named, R"([["tok_embeddings","layers.0"],["layers.1","layers.2"],)"
                   R"(["layers.3","layers.4"],["layers.5","norm","output"]])"));
  const Plan plan = plan_of({3}, "zb-h1", 2);
  const Answer two = folder.exported(plan, "torchtitan");
  CHECK(two.code == 78);
  CHECK(has(two, "writes 2 files (name a folder for them: -o FOLDER)"));
  const fs::path out = folder.path() / "titan";
  CHECK(folder.exported(plan, "torchtitan -o " + out.string()).code == 0);
  CHECK(read_file(out / "schedule.csv").value().starts_with("0F0,0F1,"));
  CHECK(read_file(out / "pipeline.toml")
            .value()
            .find("pipeline_parallel_schedule_csv = \"schedule.csv\"") !=
        std::string::npos);
}

TEST_CASE("plain JSON has every layer and action once") {
  const ExportFolder folder;
  const Plan plan = plan_of({2, 4}, "1f1b", 3);
  const Answer answer = folder.exported(plan, "json");
  const Json json = parse_json(answer.text, "answer").value();
  CHECK(*json.find("format")->if_string() == "pipewright/plain-plan");
  std::size_t layers = 0, actions = 0;
  for (const Json& stage : *json.find("stages")->if_array())
    layers += stage.find("layers")->if_array()->size();
  for (const Json& worker : *json.find("workers")->if_array())
    actions += worker.find("body")->if_array()->size();
  CHECK(layers == kLayers);
  CHECK(actions == 3 * 4 * 2);
}

TEST_CASE("export names what another system cannot express") {
  const ExportFolder folder;
  Plan plan = plan_of({3}, "1f1b", 2);
  CHECK(has(folder.exported(plan, "torch"),
            "is told where to cut by module paths; the layers of "));
  CHECK(has(folder.exported(plan, "touch"), "did you mean \"torch\"?"));
  Plan inside = plan;
  inside.stages[0].forward.push_back(inside.stages[1].forward.front());
  inside.stages[1].forward.erase(inside.stages[1].forward.begin());
  inside.stages[0].backward = inside.stages[0].forward;
  inside.stages[1].backward = inside.stages[1].forward;
  CHECK(has(folder.exported(inside, "megatron"),
            "stage 1 of the plan begins inside block3, at block3.qkv"));
  Plan recomputing = plan;
  recomputing.stages[0].recompute = true;
  CHECK(has(folder.exported(recomputing, "deepspeed"),
            "recomputes in all stages or in none; 1 of 2 stages of the plan "
            "recompute"));
  Plan two_backward = plan;
  two_backward.stages[0].backward = inside.stages[0].forward;
  two_backward.stages[1].backward = inside.stages[1].forward;
  CHECK(has(folder.exported(two_backward, "torchtitan"),
            "runs backward where forward ran; stage 0 of the plan has other "
            "layers in backward (Bi-Partition)"));
  Plan stale = plan_of({3}, "async-1f1b", 2);
  stale.method = Method::PipeMare;
  for (const char* to : {"megatron", "deepspeed", "torchtitan"}) {
    const Answer refused = folder.exported(stale, to);
    CHECK(refused.code == 78);
    CHECK(has(refused, "trains synchronously; the plan's method is pipemare"));
  }
  CHECK(folder.exported(stale, "json").code == 0);
}

}  // namespace pipewright::cli
