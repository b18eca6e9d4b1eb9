// pipewright place, from outside: a small instance with a known answer, and
// the errors for files that are not instances.

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"

namespace pipewright::cli {
namespace {

namespace fs = std::filesystem;

Answer place(const std::string& arguments) {
  return answer_of(std::string(PIPEWRIGHT_BINARY) + " place " + arguments +
                   " 2>&1");
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_((fs::temp_directory_path() /
               ("place_test." + std::to_string(::getpid()) + ".json"))
                  .string()) {
    std::ofstream(path_) << text;
  }
  ~TemporaryFile() { fs::remove(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::string node(int id, int latency) {
  return "{\"id\": " + std::to_string(id) +
         ", \"supportedOnFpga\": 1, \"cpuLatency\": 1000, \"fpgaLatency\": " +
         std::to_string(latency) + ", \"isBackwardNode\": 0, \"size\": 1}";
}

// 4, 3, 2, 5 in a row; a cut costs both sides 1. Two devices: 4 + 3 + 1 = 8
// against 1 + 2 + 5 = 8.
std::string four_in_a_row() {
  std::string text =
      "{\"maxSizePerFPGA\": 10, \"maxFPGAs\": 2, \"maxCPUs\": 0, \"nodes\": [";
  const int latencies[] = {4, 3, 2, 5};
  for (int i = 0; i < 4; ++i) text += (i ? ", " : "") + node(i, latencies[i]);
  text += "], \"edges\": [";
  for (int i = 0; i < 3; ++i)
    text += std::string(i ? ", " : "") + "{\"sourceId\": " + std::to_string(i) +
            ", \"destId\": " + std::to_string(i + 1) + ", \"cost\": 1}";
  return text + "]}";
}

}  // namespace

TEST_CASE("place finds the smallest maximum load and proves it") {
  const TemporaryFile file(four_in_a_row());
  const Answer answer = place(file.path() + " --json");
  REQUIRE(answer.code == 0);
  const auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  CHECK(contains(answer.text, "\"max_load\": 8"));
  CHECK(contains(answer.text, "\"proven\": true"));
  CHECK(json->find("accelerators")->if_array()->size() == 2);
  const Answer text = place(file.path());
  CHECK(text.code == 0);
  CHECK(contains(text.text, "(proven optimal)"));
  const Answer any = place(file.path() + " --any-set");
  CHECK(any.code == 0);
  CHECK(contains(any.text, "maximum load with any sets of nodes: 8"));
}

// Up to the time, which differs from run to run.
std::string without_time(std::string text) {
  return text.substr(0, text.find("\ntime: "));
}

TEST_CASE("docs/place.md shows what place prints") {
  const std::string page =
      read_file(PIPEWRIGHT_SOURCE_DIR "/docs/place.md").value();
  const std::string instance = "examples/place/instance.json";
  for (const std::string& option : {std::string(), std::string(" --any-set")}) {
    const std::string command =
        "$ build/pipewright place " + instance + option + "\n";
    const std::size_t shown = page.find(command);
    REQUIRE(shown != std::string::npos);
    const Answer answer = place(PIPEWRIGHT_SOURCE_DIR "/" + instance + option);
    CHECK(answer.code == 0);
    CHECK(without_time(page.substr(shown + command.size())) ==
          without_time(answer.text));
  }
}

TEST_CASE("place rejects files that are not instances") {
  CHECK(place("/no/such/file").code == 66);
  CHECK(place("").code == 2);
  const TemporaryFile plan("{\"format\": \"pipewright/plan\"}");
  CHECK(contains(place(plan.path()).text, "not a placement instance"));
  const TemporaryFile file("{\"nodes\": 3}");
  const Answer answer = place(file.path());
  CHECK(answer.code == 65);
  CHECK(contains(answer.text, file.path()));
}

}  // namespace pipewright::cli
