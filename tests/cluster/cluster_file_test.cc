// Cluster files: they give back the same cluster, and say what is wrong.

#include <doctest/doctest.h>

#include <random>

#include "pipewright/cluster/cluster_builder.h"
#include "pipewright/cluster/cluster_table.h"
#include "pipewright/cluster/presets.h"

using namespace pipewright;

namespace {

int random_int(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution(low, high)(random);
}

Link random_link(std::mt19937& random, int num_resources) {
  Link link;
  link.bandwidth = BytesPerSecond(random_int(random, 1, 4) * 1e9 / 3);
  link.latency = Seconds(random_int(random, 0, 2) * 1e-6);
  link.duplex = random_int(random, 0, 3) ? Duplex::Full : Duplex::Half;
  for (MessageRates* rates : {&link.rates, &link.collective_rates})
    for (int i = random_int(random, 0, 3); i > 0; --i)
      rates->insert(rates->begin(), {Bytes(1000 * i), link.bandwidth / 3.0});
  for (int r = 0; r < num_resources; ++r)
    if (random_int(random, 0, 3) == 0)
      link.uses.push_back({r, random_int(random, 0, 1) == 1});
  return link;
}

// Uneven hosts, own and known names, missing and one-way links, resources.
Cluster random_cluster(std::mt19937& random) {
  ClusterBuilder builder("random \"one\"");
  builder.add_kind(find_kind("V100")->kind);
  DeviceKind own = find_kind("VCU118")->kind;
  own.name = "own";
  own.overlap = random_int(random, 0, 3) / 3.0;
  own.base_memory = Bytes(random_int(random, 0, 2) * 1000);
  own.fragmentation = random_int(random, 0, 2) / 7.0;
  own.layer_overhead = random_int(random, 0, 2) / 7.0;
  own.gradient_overhead = Seconds(random_int(random, 0, 2) / 7.0);
  own.action_overhead = Seconds(random_int(random, 0, 2) / 7.0);
  own.step_overhead = Seconds(random_int(random, 0, 2) / 7.0);
  if (random_int(random, 0, 1)) {  // times come from a profile
    own.peak = own.achievable = {};
    own.memory_bandwidth = BytesPerSecond(0);
  }
  builder.add_kind(own);
  const int num_devices = random_int(random, 1, 12);
  const int num_hosts = random_int(random, 1, 4);
  for (int i = 0; i < num_devices; ++i) {
    const int kind = random_int(random, 0, 1);
    const std::string name = random_int(random, 0, 1)
                                 ? "device " + std::to_string(i)
                                 : "V100." + std::to_string(i);
    builder.add_device({name, kind, random_int(random, 0, num_hosts - 1)});
  }
  const int num_resources = random_int(random, 0, 3);
  for (int r = 0; r < num_resources; ++r)
    builder.add_resource({"switch " + std::to_string(r),
                          BytesPerSecond(1e9 * (r + 1)), Duplex::Half});
  const Link usual = random_link(random, 0);
  for (int a = 0; a < num_devices; ++a)
    for (int b = 0; b < a; ++b) {
      const int choice = random_int(random, 0, 9);
      if (choice == 0) continue;
      const Link link = choice < 6 ? usual : random_link(random, num_resources);
      builder.connect_both(DeviceId(a), DeviceId(b), link);
      if (choice == 9)
        builder.connect(DeviceId(a), DeviceId(b),
                        random_link(random, num_resources));
    }
  auto cluster = builder.build();
  REQUIRE(cluster);
  return *std::move(cluster);
}

const std::string kSample = R"({
  "format": "pipewright/cluster", "version": 1, "name": "two hosts",
  "devices": [
    {"kind": "V100", "host": 0, "count": 3},
    {"kind": "t4", "host": 1, "name": "old"}  // by any case
  ],
  "resources": [
    {"name": "card 0", "bandwidth": "10Gb/s"},
    {"name": "card 1", "bandwidth": "1Gb/s", "duplex": "half"}
  ],
  "within_hosts": {"bandwidth": "50GB/s", "latency": "3us"},
  "between_hosts": {"bandwidth": "10Gb/s", "cards": ["card 0", "card 1"]},
  "links": [
    {"from": "host0/V100.0", "to": ["host0/V100.2"], "bandwidth": 1e9,
     "uses": [{"resource": "card 0", "direction": "up"}]},
    {"from": "host0/V100.1", "to": ["old"], "missing": true}
  ]
})";

