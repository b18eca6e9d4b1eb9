// Processors and the cores they share; see cores.h.

#include "pipewright/runtime/execution/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

namespace pipewright {
namespace {

std::vector<int> allowed_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> processors;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return processors;
  for (int processor = 0; processor < CPU_SETSIZE; ++processor)
    if (CPU_ISSET(processor, &set)) processors.push_back(processor);
  return processors;
}

std::vector<int> siblings_of(int processor) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(processor) +
                     "/topology/thread_siblings_list");
  std::string line;
  std::getline(file, line);
  return parse_processor_list(line);
}

}  // namespace

std::vector<int> parse_processor_list(const std::string& text) {
  std::vector<int> processors;
  std::istringstream input(text);
  for (int first = 0; input >> first;) {
    int last = first;
    if (input.peek() == '-') {
      input.get();
      if (!(input >> last)) break;
    }
    if (first < 0 || last >= CPU_SETSIZE) break;
    for (int i = first; i <= last; ++i) processors.push_back(i);
    if (input.get() != ',') break;
  }
  return processors;
}

std::vector<int> spread_over_cores(std::vector<int> processors,
                                   const CoreSiblings& siblings) {
  std::sort(processors.begin(), processors.end());
  const auto num_before = [&](int processor) {
    const std::vector<int> same = siblings(processor);
    return std::count_if(same.begin(), same.end(), [&](int other) {
      return other < processor &&
             std::binary_search(processors.begin(), processors.end(), other);
    });
  };
  std::vector<std::pair<long, int>> places;
  for (const int processor : processors)
    places.emplace_back(num_before(processor), processor);
  std::sort(places.begin(), places.end());
  std::transform(places.begin(), places.end(), processors.begin(),
                 [](const auto& place) { return place.second; });
  return processors;
}

std::vector<int> usable_cores() {
  return spread_over_cores(allowed_processors(), siblings_of);
}

int num_usable_cores() {
  const auto count = static_cast<int>(allowed_processors().size());
  return count > 0 ? count
                   : static_cast<int>(std::thread::hardware_concurrency());
}

bool keeps_to_cores(int workers, int processors, bool is_virtual) {
  return is_virtual ? workers == processors : workers <= processors;
}

bool keeps_to_cores(int workers) {
  std::ifstream cpuinfo("/proc/cpuinfo");
  return keeps_to_cores(workers, num_usable_cores(), names_hypervisor(cpuinfo));
}

bool names_hypervisor(std::istream& cpuinfo) {
  for (std::string line; std::getline(cpuinfo, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word != "flags") continue;
    while (words >> word)
      if (word == "hypervisor") return true;
    return false;  // those of the first processor are those of all
  }
  return false;
}

}  // namespace pipewright
