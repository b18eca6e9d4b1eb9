// The measured profiles that come with the project, and that they are what the
// published files say.

#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/profile/formats/assembly.h"
#include "pipewright/profile/formats/importer.h"

namespace pipewright {
namespace {

struct Example {
  const char* name;
  int samples, layers, edges;
  double forward_ms, backward_ms;
  long long parameters;
  const char* source;
};

const std::vector<Example> kExamples = {
    {"vgg16", 128, 40, 40, 233.902, 438.633, 553430176,
     "image_classification/profiles/vgg16"},
    {"resnet50", 128, 176, 192, 182.488, 260.931, 102228128,
     "image_classification/profiles/resnet50"},
    {"alexnet", 256, 22, 22, 44.801, 40.520, 244403360,
     "image_classification/profiles/alexnet"},
    {"gnmt", 32, 45, 54, 33.533, 55.883, 775063808,
     "translation/profiles/gnmt"},
    {"resnet18", 256, 70, 78, 107.446, 152.296, 46758048,
     "image_classification/profiles/resnet18"},
    {"squeezenet1_0", 256, 67, 75, 113.247, 172.119, 4993696,
     "image_classification/profiles/squeezenet1_0"},
    {"densenet121", 64, 428, 486, 177.404, 148.751, 31915424,
     "image_classification/profiles/densenet121"}};

Profile example(const Example& of) {
  const std::string path = std::string(PIPEWRIGHT_SOURCE_DIR) +
                           "/examples/profiles/" + of.name + "-v100.json";
  auto text = read_file(path);
  REQUIRE(text);
  auto profile = parse_profile(*text, path);
  if (!profile) FAIL(profile.error().to_text());
  return *profile;
}

}  // namespace

TEST_CASE("the example profiles have the published sums") {
  for (const Example& of : kExamples) {
    CAPTURE(of.name);
    const Profile profile = example(of);
    const ProfileTotals totals = totals_of(profile, "V100", of.samples);
    CHECK(profile.model == of.name);
    CHECK(profile.num_layers() == of.layers);
    CHECK(totals.edges == of.edges);
    CHECK(std::abs(totals.forward.value() * 1e3 - of.forward_ms) < 5e-4);
    CHECK(std::abs(totals.backward.value() * 1e3 - of.backward_ms) < 5e-4);
    CHECK(profile.parameter_bytes().value() == of.parameters);
    CHECK(profile.origin.split_is_estimated);
    CHECK(profile.origin.keeps_is_estimated);
    CHECK(profile.origin.description.find("PipeDream") != std::string::npos);
  }
}

TEST_CASE("their samples follow from sizes in them") {
  // 3x224x224 float32 numbers per image; a float32 state of 1024 per sentence.
  for (const Example& of : kExamples) {
    const Profile profile = example(of);
    const auto& sizes = profile.sizes.at(of.samples);
    if (std::string(of.name) != "gnmt")
      CHECK(sizes[0].keeps_private == Bytes(3LL * 224 * 224 * 4 * of.samples));
    for (const LayerSizes& row : sizes)
      if (row.output > Bytes(4))  // a node that answers with a shape
        CHECK(row.output.value() % of.samples == 0);
  }
}

TEST_CASE("the published files give the same profiles") {
  const char* data = std::getenv("PIPEWRIGHT_DATA");
  if (!data) return;  // the sums above were checked without it
  for (const Example& of : kExamples) {
    CAPTURE(of.name);
    const std::string path =
        std::string(data) + "/pipedream/profiler/" + of.source + "/graph.txt";
    auto text = read_file(path);
    REQUIRE(text);
    const SourceFile file{path, *text};
    ImportOptions options;
    options.samples = of.samples;
    options.device = "V100";
    auto imported = import_files(std::span(&file, 1), "", options);
    REQUIRE(imported);
    const Profile kept = example(of);
    imported->profile->origin = kept.origin;  // it names a different file
    CHECK(to_text(*imported->profile) == to_text(kept));
  }
}

}  // namespace pipewright
