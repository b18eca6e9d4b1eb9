// How far interpolation between profiled sizes is off, from measured times
// only.

#include <doctest/doctest.h>

#include "pipewright/base/text.h"
#include "pipewright/profile/lowered_times.h"
#include "pipewright/profile/profile_table.h"

namespace pipewright {
namespace {

// Two layers; the first one's time at size 1 is disturbed.
Profile sailor_profile() {
  Profile profile;
  profile.origin.source = "sailor";
  profile.layers.resize(2);
  const auto row = [](double seconds) {
    return LayerTimes{Seconds(seconds), Seconds(2 * seconds), {}, {}};
  };
  profile.times["GPU"] = {{1, {row(9.1), row(1.3)}},
                          {2, {row(2.2), row(2.2)}},
                          {4, {row(4.3), row(4.3)}},
                          {8, {row(8.7), row(8.7)}}};
  return profile;
}

}  // namespace

TEST_CASE("interpolation error: derived times are left out, and counted") {
  Profile profile = sailor_profile();
  TimesBySize& tables = profile.times["GPU"];
  CHECK(lower_outliers(tables) == 1);
  CHECK(is_lowered(tables, 1, 0));
  CHECK_FALSE(is_lowered(tables, 1, 1));
  const InterpolationError error = interpolation_error(profile, "GPU");
  CHECK(error.num_derived == 1);
  CHECK(error.num_sizes == 2);
  // Size 2 is that of the second layer alone: (2 * 1.3 + 4.3) / 3 = 2.3.
  CHECK(error.largest == doctest::Approx(2.3 / 2.2 - 1));
  CHECK(contains(interpolation_text(profile, "GPU"),
                 "(2 sizes; left out: 1 time of a layer that follows from "
                 "those at larger sizes)"));
}

TEST_CASE("interpolation error: a size below which all is derived is not one") {
  Profile profile = sailor_profile();
  TimesBySize& tables = profile.times["GPU"];
  tables[1][1] = tables[1][0];
  CHECK(lower_outliers(tables) == 2);
  const InterpolationError error = interpolation_error(profile, "GPU");
  CHECK(error.num_derived == 2);
  CHECK(error.num_sizes == 1);
}

TEST_CASE("interpolation error: between the two largest one time is derived") {
  Profile profile = sailor_profile();
  TimesBySize& tables = profile.times["GPU"];
  tables[4][0].forward = Seconds(9);
  lower_outliers(tables);
  CHECK(is_lowered(tables, 4, 0));
  CHECK_FALSE(is_lowered(tables, 4, 1));
  CHECK_FALSE(is_lowered(tables, 8, 0));
}

TEST_CASE("interpolation error: other profiles have no derived times") {
  Profile profile = sailor_profile();
  lower_outliers(profile.times["GPU"]);
  profile.origin.source = "measured";
  CHECK(interpolation_error(profile, "GPU").num_derived == 0);
  CHECK(interpolation_text(profile, "GPU").ends_with("(2 sizes)\n"));
}

}  // namespace pipewright
