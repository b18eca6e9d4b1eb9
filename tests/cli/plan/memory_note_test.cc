// What devices hold beside programs is named in the same words wherever a
// command prints memory.

#include <doctest/doctest.h>

#include "tests/cli/calibrate/slow_cluster.h"

namespace pipewright {
namespace {

struct Printed {
  std::string plan, compare, validate, simulate;
};

Printed printed(const std::string& keys_of_kind) {
  CalibrationFolder folder;
  const std::string cluster = folder / "cluster.json",
                    file = folder / "plan.json";
  REQUIRE(write_file(cluster, cluster_text({keys_of_kind})));
  const std::string problem =
      " --model gpt:layers=2 --minibatch 8 --cluster " + cluster;
  const auto text_of = [](const std::string& command) {
    const Answer answer = run_pipewright(command);
    CHECK(answer.code == 0);
    return answer.text;
  };
  Printed all;
  all.plan = text_of("plan --planner balanced -o " + file + problem);
  all.compare = text_of("compare --budget 1" + problem);
  all.validate = text_of("validate " + file + " --cluster " + cluster);
  all.simulate = text_of("simulate " + file + " --cluster " + cluster);
  return all;
}

bool has_note(const std::string& text, const std::string& indent = "") {
  return contains(
      text, "\n" + indent +
                "memory: of programs, without what devices hold beside them\n" +
                indent +
                "V100: 1 GB of base memory, 10 % fragmentation: programs can "
                "hold 13.6 GB of 16 GB\n");
}

}  // namespace

TEST_CASE("base memory and fragmentation are named below every table") {
  const Printed with =
      printed(R"(, "base_memory": "1GB", "fragmentation": 0.1)");
  CHECK(has_note(with.plan));
  CHECK(has_note(with.compare));
  CHECK(has_note(with.validate, "  "));
  CHECK(contains(with.validate, " of 13.6 GB, at "));
  // Its columns are the parts, and its peak is their sum.
  CHECK(contains(with.simulate, "  base  fragmented\n"));
  CHECK(contains(with.simulate, "base: base memory, fragmented: "));
}

TEST_CASE("where devices hold nothing else nothing is said of it") {
  const Printed without = printed("");
  for (const std::string* text :
       {&without.plan, &without.compare, &without.validate, &without.simulate})
    for (const char* word : {"of programs", "base", "fragment"})
      CHECK(!contains(*text, word));
}

}  // namespace pipewright
