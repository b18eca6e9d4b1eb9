// Sailor, Aceso and Galvatron: what each of their files becomes.

#include <doctest/doctest.h>

#include "tests/profile/formats/formats_samples.h"

namespace pipewright {
namespace {

std::string refused(std::vector<SourceFile> files,
                    const ImportOptions& options = {},
                    const std::string& from = "") {
  auto imported = import_files(files, from, options);
  REQUIRE_FALSE(imported.ok());
  return imported.error().to_text();
}

}  // namespace

TEST_CASE("sailor: times and sizes make one profile") {
  const Imported imported =
      imported_from({sample_named("OPT/V100-16/profile.json"),
                     sample_named("llm_info.json")});
  REQUIRE(imported.profile);
  const Profile& profile = *imported.profile;
  CHECK(profile.model == "OPT");
  CHECK(profile.parameter_bytes() == Bytes(300));
  const auto& tables = profile.times.at("V100-16");
  REQUIRE(tables.size() == 2);
  CHECK(tables.at(4)[1].forward == Seconds(0.2));
  CHECK(tables.at(4)[1].backward() == Seconds(0.4));
  CHECK(tables.at(4)[1].update == Seconds(0.01));
  CHECK(tables.at(1)[0].backward_input == Seconds(0));
  CHECK(profile.sizes.at(4)[0].output == Bytes(32));
  // 32 bytes per sample with the output's 8.
  CHECK(profile.sizes.at(4)[1].keeps_private == Bytes(96));
  // Each kept value has a gradient of its size.
  CHECK(profile.sizes.at(4)[1].workspace == Bytes(96));
  CHECK(profile.layers[1].keeps_input == std::vector<bool>{true});
  CHECK(profile.layers[1].keeps_output);
  CHECK(profile.origin.split_is_estimated);
  CHECK_FALSE(profile.origin.keeps_is_estimated);
}

TEST_CASE("sailor: a tensor-parallel group is a device of its own") {
  ImportOptions options;
  options.tensor_parallel = 2;
  const Imported imported =
      imported_from({sample_named("OPT/V100-16/profile.json")}, options);
  CHECK(imported.profile->times.count("V100-16-tp2") == 1);
  CHECK(imported.profile->origin.keeps_is_estimated);
  options.tensor_parallel = 8;
  CHECK(refused({sample_named("OPT/V100-16/profile.json")}, options)
            .find("--tensor-parallel N: 1, 2") != std::string::npos);
}

TEST_CASE("sailor: curves, machines and measured plans") {
  const Imported imported =
      imported_from({sample_named("network.json"), sample_named("cluster.json"),
                     sample_named("plan_config.json")});
  REQUIRE(imported.bandwidths.size() == 2);
  const BandwidthTable& inter = imported.bandwidths[0];
  CHECK(inter.operation == "inter-node");
  CHECK(inter.from == "V100-16");
  // At 4e6 bytes x = 2: -0.04 + 1 + 2 GB/s.
  CHECK(rate_at(inter, Bytes(4'000'000))->value() == doctest::Approx(2.96e9));
  CHECK(*rate_at(inter, Bytes(1LL << 40)) == inter.fit->peak);
  CHECK_FALSE(rate_at(inter, Bytes(1000)));  // the fit is below 0 there
  REQUIRE(imported.devices.size() == 1);
  CHECK(imported.devices[0].memory == Bytes(17179869184));
  REQUIRE(imported.plans.size() == 1);
  CHECK(imported.plans[0].microbatches == 8);
  CHECK(imported.plans[0].measured_step == Seconds(1.5));
  CHECK(imported.plans[0].measured_memory == Bytes(1000000));
  CHECK(imported.plans[0].stages[1].layers == std::vector<int>{1});
}

TEST_CASE("sailor: a plan without some of its measurements") {
  SourceFile file = sample_named("plan_config.json");
  const auto replace = [&](const std::string& from, const std::string& to) {
    file.text.replace(file.text.find(from), from.size(), to);
  };
  replace("\"real\": 1.5, ", "");
  replace("\"red_grads\": 0.1", "\"red_grads\": null, \"power\": 3");
  const Imported imported = imported_from({file});
  const PublishedPlan& plan = imported.plans.at(0);
  CHECK_FALSE(plan.measured_step);
  CHECK_FALSE(plan.measured_reduce);
  CHECK(plan.measured_memory == Bytes(1000000));
  CHECK(imported.notes.at(0) == "not read: \"power\" of plan_config.json");
  replace("1000000", "-1");
  CHECK(refused({file}).find("max_mem: -1.0 is not between 0.0 and") !=
        std::string::npos);
}

TEST_CASE("sailor: with a plan, degrees and sizes are the plan's groups") {
  SourceFile sizes = sample_named("llm_info.json");
  // The same at degree 2: half of each GPU's weights and activations.
  const std::string one = sizes.text.substr(9, sizes.text.size() - 11);
  sizes.text = "{\"OPT\": {" + one + ", \"2\"" + one.substr(3) + "}}";
  SourceFile plan = sample_named("plan_config.json");
  for (std::size_t at;
       (at = plan.text.find(", 1, \"z\"]], 1]")) != std::string::npos;)
    plan.text.replace(at, 14, ", 2, \"z\"]], 2]");
  const Imported imported =
      imported_from({sample_named("OPT/V100-16/profile.json"), sizes, plan});
  REQUIRE(imported.profile);
  const Profile& profile = *imported.profile;
  REQUIRE(profile.times.size() == 1);
  CHECK(profile.times.begin()->first == "V100-16-tp2");
  CHECK(profile.parameter_bytes() == Bytes(600));  // of both GPUs
  CHECK(profile.sizes.at(4)[1].output == Bytes(32));
  CHECK(profile.sizes.at(4)[1].keeps_private == Bytes(4 * (2 * 32 - 8)));
}

TEST_CASE(
    "sailor: a repeated step is shared by weights, outliers are lowered") {
  SourceFile times = sample_named("OPT/V100-16/profile.json");
  times.text =
      "{\"1\": {\"1\": {\"0\": [0.5, 0.1, 0.3], \"1\": [0.1, 0.2, 0.3]}},\n"
      " \"2\": {\"1\": {\"0\": [0.2, 0.3, 0.3], \"1\": [0.3, 0.1, 0.3]}}}";
  const Imported imported =
      imported_from({times, sample_named("llm_info.json")});
  const auto& tables = imported.profile->times.at("V100-16");
  CHECK(tables.at(1)[0].forward == Seconds(0.2));
  CHECK(tables.at(1)[0].backward() == Seconds(0.1));
  CHECK(tables.at(1)[1].backward() == Seconds(0.1));
  CHECK(tables.at(2)[1].forward == Seconds(0.3));
  // Of 100 and 200 bytes.
  CHECK(tables.at(1)[0].update.value() == doctest::Approx(0.1));
  CHECK(tables.at(1)[1].update.value() == doctest::Approx(0.2));
}

TEST_CASE("sailor: disturbed times are on the line through the next two") {
  SourceFile times = sample_named("OPT/V100-16/profile.json");
  times.text =
      "{\"1\": {\"1\": {\"0\": [9, 9, 0], \"1\": [2.5, 9, 0]}},\n"
      " \"2\": {\"1\": {\"0\": [4, 4, 0], \"1\": [4, 4, 0]}},\n"
      " \"4\": {\"1\": {\"0\": [6, 4, 0], \"1\": [6, 40, 0]}}}";
  const Imported imported =
      imported_from({times, sample_named("llm_info.json")});
  const auto& small = imported.profile->times.at("V100-16").at(1);
  CHECK(small[0].forward.value() == doctest::Approx(3));
  CHECK(small[0].backward().value() == doctest::Approx(4));
  // With its backward the layer's forward is disturbed.
  CHECK(small[1].forward.value() == doctest::Approx(3));
  CHECK(small[1].backward().value() == doctest::Approx(2));  // in proportion
}

TEST_CASE("sailor: different numbers of layers name both files") {
  SourceFile times = sample_named("OPT/V100-16/profile.json");
  times.text = "{\"4\": {\"1\": {\"0\": [0.1, 0.2, 0.0]}}}";
  const std::string text = refused({times, sample_named("llm_info.json")});
  CHECK(text.find("OPT/V100-16/profile.json") != std::string::npos);
  CHECK(text.find("1 layers on V100-16 at microbatch 4, but 2 of OPT in "
                  "llm_info.json") != std::string::npos);
}

TEST_CASE("sailor: a missing layer is refused at its line") {
  SourceFile file = sample_named("OPT/V100-16/profile.json");
  file.text.replace(file.text.find("\"1\": [0.1"), 3, "\"3\"");
  CHECK(refused({file}).find("profile.json:2: 4.2.3: expected layers 0 to 1") !=
        std::string::npos);
}

TEST_CASE("aceso: sizes are 2^20 bytes, times microseconds") {
  SourceFile other = sample_named("gpt_1B_mbs2_tp1_algo0.csv");
  other.name = "gpt_1B_mbs4_tp1_algo0.csv";
  const Imported imported =
      imported_from({sample_named("gpt_1B_mbs2_tp1_algo0.csv"), other});
  const Profile& profile = *imported.profile;
  CHECK(profile.model == "gpt_1B");
  REQUIRE(profile.num_layers() == 4);
  CHECK(profile.sizes.size() == 2);
  CHECK(profile.parameter_bytes() == Bytes(24LL << 20));
  CHECK(profile.sizes.at(2)[1].output == Bytes(8LL << 20));
  CHECK(profile.sizes.at(2)[1].keeps_private == Bytes(4LL << 20));
  CHECK(profile.sizes.at(2)[0].workspace == Bytes(2LL << 20));
  CHECK(profile.times.at("V100").at(2)[1].backward().value() ==
        doctest::Approx(120.5e-6));
  other.name = "gpt_1B_mbs4_tp2_algo0.csv";
  CHECK(refused({sample_named("gpt_1B_mbs2_tp1_algo0.csv"), other})
            .find("differs") != std::string::npos);
}

TEST_CASE("aceso: a tensor-parallel group has what its GPUs have") {
  SourceFile file = sample_named("gpt_1B_mbs2_tp1_algo0.csv");
  file.name = "gpt_1B_mbs2_tp4_algo0.csv";
  const Imported imported = imported_from({file});
  const Profile& profile = *imported.profile;
  REQUIRE(profile.times.count("V100-tp4") == 1);
  CHECK(profile.parameter_bytes() == Bytes(4 * (24LL << 20)));
  CHECK(profile.sizes.at(2)[1].output == Bytes(4 * (8LL << 20)));
  CHECK(profile.sizes.at(2)[1].keeps_private == Bytes(4 * (4LL << 20)));
  CHECK(profile.sizes.at(2)[0].workspace == Bytes(4 * (2LL << 20)));
}

TEST_CASE("aceso: blocks are repeated with --blocks") {
  ImportOptions options;
  options.blocks = 3;
  const Imported imported =
      imported_from({sample_named("gpt_1B_mbs2_tp1_algo0.csv")}, options);
  CHECK(imported.profile->num_layers() == 2 + 3 * 2);
  CHECK(imported.profile->layers[3].name == "block1.qkv");
  CHECK(imported.profile->parameter_bytes() == Bytes((16 + 3 * 8LL) << 20));
}

TEST_CASE("aceso: rates by message size") {
  const Imported imported =
      imported_from({sample_named("prim_gpt_1B_all_gather_4gpus.csv"),
                     sample_named("p2p_inter_node.csv")});
  REQUIRE(imported.bandwidths.size() == 2);
  const BandwidthTable& gather = imported.bandwidths[0];
  CHECK(gather.operation == "all_gather");
  CHECK(gather.devices == 4);
  CHECK(gather.points[0].message == Bytes(2LL << 20));
  CHECK(gather.points[0].rate.value() == doctest::Approx((2 << 20) / 0.25e-3));
  // Between 4 and 8 MB the time is interpolated: 6 MB take 0.4375 ms.
  CHECK(rate_at(gather, Bytes(6LL << 20))->value() ==
        doctest::Approx((6 << 20) / 0.4375e-3));
  CHECK(rate_at(imported.bandwidths[1], Bytes(1LL << 20))->value() == 3.5e9);
  CHECK(rate_at(imported.bandwidths[1], Bytes(1LL << 30))->value() == 5e9);
}

TEST_CASE("aceso: a bad row is refused with its line") {
  SourceFile file = sample_named("gpt_1B_mbs2_tp1_algo0.csv");
  file.text.replace(file.text.find("120.5"), 5, "fast!");
  CHECK(refused({file}).rfind("gpt_1B_mbs2_tp1_algo0.csv:3: expected a number",
                              0) == 0);
}

TEST_CASE("galvatron: the layers, and what is before and after them") {
  const Imported imported = imported_from(
      {sample_named("computation_profiling.json"),
       sample_named("memory_profiling.json"), sample_named("gpt.json")});
  const Profile& profile = *imported.profile;
  REQUIRE(profile.num_layers() == 8);
  const auto& times = profile.times.at("accelerator").at(4);
  CHECK(times[0].forward == Seconds(0));
  CHECK(times[1].forward.value() == doctest::Approx(2e-3 * 4));
  CHECK(times[1].backward().value() == doctest::Approx(4e-3 * 4));
  // 40 ms for 2 layers of 2 ms per sample at 4 samples leave 24 ms.
  CHECK(times[7].forward.value() == doctest::Approx(24e-3));
  CHECK(profile.parameter_bytes() == Bytes((10 + 6 * 12 + 12LL) << 20));
  CHECK(profile.sizes.at(4)[1].output == Bytes(8LL << 20));
  CHECK(profile.sizes.at(4)[1].keeps_private == Bytes(32LL << 20));
}

TEST_CASE("galvatron: a negative time is skipped with a note") {
  const Imported imported =
      imported_from({sample_named("computation_profiling_sizes.json")});
  CHECK(imported.profile->sizes.size() == 2);
  CHECK(imported.notes[0].find("batch size 3") != std::string::npos);
  CHECK(imported.profile->times.at("accelerator").at(2)[2].forward.value() ==
        doctest::Approx(10e-3));
}

TEST_CASE("galvatron: plans and rates") {
  const Imported imported =
      imported_from({sample_named("galvatron_config.json"),
                     sample_named("sp_time_1nodes_8gpus_per_node.json")});
  REQUIRE(imported.plans.size() == 1);
  const PublishedPlan& plan = imported.plans[0];
  CHECK(plan.minibatch == 16);
  CHECK(plan.microbatches == 4);
  REQUIRE(plan.stages.size() == 2);
  CHECK(plan.stages[1].layers == std::vector<int>{1, 2});
  CHECK(plan.stages[1].recompute == std::vector<bool>{false, true});
  REQUIRE(imported.bandwidths.size() == 2);
  CHECK(imported.bandwidths[0].from == "1x8");
  REQUIRE(imported.bandwidths[0].points.size() == 2);
  CHECK(imported.bandwidths[0].points[0].message == Bytes(1 << 20));
}

}  // namespace pipewright
