// pipewright import on plans of Galvatron: what is dropped of them, and the
// links of their cluster at the rates that were measured.

#include <doctest/doctest.h>

#include "pipewright/base/json.h"
#include "tests/cli/import_folder.h"

namespace pipewright {
namespace {

// Three layers in two stages.
std::string galvatron_plan(const std::string& shards,
                           const std::string& recomputed,
                           const std::string& type) {
  return "{\"pp_deg\": 2, \"tp_sizes_enc\": \"1,1,1\", \"dp_types_enc\": \"" +
         shards +
         "\", \"global_bsz\": 16, \"chunks\": 4, \"pp_division\": "
         "\"1,2\",\n\"checkpoint\": \"" +
         recomputed +
         "\", \"pipeline_type\": \"pipedream_flush\", \"default_dp_type\": \"" +
         type + "\"}";
}

class GalvatronFolder : public ImportFolder {
 public:
  GalvatronFolder() { plan("0,0,0", "0,0,0", "ddp"); }
  void plan(const std::string& shards, const std::string& recomputed,
            const std::string& type) {
    write("galvatron_config.json", galvatron_plan(shards, recomputed, type));
  }
  // On this cluster, with these files of rates.
  Answer import_on(const std::string& cluster,
                   const std::vector<std::string>& rates,
                   const std::string& more = "") const {
    return import_with(
        files({"galvatron_config.json", "computation_profiling.json",
               "memory_profiling.json"}) +
        files(rates) + "--blocks 3 --device V100 --on " + cluster + " " +
        outputs() + more);
  }
  Cluster cluster() const {
    const auto text = read_file(*this / "c.json");
    REQUIRE(text);
    const auto cluster = parse_cluster(*text, "c.json");
    REQUIRE(cluster);
    return *cluster;
  }
};

std::int64_t simulated_code(const ImportFolder& folder) {
  return run_pipewright("simulate " + (folder / "plan.json") + " --profile " +
                        (folder / "p.json") + " --cluster " +
                        (folder / "c.json"))
      .code;
}

constexpr const char* kSums = "allreduce_bandwidth_1nodes_4gpus_per_node.json";
constexpr const char* kMessages = "p2p_bandwidth_1nodes_4gpus_per_node.json";
constexpr const char* kTimes = "sp_time_1nodes_4gpus_per_node.json";

}  // namespace

TEST_CASE("galvatron: what a plan of ours does not have is named") {
  GalvatronFolder folder;
  CHECK_FALSE(says(folder.import_on("4xV100@1GB/s", {}), "dropped:"));
  folder.plan("0,1,1", "1,1,0", "zero2");
  const Answer answer = folder.import_on("4xV100@1GB/s", {});
  CHECK_MESSAGE(answer.code == 0, answer.text);
  // The first stage recomputes its only layer.
  CHECK(says(answer, "dropped: recomputation of layers 1;"));
  CHECK(says(answer,
             "dropped: sharded weights, gradients and optimizer state "
             "of layers 1 to 2;"));
  CHECK(says(answer,
             "dropped: sharded gradients and optimizer state of the "
             "other layers (zero2);"));
  const auto plan = parse_json(read_file(folder / "plan.json").value(), "plan");
  REQUIRE(plan);
  const Json::Array& stages = *plan->find("stages")->if_array();
  CHECK(stages.at(0).find("recompute")->to_line() == "true");
  CHECK_FALSE(stages.at(1).find("recompute"));
}

TEST_CASE("galvatron: --json has what is dropped") {
  GalvatronFolder folder;
  folder.plan("0,1,1", "1,1,0", "zero2");
  const Answer answer = folder.import_on("4xV100@1GB/s", {}, " --json");
  const auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  const Json& plan = json->find("plans")->if_array()->at(0);
  CHECK(*plan.find("data_parallel_type")->if_string() == "zero2");
  const Json& stage = plan.find("stages")->if_array()->at(1);
  CHECK(stage.find("recompute")->to_line() == "[true,false]");
  CHECK(stage.find("shards_weights")->to_line() == "[true,true]");
  CHECK(contains(json->find("notes")->to_line(), "dropped: recomputation"));
}

TEST_CASE("galvatron: keys that would matter and are not read are named") {
  GalvatronFolder folder;
  const std::string plan = galvatron_plan("0,0,0", "0,0,0", "ddp");
  const auto with = [&](const std::string& keys) {
    folder.write("galvatron_config.json", "{" + keys + plan.substr(1));
    return import_with(folder / "galvatron_config.json");
  };
  CHECK_FALSE(says(with("\"use_sp\": \"0,0,0\", \"vsp\": 0, \"vtp\": 1, "),
                   "not read"));
  CHECK(says(with("\"use_sp\": \"0,1,0\", \"vsp\": 0, \"vtp\": 2, "),
             "not read: \"use_sp\", \"vtp\" of "));
}

TEST_CASE("galvatron: links have the rates measured on such hosts") {
  GalvatronFolder folder;
  folder.write(kSums,
               "{\"allreduce_size_4_consec_1\": 30.0,\n"
               "\"allreduce_size_2_consec_1\": 20.0,\n"
               "\"allreduce_size_2_consec_0\": 10.0}");
  folder.write(kMessages, "{\"pp_size_2\": 50.0, \"pp_size_4\": 40.0}");
  const Answer answer = folder.import_on("4xV100@1GB/s", {kSums, kMessages});
  CHECK_MESSAGE(answer.code == 0, answer.text);
  CHECK(says(answer,
             "used: measured rates in place of the cluster's: "
             "all_reduce of 2 GPUs (1x4 consecutive), p2p of 2 GPUs "
             "(1x4)"));
  CHECK(says(answer,
             "not used: measured rates of no link of the plan: "
             "all_reduce of 4 GPUs (1x4 consecutive), all_reduce of 2 "
             "GPUs (1x4 strided), p2p of 4 GPUs (1x4)"));
  const Cluster cluster = folder.cluster();
  const Link& replicas = *cluster.link(DeviceId(0), DeviceId(1));
  const Link& stages = *cluster.link(DeviceId(0), DeviceId(2));
  CHECK(collective_rate(replicas, Bytes(1 << 20)) == BytesPerSecond(20e9));
  CHECK(message_rate(replicas, Bytes(1 << 20)) == BytesPerSecond(1e9));
  CHECK(message_rate(stages, Bytes(1 << 20)) == BytesPerSecond(50e9));
  CHECK(simulated_code(folder) == 0);
}

TEST_CASE("galvatron: times by size are rates of a ring's pieces") {
  GalvatronFolder folder;
  folder.write(kTimes,
               "{\"allreduce_size_2_4MB_time\": 0.5,\n"
               "\"allreduce_size_2_2MB_time\": 0.4,\n"
               "\"all2all_size_2_2MB_time\": 0.1}");
  folder.write(kSums, "{\"allreduce_size_2_consec_1\": 20.0}");
  for (const std::vector<std::string>& rates :
       {std::vector<std::string>{kTimes, kSums}, {kSums, kTimes}}) {
    const Answer answer = folder.import_on("4xV100@1GB/s", rates);
    CHECK_MESSAGE(answer.code == 0, answer.text);
    CHECK(says(answer, "all_to_all of 2 GPUs (1x4)"));
    const Cluster cluster = folder.cluster();
    const Link& link = *cluster.link(DeviceId(2), DeviceId(3));
    // Two GPUs send a half twice: in 0.4 ms as many bytes as they sum.
    CHECK(link.latency == Seconds(0));
    REQUIRE(link.collective_rates.size() == 2);
    CHECK(link.collective_rates[0].message == Bytes(1 << 20));
    CHECK(link.collective_rates[0].rate.value() ==
          doctest::Approx((2 << 20) / 0.4e-3));
    CHECK(link.collective_rates[1].rate.value() ==
          doctest::Approx((4 << 20) / 0.5e-3));
    CHECK(message_rate(link, Bytes(1)) == BytesPerSecond(1e9));
  }
}

TEST_CASE("galvatron: rates of other machines are not used") {
  GalvatronFolder folder;
  folder.write(kSums, "{\"allreduce_size_2_consec_1\": 20.0}");
  folder.write("rates.json", "{\"pp_size_2\": 50.0}");
  const Answer answer =
      folder.import_on("2x2xV100@1GB/s", {kSums, "rates.json"});
  CHECK_MESSAGE(answer.code == 0, answer.text);
  CHECK_FALSE(says(answer, "\nused: "));
  CHECK(says(answer,
             "not used: measured rates of no link of the plan: "
             "all_reduce of 2 GPUs (1x4 consecutive), p2p of 2 GPUs"));
  const auto given = load_cluster("2x2xV100@1GB/s");
  REQUIRE(given);
  CHECK(folder.cluster().links() == given->links());
}

TEST_CASE("galvatron: between hosts, and what they share") {
  GalvatronFolder folder;
  const std::string messages = "p2p_bandwidth_2nodes_2gpus_per_node.json";
  const std::string sums = "allreduce_bandwidth_2nodes_2gpus_per_node.json";
  folder.write(messages, "{\"pp_size_2\": 8.0}");
  folder.write(sums,
               "{\"allreduce_size_4_consec_1\": 30.0, "
               "\"allreduce_size_2_consec_1\": 90.0}");
  const Answer answer =
      folder.import_on("2x2xV100@nvlink/10GbE", {messages, sums});
  CHECK_MESSAGE(answer.code == 0, answer.text);
  const Cluster cluster = folder.cluster();
  const Link& between = *cluster.link(DeviceId(0), DeviceId(2));
  CHECK(message_rate(between, Bytes(1 << 20)) == BytesPerSecond(8e9));
  CHECK(collective_rate(*cluster.link(DeviceId(0), DeviceId(1)),
                        Bytes(1 << 20)) == BytesPerSecond(90e9));
  // A host's GPUs together reach what a ring over both hosts does.
  REQUIRE_FALSE(between.uses.empty());
  for (const Link::Use& use : between.uses)
    CHECK(
        cluster.resources()[static_cast<std::size_t>(use.resource)].bandwidth ==
        BytesPerSecond(30e9));
  CHECK(simulated_code(folder) == 0);
}

TEST_CASE("galvatron: a kind without layer times is refused at import") {
  const GalvatronFolder folder;
  const Answer answer = folder.import_on("4xA100-40@1GB/s", {});
  CHECK(answer.code == 78);
  CHECK(says(answer,
             "layers 0 to 1 are on A100-40, and there are layer times "
             "only of V100"));
  CHECK(says(answer, "--device KIND"));
}

}  // namespace pipewright
