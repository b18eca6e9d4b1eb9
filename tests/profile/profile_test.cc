// Profiles: what check() refuses, figures between microbatch sizes, the file.

#include "pipewright/profile/profile.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace pipewright;

namespace {

Seconds random_time(std::mt19937& random) {
  return Seconds(std::exp(std::uniform_real_distribution(-12.0, 2.0)(random)));
}

int random_int(std::mt19937& random, int low, int high) {
  return std::uniform_int_distribution(low, high)(random);
}

ProfileLayer random_layer(std::mt19937& random, int index, int parameters) {
  ProfileLayer layer;
  layer.name = "layer" + std::to_string(index);
  layer.kind = index % 2 ? "conv2d" : "Conv2d(3, 64, \"same\")";
  for (int i = 0; index > 0 && i < random_int(random, 0, 3); ++i) {
    layer.inputs.push_back(LayerId(random_int(random, 0, index - 1)));
    layer.keeps_input.push_back(random_int(random, 0, 1) == 1);
  }
  layer.keeps_output = random_int(random, 0, 1) == 1;
  layer.keeps_model_input = random_int(random, 0, 1) == 1;
  layer.output_is_view = !layer.inputs.empty() && random_int(random, 0, 4) == 0;
  layer.passes_gradient = random_int(random, 0, 4) == 0;
  layer.mixes_samples = random_int(random, 0, 4) == 0;
  for (int i = 0; i < random_int(random, 0, 2); ++i)
    layer.parameters.push_back(
        ParameterId(random_int(random, 0, parameters - 1)));
  return layer;
}

Profile random_profile(std::mt19937& random) {
  Profile profile;
  profile.model = "gpt:layers=2";
  profile.origin = {"measured", "on a \"machine\"\n",
                    random_int(random, 0, 1) == 1, false};
  for (int i = 0; i < 5; ++i)
    profile.parameters.push_back(
        {"weight" + std::to_string(i), Bytes(random_int(random, 0, 1 << 30))});
  const int num_layers = random_int(random, 1, 12);
  for (int i = 0; i < num_layers; ++i)
    profile.layers.push_back(random_layer(random, i, 5));
  const bool by_rule = random_int(random, 0, 1) == 1;
  for (int microbatch = random_int(random, 1, 3); microbatch < 100;
       microbatch *= random_int(random, 2, 5)) {
    auto& sizes = profile.sizes[microbatch];
    for (int i = 0; i < num_layers; ++i)
      sizes.push_back({Bytes(random_int(random, 0, 1 << 30)),
                       Bytes(random_int(random, 0, 9)), Bytes(0),
                       Bytes(random_int(random, 0, 9))});
    for (const char* kind : {"V100", "cpu"})
      for (int i = 0; i < num_layers; ++i) {
        LayerTimes times{random_time(random), random_time(random),
                         random_time(random), random_time(random)};
        if (by_rule)
          set_backward(times, random_time(random), profile.layers[i]);
        profile.times[kind][microbatch].push_back(times);
      }
  }
  return profile;
}

// Two layers at microbatch 2 and 10.
Profile small_profile() {
  Profile profile;
  profile.model = "two";
  profile.origin.source = "measured";
  profile.parameters = {{"w", Bytes(400)}, {"tied", Bytes(80)}};
  profile.layers.resize(2);
  profile.layers[0] = {.name = "a",
                       .kind = "linear",
                       .inputs = {},
                       .keeps_input = {},
                       .parameters = {ParameterId(0), ParameterId(1)}};
  profile.layers[1] = {.name = "b",
                       .kind = "linear",
                       .inputs = {LayerId(0)},
                       .keeps_input = {true},
                       .parameters = {ParameterId(1)}};
  profile.sizes[2] = {{Bytes(20), Bytes(1), Bytes(0)}, {Bytes(2), {}, {}}};
  profile.sizes[10] = {{Bytes(100), Bytes(4), Bytes(8)}, {Bytes(10), {}, {}}};
  const auto times = [](double scale) {
    return LayerTimes{Seconds(1 * scale), Seconds(2 * scale),
                      Seconds(3 * scale), Seconds(0.5)};
  };
  profile.times["cpu"][2] = {times(1), times(10)};
  profile.times["cpu"][10] = {times(3), times(20)};
  return profile;
}

bool is_between(Seconds low, Seconds x, Seconds high) {
  return std::min(low, high) <= x && x <= std::max(low, high);
}

}  // namespace

TEST_CASE("parameter bytes count a tied parameter once in the whole") {
  const Profile profile = small_profile();
  CHECK(profile.parameter_bytes(LayerId(0)) == Bytes(480));
  CHECK(profile.parameter_bytes(LayerId(1)) == Bytes(80));
  CHECK(profile.parameter_bytes() == Bytes(480));
}

TEST_CASE("numbers between two microbatch sizes are interpolated") {
  const Profile profile = small_profile();
  const auto times = times_at(profile, "cpu", 6);
  REQUIRE(times);
  CHECK((*times)[0] ==
        LayerTimes{Seconds(2), Seconds(4), Seconds(6), Seconds(0.5)});
  CHECK((*times)[1].forward == Seconds(15));
  const auto sizes = sizes_at(profile, 4);
  REQUIRE(sizes);
  CHECK((*sizes)[0] == LayerSizes{Bytes(40), Bytes(2), Bytes(2)});
}

