// `pipewright simulate` from outside: the example, files, exit codes.

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"

namespace pipewright {
namespace {

Answer answer_to(const std::string& arguments, bool with_errors = true) {
  return answer_of("cd '" PIPEWRIGHT_SOURCE_DIR
                   "' && COLUMNS=80 '" PIPEWRIGHT_BINARY "' simulate " +
                   arguments + (with_errors ? " 2>&1" : " 2>/dev/null"));
}

const std::string kPlan = "examples/simulate/plan.json ";

std::string temporary(const std::string& name) {
  return (std::filesystem::temp_directory_path() /
          ("pipewright_simulate_" + std::to_string(::getpid()) + name))
      .string();
}

TEST_CASE("the example prints what it says") {
  const Answer answer = answer_to(kPlan + "--cluster 4xV100@nvlink --draw");
  CHECK(answer.code == 0);
  CHECK(answer.text ==
        read_file(PIPEWRIGHT_SOURCE_DIR "/examples/simulate/expected.txt")
            .value());
}

TEST_CASE("what bounds the step is said in words and in JSON") {
  CHECK(contains(answer_to(kPlan + "--cluster 4xV100@nvlink").text,
                 "\nstage 3 is the bottleneck: "));
  const Answer slow =
      answer_to(kPlan + "--cluster 4xV100@100MB/s --json", false);
  const auto json = parse_json(slow.text, "answer");
  REQUIRE(json.ok());
  CHECK(contains(*json->find("bound_by")->if_string(), "link "));
  for (const char* key : {"step_seconds", "bubble"})
    CHECK(json->find(key) != nullptr);
  CHECK(json->find("devices")->if_array()->size() == 4);
  CHECK(json->find("links")->if_array()->size() == 6);
}

TEST_CASE("costs come from the plan's model, another model or a profile") {
  const std::string cluster = "--cluster 4xV100@nvlink";
  const std::string by_plan = answer_to(kPlan + cluster).text;
  CHECK(answer_to(kPlan + cluster + " --model vgg16").text == by_plan);
  CHECK(answer_to(kPlan + cluster + " --model vgg16:image=112").text !=
        by_plan);
  const std::string file = temporary(".json");
  const std::string make = "'" PIPEWRIGHT_BINARY
                           "' profile vgg16 --microbatch 16 --analytic "
                           "--device V100 -o " +
                           file + " > /dev/null 2>&1";
  REQUIRE(std::system(make.c_str()) == 0);
  // A profile does not say its number type.
  const std::string type = ", in float32";
  REQUIRE(contains(by_plan, type));
  std::string untyped = by_plan;
  untyped.erase(untyped.find(type), type.size());
  CHECK(answer_to(kPlan + cluster + " --profile " + file).text == untyped);
  CHECK(answer_to(kPlan + cluster + " --model vgg16 --profile " + file).code ==
        2);
  std::filesystem::remove(file);
}

TEST_CASE("times that were not measured at the plan's size are said") {
  const std::string file = temporary(".json");
  const std::string gnmt =
      " --cluster 4xV100@1GB/s --profile " PIPEWRIGHT_SOURCE_DIR
      "/examples/profiles/gnmt-v100.json";
  const Answer planned = run_pipewright(
      "plan --planner balanced --minibatch 64 --microbatch 16 -o " + file +
      gnmt);
  REQUIRE(planned.code == 0);
  CHECK(contains(answer_to(file + gnmt).text,
                 "\ntimes at microbatch 16 are in proportion to those measured "
                 "at 32\n"));
  const auto json =
      parse_json(answer_to(file + gnmt + " --json", false).text, "answer");
  REQUIRE(json.ok());
  REQUIRE(json->find("derived_times")->if_array()->size() == 1);
  const Json& derived = json->find("derived_times")->if_array()->at(0);
  CHECK(derived.to_line() ==
        "{\"kind\":\"V100\",\"microbatch\":16,\"from\":[32]}");
  std::filesystem::remove(file);
  // An estimate was never measured.
  CHECK_FALSE(
      contains(answer_to(kPlan + "--cluster 4xV100@nvlink").text, "times at"));
}

// The plan of the example does not say its type: kinds with units for bfloat16
// are estimated in it, with masters of four bytes for weights of two.
TEST_CASE("the number type is said, and memory counts its masters") {
  const auto words = [](const std::string& cluster, const std::string& type) {
    const Answer answer =
        answer_to(kPlan + "--json --cluster " + cluster, false);
    const auto json = parse_json(answer.text, "answer");
    REQUIRE(json.ok());
    CHECK(*json->find("number_type")->if_string() == type);
    const Json& peak =
        *json->find("devices")->if_array()->back().find("memory_peak");
    return std::get<std::int64_t>(peak.find("optimizer")->value()) /
           std::get<std::int64_t>(peak.find("weights")->value());
  };
  CHECK(words("4xV100@nvlink", "float32") == 1);
  CHECK(words("4xA100-40@nvlink", "bfloat16") == 4);
  CHECK(contains(answer_to(kPlan + "--cluster 4xV100@nvlink").text,
                 " %, in float32\n"));
  CHECK(contains(answer_to(kPlan + "--cluster 4xA100-40@nvlink").text,
                 " %, in bfloat16\n"));
}

TEST_CASE("pictures go to files") {
  const std::string svg = temporary(".svg"), trace = temporary(".json");
  CHECK(answer_to(kPlan + "--cluster 4xV100@1GB/s --svg " + svg + " --trace " +
                  trace)
            .code == 0);
  CHECK(read_file(svg).value().starts_with("<svg "));
  CHECK(parse_json(read_file(trace).value(), "trace").ok());
  std::filesystem::remove(svg);
  std::filesystem::remove(trace);
}

TEST_CASE("bad input is refused with the reason") {
  CHECK(answer_to("").code == 2);
  CHECK(answer_to("no/such/plan.json --cluster 4xV100").code == 66);
  const Answer few = answer_to(kPlan + "--cluster 2xV100");
  CHECK(few.code == 78);
  CHECK(contains(few.text, "has 2 devices"));
  const Answer other = answer_to(kPlan + "--cluster 4xV100 --model resnet18");
  CHECK(other.code == 78);
  CHECK(contains(other.text, "that the plan was made for"));
  const Answer long_run =
      answer_to(kPlan + "--cluster 4xV100 --minibatches 1000000");
  CHECK(long_run.code == 78);
  CHECK(contains(long_run.text, "--minibatches 60975"));
  CHECK(answer_to(kPlan + "--cluster 4xV100 --minibatches 0").code == 2);
}

}  // namespace
}  // namespace pipewright
