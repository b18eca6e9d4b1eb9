// Rates, step by step, against the table in learning_rate.h.

#include "pipewright/runtime/training/learning_rate.h"

#include <doctest/doctest.h>

#include <cmath>

namespace pipewright {
namespace {

LearningRate rate(const std::string& text, std::int64_t warm_up = 0) {
  return parse_learning_rate(text, 0.8, warm_up).value();
}

TEST_CASE("warm-up rises to the full rate, whatever follows") {
  for (const char* text : {"constant", "cosine", "inverse-sqrt", "step:50,0.5"})
    for (int k = 0; k < 4; ++k)
      CHECK(rate(text, 4).at(k, 100) == doctest::Approx(0.2 * (k + 1)));
}

TEST_CASE("constant and step") {
  CHECK(rate("constant").at(0, 10) == 0.8);
  CHECK(rate("constant").at(1'000'000, 10) == 0.8);
  CHECK(rate("step:10,0.5").at(9, 100) == 0.8);
  CHECK(rate("step:10,0.5").at(10, 100) == doctest::Approx(0.4));
  CHECK(rate("step:10,0.5").at(39, 100) == doctest::Approx(0.1));
}

TEST_CASE("cosine starts at the rate, is half way in the middle, ends lowest") {
  const LearningRate cosine = rate("cosine:0.2", 20);
  CHECK(cosine.at(20, 120) == doctest::Approx(0.8));
  CHECK(cosine.at(70, 120) == doctest::Approx(0.5));
  CHECK(cosine.at(120, 120) == doctest::Approx(0.2));
  CHECK(cosine.at(500, 120) == doctest::Approx(0.2));
  for (int k = 20; k < 120; ++k)
    CHECK(cosine.at(k + 1, 120) < cosine.at(k, 120));
  CHECK(std::isfinite(rate("cosine").at(0, 0)));
}

TEST_CASE("inverse-sqrt falls with the root after the warm-up") {
  const LearningRate falling = rate("inverse-sqrt", 16);
  CHECK(falling.at(15, 100) == doctest::Approx(0.8));
  CHECK(falling.at(63, 100) == doctest::Approx(0.4));
  CHECK(rate("inverse-sqrt").at(3, 100) == doctest::Approx(0.4));
}

TEST_CASE("an unknown schedule is an error that names the nearest") {
  for (const char* text :
       {"", "step", "step:0,0.5", "step:10", "step:10,0", "step:a,b",
        "cosine:x", "cosine:1", "constant:1", "inverse-sqrt:2", "cosine:0:1"})
    CHECK(parse_learning_rate(text, 0.8, 0).error().code ==
          ErrorCode::BadConfiguration);
  CHECK(parse_learning_rate("cosin", 0.8, 0).error().hint.find("cosine") !=
        std::string::npos);
  CHECK(!parse_learning_rate("constant", -1, 0).ok());
  CHECK(!parse_learning_rate("constant", std::nan(""), 0).ok());
  CHECK(!parse_learning_rate("constant", 1, -1).ok());
}

}  // namespace
}  // namespace pipewright