TEST_CASE("extrapolation must be requested") {
  const Profile profile = small_profile();
  for (int microbatch : {1, 11}) {
    const auto refused = times_at(profile, "cpu", microbatch);
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::BadConfiguration);
    CHECK(refused.error().message.find("2 to 10") != std::string::npos);
    CHECK(!sizes_at(profile, microbatch));
  }
  CHECK((*times_at(profile, "cpu", 1, Outside::Extrapolate))[0] ==
        LayerTimes{Seconds(0.75), Seconds(1.5), Seconds(2.25), Seconds(0.5)});
  CHECK((*times_at(profile, "cpu", 20, Outside::Extrapolate))[1].forward ==
        Seconds(40));
  CHECK((*sizes_at(profile, 20, Outside::Extrapolate))[0].output == Bytes(200));
  for (int microbatch : {0, -4, std::numeric_limits<int>::max()})
    CHECK(!times_at(profile, "cpu", microbatch, Outside::Extrapolate));
}

TEST_CASE("below the smallest size lies between proportion and that size") {
  Profile profile = small_profile();
  auto& tables = profile.times["cpu"];
  const auto forward = [&] {
    return (*times_at(profile, "cpu", 1, Outside::Extrapolate))[0].forward;
  };
  tables[10][0].forward = Seconds(50);  // the line leads below nothing
  CHECK(forward() == tables[2][0].forward / 2);
  tables[10][0].forward = Seconds(0.1);
  CHECK(forward() == tables[2][0].forward);
  tables.erase(10);
  CHECK(forward() == tables[2][0].forward / 2);
}

TEST_CASE("an unknown device kind suggests the nearest") {
  const auto refused = times_at(small_profile(), "cpus", 2);
  REQUIRE(!refused);
  CHECK(refused.error().hint == "did you mean \"cpu\"?");
  Profile untimed = small_profile();
  untimed.times.clear();
  CHECK(!times_at(untimed, "cpu", 2));
  untimed.sizes.clear();
  CHECK(!sizes_at(untimed, 2));
}

TEST_CASE("interpolation: exact at the points, monotone between them") {
  std::mt19937 random(1);
  for (int round = 0; round < 100; ++round) {
    const Profile profile = random_profile(random);
    const auto& tables = profile.times.at("V100");
    for (const auto& [microbatch, rows] : tables)
      CHECK(*times_at(profile, "V100", microbatch) == rows);
    for (const auto& [microbatch, rows] : profile.sizes)
      CHECK(*sizes_at(profile, microbatch) == rows);
    for (auto low = tables.begin(), high = std::next(low); high != tables.end();
         ++low, ++high) {
      std::vector<LayerTimes> before = low->second;
      for (int n = low->first + 1; n <= high->first; ++n) {
        const auto now = *times_at(profile, "V100", n);
        for (std::size_t i = 0; i < now.size(); ++i)
          REQUIRE(is_between(before[i].forward, now[i].forward,
                             high->second[i].forward));
        before = now;
      }
    }
  }
}

TEST_CASE("check() reports every error") {
  CHECK(small_profile().check("file"));
  Profile profile = small_profile();
  profile.layers[1].inputs = {LayerId(1)};
  profile.layers[0].keeps_input = {true};
  profile.layers[0].output_is_view = true;
  profile.layers[0].parameters = {ParameterId(2)};
  profile.layers[1].name = "a";
  profile.parameters[0].bytes = Bytes(-1);
  profile.sizes[2].pop_back();
  profile.sizes[10][0].workspace = Bytes(-1);
  profile.times["cpu"][2][1].forward = Seconds(std::nan(""));
  profile.times["cpu"][10][1].update = Seconds(-1);
  profile.times["cpu"][0] = profile.times["cpu"][2];
  profile.times["gpu"];
  const auto checked = profile.check("file");
  REQUIRE(!checked);
  CHECK(checked.error().code == ErrorCode::MalformedInput);
  CHECK(checked.error().where.rfind("file: ", 0) == 0);
  CHECK(checked.error().others.size() + 1 == 13);
  CHECK(!Profile().check(""));
}

TEST_CASE("a backward given as one number stays one number") {
  ProfileLayer first, middle, plain;
  first.parameters = middle.parameters = {ParameterId(0)};
  middle.inputs = plain.inputs = {LayerId(0)};
  LayerTimes times;
  set_backward(times, Seconds(0.3), first);
  CHECK(times.backward_input == Seconds(0));
  set_backward(times, Seconds(0.3), plain);
  CHECK(times.backward_weight == Seconds(0));
  set_backward(times, Seconds(0.3), middle);
  CHECK(times.backward_input == times.backward_weight);
  CHECK(times.backward() == Seconds(0.3));

  Profile profile = small_profile();
  profile.origin.split_is_estimated = true;
  for (auto& [microbatch, rows] : profile.times["cpu"])
    for (std::size_t i = 0; i < rows.size(); ++i)
      set_backward(rows[i], Seconds(0.1 * microbatch), profile.layers[i]);
  const std::string text = to_text(profile);
  CHECK(text.find("\"backward_seconds\"") != std::string::npos);
  CHECK(text.find("\"backward_input_seconds\"") == std::string::npos);
  CHECK(*parse_profile(text, "file") == profile);
}

TEST_CASE("the file gives back the same profile") {
  std::mt19937 random(2);
  for (int round = 0; round < 200; ++round) {
    const Profile profile = random_profile(random);
    REQUIRE(profile.check(""));
    const auto again = parse_profile(to_text(profile), "file");
    REQUIRE(again);
    REQUIRE(*again == profile);
    REQUIRE(to_text(*again) == to_text(profile));
  }
}
