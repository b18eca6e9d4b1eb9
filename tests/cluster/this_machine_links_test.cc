// This machine as a cluster, and links from measured times.

#include "pipewright/cluster/this_machine_links.h"

#include <doctest/doctest.h>

#include "pipewright/cluster/gpu_driver.h"
#include "pipewright/cluster/sum_rounds.h"
#include "pipewright/cluster/this_machine.h"

namespace pipewright {
namespace {

TEST_CASE("a link has the times that it was made from") {
  const std::vector<MessageTime> times = {{Bytes(1000), Seconds(4e-6)},
                                          {Bytes(10'000), Seconds(5e-6)},
                                          {Bytes(1'000'000), Seconds(24e-6)},
                                          {Bytes(100'000'000), Seconds(1e-3)}};
  const Link link = link_of(times);
  CHECK(link.latency == Seconds(4e-6));
  CHECK(link.bandwidth.value() == doctest::Approx(1e8 / 996e-6));
  for (std::size_t i = 1; i < times.size(); ++i) {
    const double seconds =
        (link.latency + times[i].message / message_rate(link, times[i].message))
            .value();
    CHECK(seconds == doctest::Approx(times[i].time.value()));
    CHECK(message_rate(link, times[i].message).value() <=
          link.bandwidth.value());
  }
}

TEST_CASE("noise gives a link all the same") {
  const Link link = link_of({{Bytes(1000), Seconds(5e-6)},
                             {Bytes(4000), Seconds(4e-6)},
                             {Bytes(16'000), Seconds(5.001e-6)},
                             {Bytes(64'000), Seconds(9e-6)}});
  CHECK(link.latency == Seconds(4e-6));
  CHECK(link.bandwidth.value() == doctest::Approx(64'000 / 5e-6));
  for (const MessageRate& rate : link.rates) {
    CHECK(rate.rate.value() > 0);
    CHECK(rate.rate <= link.bandwidth);
  }
  const Link disturbed = link_of({{Bytes(1000), Seconds(4e-6)},
                                  {Bytes(4000), Seconds(9e-6)},
                                  {Bytes(16'000), Seconds(5e-6)},
                                  {Bytes(64'000), Seconds(8e-6)}});
  CHECK(message_rate(disturbed, Bytes(4000)).value() ==
        doctest::Approx(4000 / 1e-6));
  CHECK(link_of({{Bytes(1), Seconds(2)}, {Bytes(2), Seconds(1)}})
            .bandwidth.value() == doctest::Approx(2));
}

TEST_CASE("a sum takes as long as those that its rates were made from") {
  const Link link = link_of(
      {{Bytes(1000), Seconds(4e-6)}, {Bytes(100'000'000), Seconds(1e-3)}});
  const std::vector<MessageTime> times = {{Bytes(4000), Seconds(10e-6)},
                                          {Bytes(400'000), Seconds(60e-6)},
                                          {Bytes(80'000'000), Seconds(5e-3)}};
  for (const int devices : {2, 4}) {
    Link measured = link;
    measured.collective_rates = collective_rates_of(times, devices, link);
    CHECK(measured.collective_rates.size() == times.size());
    for (const MessageTime& each : times) {
      const Bytes piece = each.message / devices;
      const BytesPerSecond rate = collective_rate(measured, piece);
      const double sum = (link.latency * sum_rounds(devices) +
                          piece / rate * (2 * (devices - 1)))
                             .value();
      CHECK(rate <= link.bandwidth);
      if (rate < link.bandwidth)
        CHECK(sum == doctest::Approx(each.time.value()));
      else
        CHECK(sum >= each.time.value());
    }
    CHECK(measured.collective_rates.back().rate < link.bandwidth);
  }
}

TEST_CASE("`here` is this machine, and a file can hold it") {
  const Cluster here = load_cluster("here").value();
  const GpuDriver& driver = GpuDriver::here();
  if (driver.why_none().empty()) {
    CHECK(here.num_devices() == driver.count());
    CHECK(here.kinds().front().name == "cuda");
  } else {
    CHECK(here.num_devices() == num_cores());
    CHECK(here.kinds().front().name == "cpu");
    CHECK(GpuDriver::here().copy_seconds(0, 0, 1000) < 0);
    CHECK(GpuDriver::here().exchange_seconds({0, 0}, 1000) < 0);
  }
  CHECK((parse_cluster(to_text(here), "here.json").value() == here));
}

TEST_CASE("links of GPUs are measured, others are refused") {
  for (const char* text : {"4xcpu", "2x2xV100", "1xV100"}) {
    const auto refused = with_measured_links(load_cluster(text).value());
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::BadConfiguration);
  }
  if (!GpuDriver::here().why_none().empty()) return;
  const Cluster measured =
      with_measured_links(load_cluster("2xcuda-stream").value()).value();
  const Link& link = *measured.link(DeviceId(0), DeviceId(1));
  CHECK(link.latency > Seconds(0));
  CHECK(link.bandwidth.value() > 1e9);
  CHECK(link.rates.size() > 3);
  CHECK(link.collective_rates.size() > 3);
  CHECK((parse_cluster(to_text(measured), "x").value() == measured));
}

}  // namespace
}  // namespace pipewright
