#include "tests/runtime/execution/watched_malloc.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <sstream>
#include <vector>

extern "C" {
void* __libc_malloc(std::size_t bytes);  // glibc's own
extern const char __executable_start, etext;
}

namespace pipewright::testing {
namespace {

using Site = std::vector<void*>;  // return addresses, from inside out

struct Range {
  std::uintptr_t first = 0, end = 0;
  bool has(const void* address) const {
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    return first <= at && at < end;
  }
};

thread_local bool is_watched = false;
std::atomic<std::int64_t> num_others = 0;
std::mutex mutex;  // of ours
std::map<Site, std::int64_t> ours;

const Range& program() {
  static const Range range{
      reinterpret_cast<std::uintptr_t>(&__executable_start),
      reinterpret_cast<std::uintptr_t>(&etext)};
  return range;
}

// Libraries that ask for memory on behalf of their callers.
const std::vector<Range>& go_betweens() {
  static const std::vector<Range> ranges = [] {
    std::vector<Range> found;
    const auto add = [](dl_phdr_info* library, std::size_t, void* list) {
      const std::string name = library->dlpi_name;
      for (const char* known : {"/libc.so", "/libstdc++.so", "/libc10.so"})
        for (int i = 0;
             name.find(known) != name.npos && i < library->dlpi_phnum; ++i) {
          const std::uintptr_t at =
              library->dlpi_addr + library->dlpi_phdr[i].p_vaddr;
          if (library->dlpi_phdr[i].p_type == PT_LOAD)
            static_cast<std::vector<Range>*>(list)->push_back(
                {at, at + library->dlpi_phdr[i].p_memsz});
        }
      return 0;
    };
    ::dl_iterate_phdr(add, &found);
    return found;
  }();
  return ranges;
}

bool is_go_between(const void* address) {
  return std::any_of(go_betweens().begin(), go_betweens().end(),
                     [&](const Range& range) { return range.has(address); });
}

constexpr int kOwnFrames = 2;  // look() and malloc()

struct Search {
  int num_frames = 0;
  void* asker = nullptr;
};

_Unwind_Reason_Code visit(_Unwind_Context* frame, void* state) {
  auto& search = *static_cast<Search*>(state);
  auto* const at = reinterpret_cast<void*>(::_Unwind_GetIP(frame));
  if (++search.num_frames <= kOwnFrames || is_go_between(at))
    return _URC_NO_REASON;
  search.asker = at;
  return _URC_END_OF_STACK;
}

[[gnu::noinline]] void record_site() {
  constexpr int kDepth = 16;
  void* frames[kDepth];
  Site site(frames, frames + ::backtrace(frames, kDepth));
  std::erase_if(site, [](void* at) { return !program().has(at); });
  site.erase(site.begin(), site.begin() + kOwnFrames + 1);  // and this one
  const std::lock_guard lock(mutex);
  ++ours[site];
}

[[gnu::noinline]] void look() {
  is_watched = false;
  Search search;
  ::_Unwind_Backtrace(visit, &search);
  if (search.asker && program().has(search.asker))
    record_site();
  else
    ++num_others;
  is_watched = true;
}

std::string name_of(void* address) {
  Dl_info info{};
  std::ostringstream text;
  text << "0x" << std::hex
       << reinterpret_cast<std::uintptr_t>(address) - program().first;
  if (::dladdr(address, &info) && info.dli_sname) text << ' ' << info.dli_sname;
  return text.str();
}

}  // namespace

void watch_this_thread(bool on) {
  go_betweens();
  void* frame = nullptr;
  ::backtrace(&frame, 1);  // loads a library the first time
  is_watched = on;
}

Allocations take_allocations() {
  const std::lock_guard lock(mutex);
  Allocations taken;
  taken.others = num_others.exchange(0);
  for (const auto& [site, count] : ours) {
    taken.ours += count;
    taken.sites += std::to_string(count) + " times\n";
    for (void* at : site) taken.sites += "    " + name_of(at) + "\n";
  }
  ours.clear();
  return taken;
}

}  // namespace pipewright::testing

extern "C" void* malloc(std::size_t bytes) {
  if (pipewright::testing::is_watched) pipewright::testing::look();
  return __libc_malloc(bytes);
}
