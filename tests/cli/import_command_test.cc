// pipewright import as a person calls it: what it prints, writes and exits
// with.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"
#include "tests/profile/formats/formats_samples.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

// A folder of samples that is gone when the test ends.
class Folder {
 public:
  Folder()
      : path_(fs::temp_directory_path() /
              ("pipewright-import-" + std::to_string(::getpid()))) {
    for (const char* name : {"toy/graph.txt", "hybrid_conf.json"}) {
      const SourceFile file = sample_named(name);
      fs::create_directories((path_ / name).parent_path());
      REQUIRE(write_file(path_ / name, file.text));
    }
    REQUIRE(write_file(path_ / "bad.txt", "node1 -- A -- forward\n"));
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  std::string operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

Answer import_with(const std::string& arguments) {
  return answer_of(PIPEWRIGHT_BINARY " import " + arguments + " 2>&1");
}

bool says(const Answer& answer, const std::string& part) {
  return answer.text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("import writes a profile and says what it is") {
  Folder folder;
  const std::string out = folder / "profile.json";
  const Answer answer =
      import_with((folder / "toy/graph.txt") + " --samples 8 -o " + out);
  CHECK(answer.code == 0);
  CHECK(says(answer, "recognised: pipedream, layer graph with plan (1 file)"));
  CHECK(says(answer, "layers: 3, edges: 3 (in the source: 4 nodes, 4"));
  CHECK(says(answer, "estimated: the split of backward"));
  CHECK(says(answer, "dropped: 1 input node that loads data (9 ms)"));
  CHECK(says(answer, "wrote " + out));
  auto text = read_file(out);
  REQUIRE(text);
  auto profile = parse_profile(*text, out);
  REQUIRE(profile);
  CHECK(profile->times.at("V100").count(8) == 1);
}

TEST_CASE("import --json is one object") {
  Folder folder;
  const Answer answer = import_with((folder / "toy/graph.txt") + " --json");
  CHECK(answer.code == 0);
  auto json = parse_json(answer.text, "stdout");
  REQUIRE(json);
  CHECK(*json->find("from")->if_string() == "pipedream");
  REQUIRE(json->find("profile")->if_object());
  CHECK(json->find("profile")->find("times")->if_array()->size() == 1);
  CHECK(json->find("written")->is_null());
}

TEST_CASE("import fails with the right code and place") {
  Folder folder;
  Answer answer = import_with((folder / "bad.txt") + " --from pipedream");
  CHECK(answer.code == 65);
  CHECK(says(answer, "bad.txt:1: expected \"forward_compute_time=\""));
  answer = import_with(folder / "none.txt");
  CHECK(answer.code == 66);
  answer = import_with((folder / "hybrid_conf.json") + " -o " +
                       (folder / "profile.json"));
  CHECK(answer.code == 78);
  CHECK(says(answer, "no profile to write"));
  CHECK_FALSE(fs::exists(folder / "profile.json"));
  answer = import_with((folder / "bad.txt") + " --from pipedraem");
  CHECK(answer.code == 78);
  CHECK(says(answer, "did you mean \"pipedream\"?"));
  CHECK(import_with("").code == 2);
  CHECK(import_with((folder / "toy/graph.txt") + " --samples 0").code == 2);
}

TEST_CASE("whatever kind is named, missing is 66 and empty 65") {
  for (const Importer& importer : importers()) {
    CAPTURE(importer.name);
    const std::string from = " --from " + importer.name;
    CHECK(import_with("/no/such/file" + from).code == 66);
    const Answer empty = import_with("/dev/null" + from);
    CHECK(empty.code == 65);
    CHECK(says(empty, "/dev/null"));
  }
}

}  // namespace pipewright
