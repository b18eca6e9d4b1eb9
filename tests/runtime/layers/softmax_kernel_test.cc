// The softmax of attention's scores against its definition in double, for rows
// of every length around those that vectors take, causal and not.

#include "pipewright/runtime/layers/softmax_kernel.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace pipewright {
namespace {

constexpr std::int64_t kHeads = 2, kPositions = 19;

std::vector<float> some_scores(std::int64_t keys) {
  std::vector<float> scores;
  for (std::int64_t i = 0; i < kHeads * kPositions * keys; ++i)
    scores.push_back(
        40 * std::sin(static_cast<float>(i * i % 1009)));  // some far apart
  return scores;
}

std::vector<double> exact_row(const float* scores, std::int64_t seen,
                              std::int64_t keys, double scale) {
  std::vector<double> row(keys, 0.0);
  const double most = *std::max_element(scores, scores + seen);
  double sum = 0;
  for (std::int64_t i = 0; i < seen; ++i)
    sum += row[i] = std::exp(scale * (scores[i] - most));
  for (double& share : row) share /= sum;
  return row;
}

}  // namespace

TEST_CASE("a row of scores becomes its softmax") {
  const float scale = 0.125F;
  for (std::int64_t keys : {1, 2, 15, 16, 17, 31, 32, 33, 100})
    for (const bool causal : {false, true}) {
      const std::vector<float> scores = some_scores(keys);
      std::vector<float> made = scores;
      softmax_of_scores(made.data(), kHeads, kPositions, keys, scale, causal);
      double error = 0;
      for (std::int64_t r = 0; r < kHeads * kPositions; ++r) {
        const std::int64_t seen =
            causal ? std::min(r % kPositions + 1, keys) : keys;
        const auto wanted =
            exact_row(scores.data() + r * keys, seen, keys, scale);
        for (std::int64_t i = 0; i < keys; ++i) {
          const float share = made[r * keys + i];
          error = std::max(error, std::abs(share - wanted[i]));
          if (i >= seen) CHECK(share == 0);
        }
      }
      CAPTURE(keys);
      CHECK(error < 1e-6);
    }
}

TEST_CASE("a score that is not a number makes its row one") {
  std::vector<float> scores(40, 1.F);
  scores[7] = std::numeric_limits<float>::quiet_NaN();
  softmax_of_scores(scores.data(), 1, 2, 20, 1.F, false);
  CHECK(std::isnan(scores[0]));
  CHECK(scores[20] == doctest::Approx(0.05));
}

}  // namespace pipewright
