// The roofline estimate: the formula on known layers, the graph it carries, the
// FPGA's two tables, and the command that prints it.

#include "pipewright/profile/analytic.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "pipewright/cluster/presets.h"
#include "pipewright/profile/profile_table.h"
#include "pipewright/profile/tiers.h"
#include "tests/answer.h"

using namespace pipewright;

namespace {

Model model_of(const std::string& name) {
  auto model = load_model(name);
  REQUIRE_MESSAGE(model, name);
  return *std::move(model);
}

DeviceKind kind_of(const std::string& name) { return find_kind(name)->kind; }

Profile profile_of(const Model& model, const std::string& kind,
                   std::vector<int> sizes) {
  const std::vector<DeviceKind> kinds{kind_of(kind)};
  auto profile = analytic_profile(model, kinds, sizes);
  REQUIRE(profile);
  return *std::move(profile);
}

Seconds total_forward(const std::vector<LayerTimes>& rows) {
  Seconds sum;
  for (const LayerTimes& row : rows) sum += row.forward;
  return sum;
}

Answer run(const std::string& arguments) {
  return answer_of(PIPEWRIGHT_BINARY " " + arguments + " 2>&1");
}

}  // namespace

TEST_CASE("each time is the longer of compute and memory, plus overhead") {
  const Model model = model_of("vgg16");
  const DeviceKind v100 = kind_of("V100");
  const Profile profile = profile_of(model, "V100", {32});
  const auto& rows = profile.times.at("V100").at(32);
  int bound_by_compute = 0;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const LayerCost cost = layer_cost(model, LayerId(i));
    if (cost.output_is_view) {
      CHECK(rows[i] == LayerTimes{});
      continue;
    }
    const double computing = cost.forward.value() * 32 / 12.6e12;
    const double moving =
        static_cast<double>(cost.memory_traffic.at(32).value()) / (0.8 * 900e9);
    bound_by_compute += computing > moving;
    CHECK(rows[i].forward.value() ==
          doctest::Approx(5e-6 + std::max(computing, moving)));
    const bool has_parameters = !model.layers()[i].parameters.empty();
    CHECK((rows[i].backward_weight > Seconds(0)) == has_parameters);
    CHECK((rows[i].update > Seconds(0)) == has_parameters);
  }
  CHECK(bound_by_compute == 12);  // the convolutions after the first
  CHECK(rows[0].backward_input == Seconds(0));  // images need no gradient
  CHECK(profile.parameter_bytes() == Bytes(138'357'544 * 4));
}

TEST_CASE("the profile carries the model's graph") {
  for (const char* name : {"resnet50", "gpt2", "gnmt", "inception_v3"}) {
    CAPTURE(name);
    const Model model = model_of(name);
    const Profile profile = profile_of(model, "A100-40", {1, 4});
    CHECK(profile.check(""));
    CHECK(profile.num_layers() == model.num_layers());
    std::int64_t bytes = 0;
    for (const Parameter& parameter : model.parameters())
      bytes += num_elements(parameter.shape) * size_of(parameter.type).value();
    CHECK(profile.parameter_bytes() == Bytes(bytes));
    CHECK(*parse_profile(to_text(profile), "file") == profile);
    for (std::size_t i = 0; i < profile.layers.size(); ++i)
      CHECK(profile.sizes.at(4)[i].output ==
            layer_cost(model, LayerId(i)).output.at(4));
  }
}

TEST_CASE("a tied parameter is one, and updated once") {
  const Model model = model_of("gpt2");
  const Profile profile = profile_of(model, "V100", {1});
  Bytes by_layer;
  for (int i = 0; i < profile.num_layers(); ++i)
    by_layer += profile.parameter_bytes(LayerId(i));
  CHECK(by_layer > profile.parameter_bytes());
  int updates = 0, users = 0;
  for (std::size_t i = 0; i < profile.layers.size(); ++i) {
    updates += profile.times.at("V100").at(1)[i].update > Seconds(0);
    users += !profile.layers[i].parameters.empty();
  }
  CHECK(updates == users - 1);  // the head's weight is the embedding's
}