void check_refused(std::string_view from, std::string_view to,
                   const std::vector<std::string>& parts) {
  std::string text = kSample;
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const auto refused = parse_cluster(text, "c.json");
  REQUIRE_MESSAGE(!refused, text);
  CHECK(refused.error().code == ErrorCode::MalformedInput);
  const std::string message = refused.error().to_text();
  CAPTURE(message);
  for (const std::string& part : parts)
    CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("a file as a person would write it") {
  const auto cluster = parse_cluster(kSample, "c.json");
  REQUIRE(cluster);
  CHECK(cluster->num_devices() == 4);
  CHECK(cluster->kind_of(DeviceId(3)).name == "T4");
  const Link* across = cluster->link(DeviceId(0), DeviceId(3));
  REQUIRE(across);
  const std::vector<Link::Use> cards = {{0, true}, {1, false}};
  CHECK(across->uses == cards);
  CHECK(across->latency == Seconds(0));
  CHECK(!cluster->link(DeviceId(1), DeviceId(3)));
  CHECK(!cluster->link(DeviceId(3), DeviceId(1)));
  CHECK(cluster->link(DeviceId(0), DeviceId(1))->bandwidth ==
        BytesPerSecond(50e9));
  const Link* special = cluster->link(DeviceId(2), DeviceId(0));
  CHECK(special->bandwidth == BytesPerSecond(1e9));
  CHECK(special->uses == std::vector<Link::Use>{{0, false}});
  CHECK(*parse_cluster(to_text(*cluster), "again") == *cluster);
}

TEST_CASE("text to cluster to file to cluster: the same") {
  for (const char* text :
       {"4xcpu", "1xV100", "4xV100@1GB/s", "2x8xV100@nvlink/10GbE",
        "2xVCU118+2xVCU129@10GB/s", "1x8xV100+3x4xT4+1xP100@pcie/25GbE+half",
        "32x8xH100"}) {
    const auto cluster = load_cluster(text);
    REQUIRE_MESSAGE(cluster, text);
    const auto again = parse_cluster(to_text(*cluster), "file");
    REQUIRE_MESSAGE(again, text);
    CHECK(*again == *cluster);
  }
}

TEST_CASE("random clusters come back the same") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const Cluster cluster = random_cluster(random);
    const std::string text = to_text(cluster);
    const auto again = parse_cluster(text, "file");
    REQUIRE_MESSAGE(again, text);
    REQUIRE_MESSAGE(*again == cluster, text);
    REQUIRE(to_text(*again) == text);
    REQUIRE(!cluster_table(cluster).empty());
  }
}

