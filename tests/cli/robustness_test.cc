// Whatever a file contains, every reader returns a value or an error with its
// place: no crash, no hang, bounded memory.

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <random>
#include <set>

#include "cli/readers.h"
#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/cli/mutations.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

const fs::path kSamples = fs::path(PIPEWRIGHT_SOURCE_DIR) / "fuzz/samples";

struct Sample {
  const Reader* reader;
  std::string file;
  std::string text;
};

std::vector<Sample> samples() {
  std::vector<Sample> found;
  for (const Reader& reader : readers())
    for (const auto& entry : fs::directory_iterator(kSamples / reader.name))
      found.push_back(
          {&reader, entry.path().string(), read_file(entry.path()).value()});
  return found;
}

// Far more than any reader takes; sanitizers are several times slower.
#if defined(__SANITIZE_THREAD__)
constexpr double kMaxSeconds = 120;
#elif defined(__SANITIZE_ADDRESS__)
constexpr double kMaxSeconds = 30;
#else
constexpr double kMaxSeconds = 5;
#endif

// Reads, and fails the test if an error is not usable.
bool reads_well(const Reader& reader, const std::string& text) {
  const std::clock_t start = std::clock();  // of this process alone
  const auto answer = reader.read(text, "the file");
  const double seconds =
      static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  bool good = seconds < kMaxSeconds;
  if (!answer) {
    const Error& error = answer.error();
    good = good && error.to_text().find("the file") != std::string::npos;
    // A file of another project may also need an option to be named.
    good = good &&
           (error.code == ErrorCode::MalformedInput ||
            (!reader.is_ours && error.code == ErrorCode::BadConfiguration));
  }
  if (!good) {
    CAPTURE(reader.name);
    CAPTURE(text);
    CAPTURE(seconds);
    FAIL_CHECK((answer ? *answer : answer.error().to_text()));
  }
  return answer.ok();
}

[[maybe_unused]] double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

}  // namespace

TEST_CASE("every reader has samples, every folder of samples a reader") {
  std::set<std::string> names, folders;
  for (const Reader& reader : readers()) names.insert(reader.name);
  for (const auto& entry : fs::directory_iterator(kSamples))
    folders.insert(entry.path().filename().string());
  CHECK(names == folders);
  for (const Sample& sample : samples()) {
    const auto answer = sample.reader->read(sample.text, sample.file);
    CHECK_MESSAGE(answer.ok(), answer.error().to_text());
  }
}

TEST_CASE("our files are recognised by their content") {
  for (const Sample& sample : samples()) {
    if (!sample.reader->is_ours) continue;
    const auto chosen = reader_of(sample.text, sample.file);
    REQUIRE_MESSAGE(chosen.ok(), sample.file);
    CHECK((*chosen)->name == sample.reader->name);
  }
}

TEST_CASE("empty and nearly empty files") {
  for (const Reader& reader : readers())
    for (const char* text : {"", " ", "\n", "{}", "[]", "0", "\"x\"", "null",
                             "{", "\xFF\xFE", "schedule", ",", "\t -- "})
      if (reads_well(reader, text)) CHECK(reader.name == "json");
}

TEST_CASE("truncated at every 64th part") {
  for (const Sample& sample : samples()) {
    const std::size_t size = sample.text.size();
    for (std::size_t part = 0; part < 64; ++part)
      reads_well(*sample.reader, sample.text.substr(0, size * part / 64));
  }
}

TEST_CASE("every value replaced by one of another type") {
  const std::vector<Json> others = {
      Json(),   Json(true),          Json(-1),      Json(1e300), Json("x"),
      Json(""), Json(Json::Array{}), Json::object()};
  for (const Sample& sample : samples()) {
    auto json = parse_json(sample.text, sample.file);
    if (!json) continue;  // a text form
    for (std::size_t i = 0; i < num_values(*json); ++i)
      for (const Json& other : others)
        reads_well(*sample.reader, with_value(*json, i, other).to_text());
  }
}

TEST_CASE("a wrong version or format is reported") {
  for (const Sample& sample : samples()) {
    if (sample.reader->format.empty()) continue;
    for (const auto& [key, value] :
         {std::pair{"version", Json(99)}, std::pair{"format", Json("other")}}) {
      const Json json = parse_json(sample.text, sample.file).value();
      Json changed = Json::object();
      for (const auto& [name, member] : *json.if_object())
        changed.set(name, name == key ? value : member);
      const auto answer = sample.reader->read(changed.to_text(), "the file");
      REQUIRE_MESSAGE(!answer.ok(), sample.file);
      CHECK(answer.error().to_text().find(key) != std::string::npos);
    }
  }
}

TEST_CASE("10,000 random mutations of each sample") {
  for (const Sample& sample : samples()) {
    std::mt19937 random(static_cast<unsigned>(sample.text.size()));
    for (int i = 0; i < 10'000; ++i)
      reads_well(*sample.reader, mutated(sample.text, random));
  }
}

TEST_CASE("all of that within 512 MB") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("a sanitizer's own memory is not ours: not measured");
#else
  CHECK(peak_megabytes() < 512);
#endif
}

}  // namespace pipewright::cli
