// Loaded before a rank (LD_PRELOAD): two seconds after its start the time of
// day jumps by CLOCK_JUMP seconds. Monotonic clocks stay.

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

namespace {

using Gettime = int (*)(clockid_t, timespec*);

int real_time(clockid_t clock, timespec* time) {
  static const auto real =
      reinterpret_cast<Gettime>(::dlsym(RTLD_NEXT, "clock_gettime"));
  return real(clock, time);
}

time_t jump() {
  static const time_t start = [] {
    timespec now{};
    real_time(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
  }();
  static const char* const text = ::getenv("CLOCK_JUMP");
  timespec now{};
  real_time(CLOCK_MONOTONIC, &now);
  return text != nullptr && now.tv_sec >= start + 2 ? ::atol(text) : 0;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  const int result = real_time(clock, now);
  if (result == 0 &&
      (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
    now->tv_sec += jump();
  return result;
}

int gettimeofday(timeval* __restrict now, void* __restrict) noexcept {
  timespec time{};
  const int result = clock_gettime(CLOCK_REALTIME, &time);
  now->tv_sec = time.tv_sec;
  now->tv_usec = time.tv_nsec / 1000;
  return result;
}

time_t time(time_t* now) noexcept {
  timespec current{};
  clock_gettime(CLOCK_REALTIME, &current);
  if (now != nullptr) *now = current.tv_sec;
  return current.tv_sec;
}

}  // extern "C"
