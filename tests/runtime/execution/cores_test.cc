// Workers are spread over physical cores before they share one.

#include "pipewright/runtime/execution/cores.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

namespace pipewright {
namespace {

using List = std::vector<int>;

TEST_CASE("lists of processors are read as the system writes them") {
  CHECK(parse_processor_list("0-3,8") == List{0, 1, 2, 3, 8});
  CHECK(parse_processor_list("5") == List{5});
  CHECK(parse_processor_list("1,9\n") == List{1, 9});
  CHECK(parse_processor_list("").empty());
  CHECK(parse_processor_list("none").empty());
  CHECK(parse_processor_list("2-").empty());
  CHECK(parse_processor_list("0-99999999").empty());
}

TEST_CASE("one processor of each core comes before any second one") {
  const auto neighbours = [](int i) { return List{i / 2 * 2, i / 2 * 2 + 1}; };
  CHECK(spread_over_cores({0, 1, 2, 3, 4, 5}, neighbours) ==
        List{0, 2, 4, 1, 3, 5});
  const auto halves = [](int i) { return List{i % 3, i % 3 + 3}; };
  CHECK(spread_over_cores({0, 1, 2, 3, 4, 5}, halves) ==
        List{0, 1, 2, 3, 4, 5});
  // A sibling that this process may not use takes no place.
  CHECK(spread_over_cores({1, 3, 4, 5}, neighbours) == List{1, 3, 4, 5});
  const auto unknown = [](int) { return List{}; };
  CHECK(spread_over_cores({7, 2}, unknown) == List{2, 7});
}

TEST_CASE("workers stay on cores of their own, unless they could be moved") {
  const bool hardware = false, is_virtual = true;
  CHECK(keeps_to_cores(2, 2, hardware));
  CHECK(keeps_to_cores(8, 16, hardware));
  CHECK_FALSE(keeps_to_cores(17, 16, hardware));
  CHECK(keeps_to_cores(16, 16, is_virtual));
  CHECK_FALSE(keeps_to_cores(8, 16, is_virtual));
  CHECK_FALSE(keeps_to_cores(17, 16, is_virtual));
}

TEST_CASE("a virtual machine says so among the flags of its processors") {
  const auto names = [](const char* text) {
    std::istringstream cpuinfo(text);
    return names_hypervisor(cpuinfo);
  };
  CHECK(names("processor\t: 0\nflags\t\t: fpu hypervisor lm\nbugs\t: x\n"));
  CHECK_FALSE(names("processor\t: 0\nflags\t\t: fpu lm\nbugs\t: x\n"));
  CHECK_FALSE(names("model name\t: hypervisor\nFeatures\t: fp asimd\n"));
  CHECK_FALSE(names(""));
}

TEST_CASE("this process has each of its processors once") {
  List cores = usable_cores();
  CHECK(static_cast<int>(cores.size()) == num_usable_cores());
  std::sort(cores.begin(), cores.end());
  CHECK(std::unique(cores.begin(), cores.end()) == cores.end());
}

}  // namespace
}  // namespace pipewright
