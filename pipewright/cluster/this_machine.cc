#include "pipewright/cluster/this_machine.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

constexpr double kAchievableShare = 0.7;

double seconds_now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Enough independent sums to keep every multiply-add unit busy.
constexpr int kSums = 12;
constexpr int kRounds = 20000;

// Keeps the compiler from removing or precomputing the work.
template <class Value>
void use(Value& value) {
  asm volatile("" : "+m"(value));
}

// The same for a value that is to stay in a vector register. Clang refuses
// registers that the function itself is not compiled for.
template <class Vector>
[[gnu::always_inline]] inline void use_in_register(Vector& value) {
#if defined(__x86_64__) && !defined(__clang__)
  asm volatile("" : "+x"(value));
#elif defined(__aarch64__)
  asm volatile("" : "+w"(value));
#else
  use(value);
#endif
}

template <class Vector>
[[gnu::always_inline]] inline void multiply_add_rounds() {
  Vector sums[kSums];
  std::memset(sums, 0, sizeof sums);
  for (Vector& sum : sums)
    use(sum);  // otherwise the compiler knows they are equal
  Vector factor, term;
  for (std::size_t i = 0; i < sizeof(Vector) / sizeof(factor[0]); ++i) {
    factor[i] = 0.5F;
    term[i] = 1.0F;
  }
  for (int round = 0; round < kRounds; ++round) {
    use_in_register(factor);  // otherwise the product is computed once
#pragma GCC unroll 12
    for (int i = 0; i < kSums; ++i) sums[i] += factor * term;
  }
  for (Vector& sum : sums) use(sum);
}

typedef float Float4 __attribute__((vector_size(16)));
typedef double Double2 __attribute__((vector_size(16)));

struct Burst {
  void (*run)();
  double flops;
};

template <class Vector>
constexpr double burst_flops() {
  using Number = std::remove_cvref_t<decltype(Vector{}[0])>;
  return 2.0 * kSums * kRounds * (sizeof(Vector) / sizeof(Number));
}

void run_float4() { multiply_add_rounds<Float4>(); }
void run_double2() { multiply_add_rounds<Double2>(); }

#if defined(__x86_64__)
typedef float Float8 __attribute__((vector_size(32)));
typedef double Double4 __attribute__((vector_size(32)));
[[gnu::target("avx2,fma")]] void run_float8() { multiply_add_rounds<Float8>(); }
[[gnu::target("avx2,fma")]] void run_double4() {
  multiply_add_rounds<Double4>();
}
bool has_wide_vectors() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
Burst float_burst() {
  if (has_wide_vectors()) return {run_float8, burst_flops<Float8>()};
  return {run_float4, burst_flops<Float4>()};
}
Burst double_burst() {
  if (has_wide_vectors()) return {run_double4, burst_flops<Double4>()};
  return {run_double2, burst_flops<Double2>()};
}
#else
Burst float_burst() { return {run_float4, burst_flops<Float4>()}; }
Burst double_burst() { return {run_double2, burst_flops<Double2>()}; }
#endif

template <class Work>
double shortest_seconds(int times, Work work) {
  double shortest = 1e9;
  for (int i = 0; i < times; ++i) {
    const double start = seconds_now();
    work();
    shortest = std::min(shortest, seconds_now() - start);
  }
  return std::max(shortest, 1e-9);
}

double two_digits(double number) {
  const double scale = std::pow(10.0, std::floor(std::log10(number)) - 1);
  return std::round(number / scale) * scale;
}

FlopsPerSecond measured_rate(Burst burst) {
  return FlopsPerSecond(
      two_digits(burst.flops / shortest_seconds(10, burst.run)));
}

// Bytes read and written by a copy that is too large for the first caches.
BytesPerSecond measured_memory_bandwidth() {
  constexpr std::size_t kBytes = 4 << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  const double seconds = shortest_seconds(4, [&] {
    std::memcpy(to.data(), from.data(), kBytes);
    use(to[kBytes / 2]);
  });
  return BytesPerSecond(two_digits(2.0 * kBytes / seconds));
}

DeviceKind measured_core() {
  DeviceKind kind;
  kind.name = "cpu";
  kind.peak["float32"] = measured_rate(float_burst());
  kind.peak["float64"] = measured_rate(double_burst());
  for (const auto& [type, rate] : kind.peak)
    kind.achievable[type] =
        FlopsPerSecond(two_digits(rate.value() * kAchievableShare));
  kind.memory = Bytes(static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                      static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE)));
  kind.memory_bandwidth = measured_memory_bandwidth();
  kind.source =
      "measured on this machine (" + std::to_string(num_cores()) + " cores)";
  return kind;
}

}  // namespace

int num_cores() {
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

DeviceKind this_machine_core(int num_devices) {
  static const DeviceKind kCore = measured_core();
  DeviceKind kind = kCore;
  kind.memory = kCore.memory / std::max(1, num_devices);
  return kind;
}

}  // namespace pipewright
