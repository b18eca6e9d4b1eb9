// Whatever a file contains, an importer returns a result or an error with its
// place. It never throws, and each importer recognises its own files.

#include <doctest/doctest.h>

#include <ctime>

#include "tests/profile/formats/formats_samples.h"

namespace pipewright {
namespace {

// A small generator of our own: the same mutations everywhere.
class Random {
 public:
  explicit Random(unsigned seed) : state_(seed * 2654435761u + 1) {}
  std::size_t below(std::size_t n) {
    state_ = state_ * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<std::size_t>((state_ >> 33) % n);
  }

 private:
  unsigned long long state_;
};

std::string mutated(std::string text, Random& random) {
  static const std::vector<std::string> kPieces = {
      "-1",    "1e999", "null", "[",  "]",
      "{",     "}",     "\"",   "0",  "99999999999999999999",
      "nan",   "\n",    " -- ", ",",  ":",
      "true",  "0.5",   "\t",   "\0", "\xff",
      "1e300", "node1"};
  const std::size_t count = 1 + random.below(3);
  for (std::size_t i = 0; i < count && !text.empty(); ++i) {
    const std::size_t at = random.below(text.size());
    const std::size_t length = 1 + random.below(12);
    switch (random.below(5)) {
      case 0:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, kPieces[random.below(kPieces.size())]);
        break;
      case 3:
        text.insert(random.below(text.size()), text.substr(at, length * 8));
        break;
      default:
        text.replace(at, length, kPieces[random.below(kPieces.size())]);
    }
  }
  return text;
}

// Imports, and checks the result. True if it could be read.
bool survives(const SourceFile& file, const std::string& from) {
  auto imported = import_files(std::span(&file, 1), from, {});
  if (!imported) {
    CHECK_FALSE(imported.error().message.empty());
    const ErrorCode code = imported.error().code;
    CHECK((code == ErrorCode::MalformedInput ||
           code == ErrorCode::BadConfiguration));
    return false;
  }
  if (imported->profile) {
    CHECK(imported->profile->check("mutated").ok());
    CHECK(parse_profile(to_text(*imported->profile), "written").ok());
  }
  return true;
}

}  // namespace

TEST_CASE("each sample is known by its content, by one importer alone") {
  for (const FormatSample& sample : format_samples()) {
    CAPTURE(sample.file.name);
    int known = 0;
    for (const Importer& importer : importers())
      if (importer.recognises(sample.file)) {
        ++known;
        CHECK(importer.name == sample.from);
      }
    CHECK(known == 1);
    auto imported = import_files(std::span(&sample.file, 1), "", {});
    if (!imported) FAIL(imported.error().to_text());
    CHECK(imported->from == sample.from);
    CHECK(imported->profile.has_value() == sample.has_profile);
    CHECK(imported->no_profile.empty() == sample.has_profile);
    CHECK_FALSE(imported->what.empty());
  }
}

TEST_CASE("2,000 mutations of each sample: an error or a sound profile") {
  unsigned seed = 1;
  for (const FormatSample& sample : format_samples()) {
    CAPTURE(sample.file.name);
    int read = 0;
    for (int i = 0; i < 2000; ++i) {
      Random random(++seed);
      SourceFile file{sample.file.name, mutated(sample.file.text, random)};
      CAPTURE(file.text);
      CHECK_NOTHROW(read += survives(file, sample.from) ? 1 : 0);
      if (const Importer* importer = importer_for(file))
        CHECK(importer->usage(file).find(file.name) != std::string::npos);
    }
    CHECK(read < 2000);  // the mutations do break it
  }
}

TEST_CASE("truncated at every 64th part") {
  for (const FormatSample& sample : format_samples())
    for (std::size_t part = 0; part < 64; ++part) {
      const std::string text =
          sample.file.text.substr(0, sample.file.text.size() * part / 64);
      CHECK_NOTHROW(survives({sample.file.name, text}, sample.from));
      CHECK_NOTHROW(survives({sample.file.name, text}, ""));
    }
}

TEST_CASE("every importer refuses every other's files by name") {
  for (const FormatSample& sample : format_samples())
    for (const Importer& importer : importers()) {
      if (importer.name == sample.from) continue;
      CAPTURE(sample.file.name);
      CAPTURE(importer.name);
      CHECK_FALSE(survives(sample.file, importer.name));
    }
}

TEST_CASE("what is not UTF-8 is refused with its line") {
  auto refused_at = [](const std::string& text) {
    const SourceFile file{"x.txt", "first\n" + text};
    auto imported = import_files(std::span(&file, 1), "pipedream", {});
    REQUIRE_FALSE(imported.ok());
    return imported.error().to_text() == "x.txt:2: expected UTF-8 text";
  };
  for (const char* bad : {"\xff", "\xc0\xaf", "\xe2\x82", "\xed\xa0\x80",
                          "\xf4\x90\x80\x80", "\x80", "\xe0\x80\x80"})
    CHECK(refused_at(bad));
  for (const char* good : {"\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80"})
    CHECK_FALSE(refused_at(good));
}

TEST_CASE("formats are not mixed, and an unknown one is reported") {
  const std::vector<SourceFile> two = {sample_named("toy/graph.txt"),
                                       sample_named("cluster.json")};
  CHECK(import_files(two, "", {}).error().code == ErrorCode::BadConfiguration);
  const std::vector<SourceFile> one = {{"x", "hello"}};
  CHECK(import_files(one, "", {}).error().code == ErrorCode::MalformedInput);
  CHECK(import_files(one, "pipedraem", {}).error().hint ==
        "did you mean \"pipedream\"?");
  CHECK_FALSE(import_files({}, "", {}).ok());
}

TEST_CASE("time grows with the file, not with its square") {
  auto seconds_for = [](int n) {
    std::string text;
    for (int i = 0; i < n; ++i)
      text += "node" + std::to_string(i) +
              " -- A -- forward_compute_time=1, backward_compute_time=2, "
              "activation_size=3, parameter_size=4\n";
    for (int i = 1; i < n; ++i)
      text += "\tnode" + std::to_string(i - 1) + " -- node" +
              std::to_string(i) + "\n";
    const SourceFile file{"long.txt", text};
    const std::clock_t start = std::clock();  // of this process alone
    auto imported = import_files(std::span(&file, 1), "", {});
    REQUIRE(imported);
    CHECK(imported->profile->num_layers() == n);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  seconds_for(100);
  const double small = seconds_for(3'000);
  const double large = seconds_for(30'000);
  CHECK(large < 40 * small + 0.2);  // a square would be 100 times
}

}  // namespace pipewright
