#include "pipewright/runtime/training/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

Error unknown_schedule(const std::string& text) {
  const std::vector<std::string> known = {"constant", "step:N,FACTOR", "cosine",
                                          "cosine:LOWEST", "inverse-sqrt"};
  return bad_configuration("unknown --lr-schedule \"" + text + "\"",
                           suggestion(text, known));
}

}  // namespace

double LearningRate::at(std::int64_t step, std::int64_t total) const {
  const auto real = [](std::int64_t n) { return static_cast<double>(n); };
  if (step < warm_up) return rate * real(step + 1) / real(warm_up);
  switch (shape) {
    case Shape::Constant:
      break;
    case Shape::Step:
      return rate * std::pow(factor, real(step / every));
    case Shape::Cosine: {
      const double length = real(std::max<std::int64_t>(total - warm_up, 1));
      const double share = std::min(real(step - warm_up) / length, 1.0);
      return lowest +
             (rate - lowest) * (1 + std::cos(std::numbers::pi * share)) / 2;
    }
    case Shape::InverseSqrt:
      return rate * std::sqrt(real(std::max<std::int64_t>(warm_up, 1)) /
                              real(std::max(step + 1, warm_up)));
  }
  return rate;
}

Result<LearningRate> parse_learning_rate(const std::string& text, double rate,
                                         std::int64_t warm_up) {
  if (!std::isfinite(rate) || rate < 0)
    return bad_configuration("--lr is " + to_text(rate) +
                             "; it must be a number of at least 0");
  if (warm_up < 0)
    return bad_configuration("--warm-up is " + std::to_string(warm_up) +
                             "; it must be at least 0");
  LearningRate result;
  result.rate = rate;
  result.warm_up = warm_up;
  const auto parts = split(text, ':');
  const auto numbers = parts.size() == 2 ? split(parts[1], ',')
                                         : std::vector<std::string_view>();
  if (parts.size() > 2) return unknown_schedule(text);
  if (parts[0] == "step" && numbers.size() == 2) {
    const auto every = parse_integer(numbers[0]);
    const auto factor = parse_real(numbers[1]);
    if (!every || *every < 1 || !factor || *factor <= 0)
      return unknown_schedule(text);
    result.shape = LearningRate::Shape::Step;
    result.every = *every;
    result.factor = *factor;
    return result;
  }
  if (parts[0] == "cosine" && numbers.size() <= 1) {
    const std::optional<double> lowest =
        numbers.empty() ? 0.0 : parse_real(numbers[0]);
    if (!lowest || !(*lowest >= 0) || *lowest > rate)
      return unknown_schedule(text);
    result.shape = LearningRate::Shape::Cosine;
    result.lowest = *lowest;
    return result;
  }
  if (text == "inverse-sqrt")
    result.shape = LearningRate::Shape::InverseSqrt;
  else if (text != "constant")
    return unknown_schedule(text);
  return result;
}

}  // namespace pipewright
