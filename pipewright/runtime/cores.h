// The processors this process may run on, in the order in which workers should
// take them: first one of each physical core, then the second threads of the
// same cores. Two workers on one physical core would share its arithmetic.

#pragma once

#include <functional>
#include <string>
#include <vector>

namespace pipewright {

// All processors of the physical core that a processor belongs to; none where
// the system does not say.
using CoreSiblings = std::function<std::vector<int>(int processor)>;

// `processors`, those first that have no smaller sibling among them.
std::vector<int> spread_over_cores(std::vector<int> processors,
                                   const CoreSiblings& siblings);

// Those of this process, in that order.
std::vector<int> usable_cores();
int num_usable_cores();

// "0-3,8" -> 0, 1, 2, 3, 8, the system's own way to list processors; what
// cannot be read ends the list.
std::vector<int> parse_processor_list(const std::string& text);

}  // namespace pipewright