TEST_CASE("a large cluster is a short file") {
  const auto cluster = load_cluster("128x8xV100@nvlink/10GbE");
  REQUIRE(cluster);
  const std::string text = to_text(*cluster);
  CHECK(text.size() < 50'000);
  CHECK(*parse_cluster(text, "file") == *cluster);
  const std::string table = cluster_table(*cluster);
  CHECK(table.find("8 x V100 per host") != std::string::npos);
  CHECK(table.find("0 to 127") != std::string::npos);
  CHECK(std::count(table.begin(), table.end(), '\n') < 20);
}

TEST_CASE("errors name the line and the key path, and give a hint") {
  check_refused("pipewright/cluster", "pipewright/plan", {"c.json:2"});
  check_refused("\"V100\", \"host\": 0", "\"V10\", \"host\": 0",
                {"devices[0].kind", "did you mean \"V100\" or"});
  check_refused("\"old\"}", "\"host0/V100.1\"}", {"duplicate name"});
  check_refused("\"count\": 3", "\"count\": 0", {"devices[0].count"});
  check_refused("\"count\": 3", "\"count\": 4096", {"more than 4,096"});
  check_refused("\"host\": 1", "\"host\": -1", {"devices[1].host"});
  check_refused("\"50GB/s\"", "\"50\"", {"expected a bandwidth"});
  check_refused("\"50GB/s\"", "0", {"must be positive"});
  check_refused("\"half\"", "\"no\"", {"expected \"full\" or \"half\""});
  check_refused("[\"card 0\", \"card 1\"]", "[\"card 0\"]",
                {"1 cards for 2 hosts"});
  check_refused("\"card 0\", \"direction\": \"up\"",
                "\"card 9\", \"direction\": \"out\"",
                {"unknown resource \"card 9\"", "expected \"up\" or \"down\""});
  check_refused("[\"old\"]", "[\"olds\"]", {"did you mean \"old\"?"});
  check_refused("[\"old\"]", "[\"host0/V100.1\"]", {"to itself"});
  check_refused("\"missing\": true", "\"mising\": true",
                {"unknown key \"mising\""});
  check_refused("\"devices\": [", "\"devices\": [], \"more\": [",
                {"no device", "unknown key \"more\""});
}

TEST_CASE("a link needs a link in the opposite direction") {
  ClusterBuilder builder("broken");
  builder.add_kind(find_kind("V100")->kind);
  const DeviceId a = builder.add_device({"a", 0, 0});
  const DeviceId b = builder.add_device({"b", 0, 0});
  builder.connect(a, b, {BytesPerSecond(1e9), Seconds(0), Duplex::Full, {}});
  const auto cluster = builder.build();
  REQUIRE(!cluster);
  CHECK(cluster.error().message ==
        "there is no link in the opposite direction");
  ClusterBuilder bad("bad");
  bad.add_device({"a", 3, 0});
  bad.add_device({"a", 0, -1});
  const auto refused = bad.build();
  REQUIRE(!refused);
  CHECK(refused.error().others.size() == 3);
}

TEST_CASE("truncated and mutated files are rejected or read") {
  for (std::size_t length = 0; length + 1 < kSample.size(); ++length)
    CHECK(!parse_cluster(kSample.substr(0, length), "c.json"));
  std::mt19937 random(6);
  for (int round = 0; round < 10000; ++round) {
    std::string text = kSample;
    for (int i = 0; i < 1 + round % 4; ++i)
      text[random() % text.size()] = static_cast<char>(random() % 256);
    const auto cluster = parse_cluster(text, "c.json");
    if (cluster) REQUIRE(*parse_cluster(to_text(*cluster), "c") == *cluster);
  }
}

TEST_CASE("rates between two sizes, and what a program can hold") {
  const MessageRates rates = {{Bytes(1000), BytesPerSecond(1000)},
                              {Bytes(4000), BytesPerSecond(2000)}};
  CHECK(rate_at(rates, Bytes(10)) == BytesPerSecond(1000));
  CHECK(rate_at(rates, Bytes(1 << 20)) == BytesPerSecond(2000));
  // 1 s and 2 s at the ends; 1.5 s in the middle.
  CHECK(rate_at(rates, Bytes(2500)).value() == doctest::Approx(2500 / 1.5));
  DeviceKind kind;
  kind.memory = Bytes(1000);
  CHECK(usable_memory(kind) == Bytes(1000));
  kind.base_memory = Bytes(200);
  CHECK(usable_memory(kind) == Bytes(800));
  kind.fragmentation = 0.25;
  CHECK(usable_memory(kind) == Bytes(640));
  CHECK(memory_with_base(kind, Bytes(640)) == kind.memory);
  CHECK(memory_with_base(kind, Bytes(100)) == Bytes(325));
  kind.base_memory = Bytes(2000);
  CHECK(usable_memory(kind) == Bytes(0));
}

TEST_CASE("rates must ascend in size and stay below the bandwidth") {
  const auto refused = [](const std::string& rates) {
    const auto cluster = parse_cluster(
        R"({"format": "pipewright/cluster", "version": 1, "name": "pair",
            "devices": [{"kind": "V100", "count": 2}],
            "within_hosts": {"bandwidth": "1GB/s", "rates": )" +
            rates + "}}",
        "pair");
    return cluster ? std::string() : cluster.error().to_text();
  };
  CHECK(refused("[[1, 1e8]]").empty());
  CHECK(refused("[]").find("at least one") != std::string::npos);
  CHECK(refused("[[1]]").find("[bytes, bandwidth]") != std::string::npos);
  CHECK(refused("[[2, 1e8], [1, 1e8]]").find("ascending") != std::string::npos);
  CHECK(refused("[[1, 2e9]]").find("between 0 and the bandwidth") !=
        std::string::npos);
}
