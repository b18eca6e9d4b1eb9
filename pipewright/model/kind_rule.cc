#include "pipewright/model/kind_rule.h"

namespace pipewright {

std::optional<std::int64_t> checked_elements(const Shape& shape) {
  std::int64_t product = 1;
  for (std::int64_t extent : shape) {
    if (extent < 1 || extent > kMaxElements) return std::nullopt;
    if (product > kMaxElements / extent) return std::nullopt;
    product *= extent;
  }
  return product;
}

}  // namespace pipewright
