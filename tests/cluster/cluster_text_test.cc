// Clusters as text: what the grammar means, and what it rejects.

#include "pipewright/cluster/cluster_text.h"

#include <doctest/doctest.h>

#include <cmath>
#include <ctime>
#include <random>

#include "pipewright/cluster/link_text.h"
#include "pipewright/cluster/presets.h"
#include "pipewright/cluster/this_machine.h"

using namespace pipewright;

namespace {

Cluster cluster_of(const std::string& text) {
  auto cluster = load_cluster(text);
  REQUIRE_MESSAGE(cluster, text);
  return *std::move(cluster);
}

const Link& link_of(const Cluster& cluster, int from, int to) {
  const Link* link = cluster.link(DeviceId(from), DeviceId(to));
  REQUIRE(link);
  return *link;
}

void check_text_refused(const std::string& text, const std::string& part) {
  const auto refused = load_cluster(text);
  REQUIRE_MESSAGE(!refused, text);
  CHECK(refused.error().code == ErrorCode::BadConfiguration);
  const std::string message = refused.error().to_text();
  CAPTURE(message);
  CHECK(message.find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("one host, every pair by the link that is given") {
  const Cluster cluster = cluster_of("4xV100@1GB/s+5us");
  CHECK(cluster.num_devices() == 4);
  CHECK(cluster.num_hosts() == 1);
  CHECK(cluster.resources().empty());
  CHECK(cluster.links().size() == 1);
  CHECK(cluster.devices()[3].name == "V100.3");
  CHECK(cluster.kind_of(DeviceId(3)).memory == Bytes(16'000'000'000));
  for (int a = 0; a < 4; ++a)
    for (int b = 0; b < 4; ++b) {
      if (a == b) continue;
      CHECK(link_of(cluster, a, b).bandwidth == BytesPerSecond(1e9));
      CHECK(link_of(cluster, a, b).latency == Seconds(5e-6));
    }
  CHECK(link_of(cluster, 2, 2).latency == Seconds(0));
  CHECK(std::isinf(link_of(cluster, 2, 2).bandwidth.value()));
}

TEST_CASE("two hosts share a network card each") {
  const Cluster cluster = cluster_of("2x8xV100@nvlink/10GbE");
  CHECK(cluster.num_devices() == 16);
  CHECK(cluster.num_hosts() == 2);
  CHECK(cluster.devices()[11].name == "host1/V100.3");
  REQUIRE(cluster.resources().size() == 2);
  CHECK(cluster.resources()[0].bandwidth == BytesPerSecond(1.25e9));
  const Link& inside = link_of(cluster, 8, 15);
  CHECK(inside.bandwidth == BytesPerSecond(50e9));
  CHECK(inside.uses.empty());
  const Link& there = link_of(cluster, 1, 9);
  CHECK(there.bandwidth == BytesPerSecond(1.25e9));
  const std::vector<Link::Use> up_and_down = {{0, true}, {1, false}};
  CHECK(there.uses == up_and_down);
  CHECK(link_of(cluster, 9, 1) == mirrored(there));
}

TEST_CASE("mixed kinds, uneven hosts, defaults") {
  const Cluster mixed = cluster_of("2xVCU118+2xVCU129@10GB/s");
  CHECK(mixed.kinds().size() == 2);
  CHECK(mixed.kind_of(DeviceId(3)).name == "VCU129");
  CHECK(mixed.kind_of(DeviceId(0)).execution == ExecutionClass::Async);
  CHECK(mixed.kind_of(DeviceId(0)).splits_layers);
  CHECK(mixed.kind_of(DeviceId(0)).on_chip_memory == Bytes(43'200'000));

  const Cluster uneven = cluster_of("1x3xv100+2x2xT4+1xP100");
  CHECK(uneven.num_devices() == 9);
  CHECK(uneven.num_hosts() == 3);
  CHECK(uneven.devices()[5].name == "host1/P100.0");
  CHECK(uneven.devices()[7].name == "host2/T4.1");
  CHECK(uneven.devices()[8].host == 2);
  // A pair of kinds takes the slower of their two links.
  CHECK(link_of(uneven, 3, 5).bandwidth == BytesPerSecond(15.75e9));
  CHECK(link_of(uneven, 3, 5).latency == Seconds(5e-6));
  CHECK(link_of(uneven, 0, 1).bandwidth == BytesPerSecond(50e9));
  CHECK(link_of(uneven, 0, 3).bandwidth == BytesPerSecond(1.25e9));

  CHECK(cluster_of("2x2xH100/ib-ndr").links().size() == 3);
  CHECK(link_of(cluster_of("2xA100-80@nvlink"), 0, 1).bandwidth ==
        BytesPerSecond(300e9));
}

TEST_CASE("the slash of a bandwidth is not the one before the hosts' link") {
  const Cluster cluster = cluster_of("2x2xT4@1GB/s+half/100Mb/s+1ms");
  CHECK(link_of(cluster, 0, 1).bandwidth == BytesPerSecond(1e9));
  CHECK(link_of(cluster, 0, 1).duplex == Duplex::Half);
  CHECK(link_of(cluster, 0, 2).bandwidth == BytesPerSecond(12.5e6));
  CHECK(link_of(cluster, 0, 2).latency == Seconds(1e-3));
}

TEST_CASE("cpu means this machine's cores") {
  const Cluster cluster = cluster_of("4xcpu");
  const DeviceKind& kind = cluster.kind_of(DeviceId(0));
  CHECK(kind.memory * 4 <= this_machine_core(1).memory);
  CHECK(kind.peak.at("float32").value() > 1e8);
  CHECK(kind.achievable.at("float32") < kind.peak.at("float32"));
  CHECK(kind.memory_bandwidth.value() > 1e8);
  CHECK(cluster == cluster_of("4xcpu"));
}

TEST_CASE("what is not a cluster is rejected with a hint") {
  check_text_refused("", "COUNTxKIND");
  check_text_refused("V100", "COUNTxKIND");
  check_text_refused("4x", "COUNTxKIND");
  check_text_refused("x4", "COUNTxKIND");
  check_text_refused("-4xV100", "COUNTxKIND");
  check_text_refused("0xV100", "no device");
  check_text_refused("0x4xV100", "no device");
  check_text_refused("4xV1000", "did you mean \"V100\"?");
  check_text_refused("4xV100@", "no link after '@'");
  check_text_refused("2x4xV100@nvlink/", "no link after '/'");
  check_text_refused("4xV100@nvlnk", "did you mean \"nvlink\"?");
  check_text_refused("4xV100@0GB/s", "must be positive");
  check_text_refused("4xV100@1GB/s+5", "expected a latency");
  check_text_refused("4xT4@nvlink", "T4 has no nvlink");
  check_text_refused("2x4xV100/nonsense", "unknown link");
  check_text_refused("4097xV100", "more than 4,096 devices");
  check_text_refused("99999999999999999999xV100", "more than 4,096");
  check_text_refused("65x64xV100", "more than 4,096");
  CHECK(load_cluster("no_such.json").error().code == ErrorCode::MissingInput);
  CHECK(load_cluster("1xV100").ok());
  CHECK(load_cluster("4096xV100").ok());
}

TEST_CASE("any text gives a cluster or an error") {
  std::mt19937 random(4);
  const std::string letters = "0123456789xX+@/sGBb.VT410cpu us-";
  for (int round = 0; round < 20000; ++round) {
    std::string text = round % 2 ? "2x4xV100@nvlink/10GbE" : "";
    for (int i = 0; i < 8; ++i)
      text.insert(
          text.begin() + static_cast<long>(random() % (text.size() + 1)),
          letters[random() % letters.size()]);
    const auto cluster = parse_cluster_text(text.substr(0, 3 + random() % 30));
    if (!cluster) REQUIRE(!cluster.error().message.empty());
  }
}

TEST_CASE("every preset has a source and a default link that exists") {
  CHECK(kind_presets().size() == 14);
  for (const KindPreset& preset : kind_presets()) {
    CHECK(parse_link(preset.default_link));
    for (const auto& [alias, name] : preset.link_aliases)
      CHECK(parse_link(alias, preset.link_aliases));
    if (preset.is_this_machine) continue;
    CHECK(!preset.kind.source.empty());
    CHECK(preset.kind.peak.contains("float32"));
    for (const auto& [type, peak] : preset.kind.peak)
      CHECK(preset.kind.achievable.at(type) <= peak);
  }
  for (const LinkPreset& preset : link_presets()) CHECK(!preset.source.empty());
}

TEST_CASE("1,024 devices come in milliseconds and a table of few links") {
  const std::clock_t start = std::clock();  // of this process alone
  const Cluster cluster = cluster_of("128x8xA100-80@nvlink/ib-hdr");
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  MESSAGE("1,024 devices in ", seconds * 1e3, " ms");
  CHECK(seconds < 0.5);  // sanitizers included
  CHECK(cluster.links().size() == 1 + 128 * 127);
  CHECK(cluster.resources().size() == 128);
}
