// A folder with a sample of each file that import's tests read, and import as a
// person calls it.

#pragma once

#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "pipewright/base/files.h"
#include "tests/answer.h"
#include "tests/profile/formats/formats_samples.h"

namespace pipewright {

// Gone when the test ends.
class ImportFolder {
 public:
  ImportFolder()
      : path_(std::filesystem::temp_directory_path() /
              ("pipewright-import-" + std::to_string(::getpid()))) {
    for (const char* name :
         {"toy/graph.txt", "hybrid_conf.json", "OPT/V100-16/profile.json",
          "llm_info.json", "network.json", "plan_config.json", "cluster.json",
          "computation_profiling.json", "memory_profiling.json",
          "galvatron_config.json"})
      write(name, sample_named(name).text);
    write("bad.txt", "node1 -- A -- forward\n");
  }
  ~ImportFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string& name) const { return path_ / name; }

  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    REQUIRE(write_file(path_ / name, text));
  }
  // These files of it, for a command line.
  std::string files(const std::vector<std::string>& names) const {
    std::string list;
    for (const std::string& name : names) list += *this / name + " ";
    return list;
  }
  // Options that write all three files.
  std::string outputs() const {
    return "-o " + *this / "p.json" + " --plan " + *this / "plan.json" +
           " --cluster " + *this / "c.json";
  }

 private:
  std::filesystem::path path_;
};

inline Answer import_with(const std::string& arguments) {
  return run_pipewright("import " + arguments);
}

inline bool says(const Answer& answer, const std::string& part) {
  return contains(answer.text, part);
}

}  // namespace pipewright