TEST_CASE("kept bytes count each storage once") {
  const Model model = model_of("vgg16");
  const Profile profile = profile_of(model, "V100", {2});
  const auto kept = kept_bytes(profile, profile.sizes.at(2));
  Bytes sum, outputs;
  for (std::size_t i = 0; i < kept.size(); ++i) {
    sum += kept[i];
    outputs += profile.sizes.at(2)[i].output;
    if (profile.layers[i].output_is_view) CHECK(kept[i] == Bytes(0));
  }
  CHECK(sum > Bytes(0));
  CHECK(sum < outputs * 2);
}

TEST_CASE("more samples, a slower device: never less time") {
  const Model model = model_of("resnet18");
  const std::vector<DeviceKind> kinds{kind_of("T4"), kind_of("H200")};
  const std::vector<int> sizes{1, 2, 8, 64};
  const auto profile = analytic_profile(model, kinds, sizes);
  REQUIRE(profile);
  Seconds before;
  for (int size : sizes) {
    const Seconds slow = total_forward(profile->times.at("T4").at(size));
    CHECK(slow > before);
    CHECK(slow > total_forward(profile->times.at("H200").at(size)));
    before = slow;
  }
}

TEST_CASE("an FPGA has a table for DDR and one for what fits on chip") {
  const Model model = model_of("resnet50");
  const Profile profile = profile_of(model, "VCU118", {1});
  const DeviceKind kind = kind_of("VCU118");
  const auto in_ddr = times_on(profile, kind, 1, Bytes(1'000'000'000));
  const auto on_chip = times_on(profile, kind, 1, Bytes(40'000'000));
  REQUIRE(in_ddr);
  REQUIRE(on_chip);
  CHECK(*in_ddr == *times_at(profile, "VCU118", 1));
  CHECK(*on_chip == *times_at(profile, "VCU118/on-chip", 1));
  CHECK(total_forward(*on_chip) < total_forward(*in_ddr));
  for (std::size_t i = 0; i < on_chip->size(); ++i)
    CHECK((*on_chip)[i].forward <= (*in_ddr)[i].forward);
  CHECK(fits_on_chip(kind, kind.on_chip_memory));
  CHECK(!fits_on_chip(kind, kind.on_chip_memory + Bytes(1)));
  CHECK(!fits_on_chip(kind_of("V100"), Bytes(0)));
}

TEST_CASE("what cannot be estimated is rejected") {
  const Model model = model_of("lenet");
  const std::vector<DeviceKind> kinds{kind_of("V100")};
  CHECK(!analytic_profile(model, kinds, std::vector<int>{}));
  CHECK(!analytic_profile(model, kinds, std::vector<int>{0}));
  CHECK(!analytic_profile(model, {}, std::vector<int>{1}));
  const Model large = model_of("vgg16");
  CHECK(!analytic_profile(large, kinds, std::vector<int>{1 << 30}));
  DeviceKind bare = kinds[0];
  bare.achievable.clear();
  const auto refused = analytic_profile(model, std::vector<DeviceKind>{bare},
                                        std::vector<int>{1});
  REQUIRE(!refused);
  CHECK(refused.error().code == ErrorCode::BadConfiguration);
}

TEST_CASE("the command prints a table, a file, or why not") {
  const std::string asked = "profile lenet --microbatch 4,8 ";
  const Answer table = run(asked + "--analytic --device V100");
  CHECK(table.code == 0);
  CHECK(table.text.find("microbatch 8 (analytic)") != std::string::npos);
  CHECK(table.text.find("roofline estimate") != std::string::npos);
  const Answer json = run(asked + "--analytic --device V100,T4 --json");
  CHECK(json.code == 0);
  const auto profile = parse_profile(json.text, "stdout");
  REQUIRE(profile);
  CHECK(profile->model == "lenet");
  CHECK(profile->times.size() == 2);
  CHECK(run(asked + "--analytic").code == 2);
  CHECK(run("profile").code == 2);
  CHECK(run("profile lenet --analytic --device V100").code == 2);
  CHECK(run(asked + "--analytic --device V10").code == 78);
  CHECK(run("profile lenets --microbatch 1 --analytic --device T4").code == 78);
  CHECK(run("profile --show no_such_file").code == 66);
  const Answer shown = run("cluster 2x4xV100@nvlink/10GbE");
  CHECK(shown.code == 0);
  CHECK(shown.text.find("4 x V100 per host") != std::string::npos);
  CHECK(run("cluster 4xV1000").code == 78);
}
