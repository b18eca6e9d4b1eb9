// The processors this process may run on, in the order in which workers should
// take them: first one of each physical core, then the second threads of the
// same cores. Two workers on one physical core would share its arithmetic.

#pragma once

#include <functional>
#include <iosfwd>
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

// Whether workers, all that run on this machine, should each stay on a
// processor of their own: where there are enough, but not on a virtual machine
// that has more. Its processors lose speed to neighbours for seconds at a time;
// a worker that may move is moved.
bool keeps_to_cores(int workers, int processors, bool is_virtual);
// On this machine.
bool keeps_to_cores(int workers);

// Whether this text of /proc/cpuinfo says that it is a virtual machine's. Arm's
// does not say.
bool names_hypervisor(std::istream& cpuinfo);

// "0-3,8" -> 0, 1, 2, 3, 8, the system's own way to list processors; what
// cannot be read ends the list.
std::vector<int> parse_processor_list(const std::string& text);

}  // namespace pipewright
