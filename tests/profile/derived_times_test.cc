// Which sizes the times at another size follow from, and how that is said.

#include "pipewright/profile/derived_times.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace pipewright;

namespace {

Profile profile_with(const std::vector<int>& sizes,
                     const std::string& source = "measured") {
  Profile profile;
  profile.origin.source = source;
  profile.layers.resize(1);
  for (const std::string kind : {"A", "B"})
    for (const int size : sizes)
      profile.times[kind][size] = {
          {Seconds(0.5 + size), Seconds(size), Seconds(0), Seconds(0)}};
  return profile;
}

std::string text_for(const Profile& profile, const SizesByKind& used) {
  return to_text(derived_times(profile, used));
}

}  // namespace

TEST_CASE("one measured size: others are in proportion") {
  const Profile profile = profile_with({32});
  CHECK(text_for(profile, {{"A", {32}}}) == "");
  CHECK(text_for(profile, {{"A", {16}}}) ==
        "times at microbatch 16 are in proportion to those measured at 32");
  CHECK(text_for(profile, {{"A", {8, 16, 32, 64}}}) ==
        "times at microbatch 8, 16 and 64 are in proportion to those measured "
        "at 32");
}

TEST_CASE("several measured sizes: between, below and above them") {
  const Profile profile = profile_with({4, 8, 16});
  const auto from = [&](int size) {
    return derived_times(profile, {{"A", {size}}}).at(0).from;
  };
  CHECK(from(2) == std::vector{4, 8});
  CHECK(from(6) == std::vector{4, 8});
  CHECK(from(9) == std::vector{8, 16});
  CHECK(from(17) == std::vector{16});
  CHECK(derived_times(profile, {{"A", {4, 8, 16}}}).empty());
  CHECK(text_for(profile, {{"A", {6, 32}}}) ==
        "times at microbatch 6 are on the line through those measured at 4 and "
        "8, at microbatch 32 are in proportion to those measured at 16");
}

TEST_CASE("the sizes named are those that the times follow from") {
  const Profile profile = profile_with({4, 8, 16});
  for (int size = 1; size <= 32; ++size) {
    Profile fewer = profile;
    const auto derived = derived_times(profile, {{"A", {size}}});
    if (derived.empty()) continue;
    std::erase_if(fewer.times["A"], [&](const auto& table) {
      return !std::count(derived[0].from.begin(), derived[0].from.end(),
                         table.first);
    });
    CHECK(times_at(profile, "A", size, Outside::Extrapolate).value() ==
          times_at(fewer, "A", size, Outside::Extrapolate).value());
  }
}

TEST_CASE("kinds are named where they differ") {
  Profile profile = profile_with({8});
  CHECK(text_for(profile, {{"A", {4}}, {"B", {4}}}) ==
        "times at microbatch 4 are in proportion to those measured at 8");
  CHECK(text_for(profile, {{"A", {4}}, {"B", {2}}}) ==
        "times on B at microbatch 2 are in proportion to those measured at 8; "
        "on A at microbatch 4 are in proportion to those measured at 8");
}

TEST_CASE("nothing is said of estimates and of unknown kinds") {
  CHECK(text_for(profile_with({32}, "analytic"), {{"A", {16}}}) == "");
  CHECK(text_for(profile_with({32}), {{"C", {16}}}) == "");
}
