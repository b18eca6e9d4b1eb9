// The fused kernels in CUDA C++, compiled when a GPU is first used; see
// cuda_fused_kernels.h, and fused_kernels.h for what they compute. Each is
// there for float32 (_float) and bfloat16 (_bf16). No header is included.

#pragma once

namespace pipewright {

// Rows of a chunk of sum_rows() and sum_norm(), and columns of a block.
inline constexpr int kChunkRows = 64, kBlockColumns = 256;
// Threads of a block of the other kernels.
inline constexpr int kRowThreads = 512, kTableThreads = 256;
// Of a thread at a time.
inline constexpr int kNumbersOfThread = 8;

inline constexpr const char* kFusedSource = R"cuda(
constexpr int kTableThreads = 256;
typedef long long Index;
struct bf16 { unsigned short bits; };

__device__ float number(float value) { return value; }
__device__ float number(bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16);
}
__device__ void set(float& to, float value) { to = value; }
__device__ void set(bf16& to, float value) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(value));
}

template <class T, int N, int Alignment>
struct alignas(Alignment) Pack { T values[N]; };

// N numbers, of which `left` are there. In one piece where memory allows it:
// which thread has which number does not depend on that.
template <int N, class T>
__device__ void load(const T* from, Index left, float missing, float* to) {
  constexpr int kBytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  if (left >= N && reinterpret_cast<Index>(from) % kBytes == 0) {
    const auto pack = *reinterpret_cast<const Pack<T, N, kBytes>*>(from);
#pragma unroll
    for (int i = 0; i < N; ++i) to[i] = number(pack.values[i]);
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i) to[i] = i < left ? number(from[i]) : missing;
}
// Of rows that are whole packs: nothing but the load depends on `left`, so that
// a thread has several of them under way.
template <int N, class T>
__device__ void load_pack(const T* from, Index left, float missing, float* to) {
  constexpr int kBytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  Pack<T, N, kBytes> pack;
  if (left > 0) pack = *reinterpret_cast<const Pack<T, N, kBytes>*>(from);
#pragma unroll
  for (int i = 0; i < N; ++i)
    to[i] = left > 0 ? number(pack.values[i]) : missing;
}
template <bool kPacks, int N, class T>
__device__ void read(const T* from, Index left, float missing, float* to) {
  if constexpr (kPacks)
    load_pack<N>(from, left, missing, to);
  else
    load<N>(from, left, missing, to);
}
template <class T>
__device__ bool are_packs(const T* rows, Index stride, Index columns) {
  return reinterpret_cast<Index>(rows) % 16 == 0 &&
         stride * sizeof(T) % 16 == 0 && columns % 8 == 0;
}
template <int N, class T>
__device__ void store(T* to, Index left, const float* from) {
  constexpr int kBytes = N * sizeof(T) < 16 ? N * sizeof(T) : 16;
  if (left >= N && reinterpret_cast<Index>(to) % kBytes == 0) {
    Pack<T, N, kBytes> pack;
#pragma unroll
    for (int i = 0; i < N; ++i) set(pack.values[i], from[i]);
    *reinterpret_cast<Pack<T, N, kBytes>*>(to) = pack;
    return;
  }
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < left) set(to[i], from[i]);
}

// The largest number, and the sum of all exponentials relative to it.
struct Exponentials { float largest, sum; };
__device__ Exponentials joined(Exponentials a, Exponentials b) {
  const float largest = fmaxf(a.largest, b.largest);
  return {largest, a.sum * expf(a.largest - largest) +
                       b.sum * expf(b.largest - largest)};
}
__device__ Exponentials joined_over_warp(Exponentials own) {
  for (int distance = 16; distance > 0; distance /= 2) {
    Exponentials other;
    other.largest = __shfl_down_sync(~0u, own.largest, distance);
    other.sum = __shfl_down_sync(~0u, own.sum, distance);
    own = joined(own, other);
  }
  return own;
}

constexpr int kEach = 8;                // numbers of a thread at a time
constexpr float kLowest = -3.402823e38f;

// A block for each row.
template <class T>
__device__ void cross_entropy(const T* logits, Index stride,
                              const Index* targets, Index classes,
                              float* losses, T* derivative, Index to_stride) {
  const float kMinusInfinity = __int_as_float(0xff800000);
  const T* row = logits + blockIdx.x * stride;
  // Read before anything is written: the derivative may be the logits.
  const Index target = targets[blockIdx.x];
  const bool is_class = target >= 0 && target < classes;
  const float of_target =
      threadIdx.x == 0 && is_class ? number(row[target]) : 0.f;
  const Index step = static_cast<Index>(blockDim.x) * kEach;
  const Index first = static_cast<Index>(threadIdx.x) * kEach;
  Exponentials own = {kLowest, 0};
  for (Index i = first; i < classes; i += step) {
    float x[kEach];
    load<kEach>(row + i, classes - i, kMinusInfinity, x);
    float largest = own.largest;
#pragma unroll
    for (int k = 0; k < kEach; ++k) largest = fmaxf(largest, x[k]);
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kEach; ++k) sum += expf(x[k] - largest);
    own = {largest, own.sum * expf(own.largest - largest) + sum};
  }
  __shared__ Exponentials warps[32];
  own = joined_over_warp(own);
  if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x < 32) {
    const int num_warps = blockDim.x / 32;
    own = threadIdx.x < num_warps ? warps[threadIdx.x]
                                  : Exponentials{kLowest, 0};
    own = joined_over_warp(own);
    if (threadIdx.x == 0) warps[0] = own;
  }
  __syncthreads();
  const Exponentials all = warps[0];
  if (threadIdx.x == 0)
    losses[blockIdx.x] = is_class ? logf(all.sum) + all.largest - of_target
                                  : __int_as_float(0x7fc00000);
  const float share = 1 / all.sum;
  T* to = derivative + blockIdx.x * to_stride;
  for (Index i = first; i < classes; i += step) {
    float x[kEach];
    load<kEach>(row + i, classes - i, kMinusInfinity, x);
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      x[k] = expf(x[k] - all.largest) * share - (i + k == target ? 1.f : 0.f);
    store<kEach>(to + i, classes - i, x);
  }
}

// A block for each row.
template <class T>
__device__ void multiply(const T* rows, Index stride, const T* factor,
                         float scale, Index columns, T* result,
                         Index to_stride) {
  const T* row = rows + blockIdx.x * stride;
  T* to = result + blockIdx.x * to_stride;
  const float by = number(*factor) * scale;
  for (Index i = static_cast<Index>(threadIdx.x) * kEach; i < columns;
       i += static_cast<Index>(blockDim.x) * kEach) {
    float x[kEach];
    load<kEach>(row + i, columns - i, 0, x);
#pragma unroll
    for (int k = 0; k < kEach; ++k) x[k] *= by;
    store<kEach>(to + i, columns - i, x);
  }
}

constexpr int kColumns = 8;  // of a thread

// 32 x 8 threads for 256 columns of a chunk of rows. Sums of one chunk go to
// their place at once, those of several to partial[chunk][column].
template <class T>
__device__ void finish_chunk(const float* sums, Index columns, bool is_first,
                             T* result, float* partial) {
  __shared__ float shared[8][32 * kColumns];
  __syncthreads();
#pragma unroll
  for (int k = 0; k < kColumns; ++k)
    shared[threadIdx.y][threadIdx.x * kColumns + k] = sums[k];
  __syncthreads();
  const int own = threadIdx.y * 32 + threadIdx.x;
  const Index column = static_cast<Index>(blockIdx.x) * 32 * kColumns + own;
  if (column >= columns) return;
  float sum = 0;
  for (int y = 0; y < 8; ++y) sum += shared[y][own];
  if (gridDim.y > 1)
    partial[blockIdx.y * columns + column] = sum;
  else
    set(result[column], is_first ? sum : number(result[column]) + sum);
}

template <bool kPacks, class T>
__device__ void sum_chunk(const T* rows, Index stride, Index column,
                          Index begin, Index end, Index columns, float* sums) {
#pragma unroll 8
  for (Index r = begin; r < end; r += 8) {
    float x[kColumns];
    read<kPacks, kColumns>(rows + r * stride + column, columns - column, 0, x);
#pragma unroll
    for (int k = 0; k < kColumns; ++k) sums[k] += x[k];
  }
}

template <class T>
__device__ void sum_rows(const T* rows, Index stride, Index num_rows,
                         Index columns, int chunk, int is_first, T* result,
                         float* partial) {
  const Index column =
      (static_cast<Index>(blockIdx.x) * 32 + threadIdx.x) * kColumns;
  const Index begin = static_cast<Index>(blockIdx.y) * chunk;
  const Index end = begin + chunk < num_rows ? begin + chunk : num_rows;
  float sums[kColumns] = {};
  if (are_packs(rows, stride, columns))
    sum_chunk<true>(rows, stride, column, begin + threadIdx.y, end, columns,
                    sums);
  else
    sum_chunk<false>(rows, stride, column, begin + threadIdx.y, end, columns,
                     sums);
  finish_chunk(sums, columns, is_first, result, partial);
}

template <bool kPacks, class T>
__device__ void sum_norm_chunk(const T* gradient, Index stride, const T* input,
                               Index input_stride, const float* mean,
                               const float* scale, Index column, Index begin,
                               Index end, Index columns, float* gains,
                               float* shifts) {
#pragma unroll 4
  for (Index r = begin; r < end; r += 8) {
    float g[kColumns], x[kColumns];
    read<kPacks, kColumns>(gradient + r * stride + column, columns - column, 0,
                           g);
    read<kPacks, kColumns>(input + r * input_stride + column, columns - column,
                           0, x);
    const float m = mean[r], s = scale[r];
#pragma unroll
    for (int k = 0; k < kColumns; ++k) {
      gains[k] += g[k] * ((x[k] - m) * s);
      shifts[k] += g[k];
    }
  }
}

template <class T>
__device__ void sum_norm(const T* gradient, Index stride, const T* input,
                         Index input_stride, const float* mean,
                         const float* scale, Index num_rows, Index columns,
                         int chunk, int is_first, T* gain, T* shift,
                         float* partial) {
  const Index column =
      (static_cast<Index>(blockIdx.x) * 32 + threadIdx.x) * kColumns;
  const Index first = static_cast<Index>(blockIdx.y) * chunk;
  const Index end = first + chunk < num_rows ? first + chunk : num_rows;
  const Index begin = first + threadIdx.y;
  float gains[kColumns] = {}, shifts[kColumns] = {};
  if (are_packs(gradient, stride, columns) &&
      are_packs(input, input_stride, columns))
    sum_norm_chunk<true>(gradient, stride, input, input_stride, mean, scale,
                         column, begin, end, columns, gains, shifts);
  else
    sum_norm_chunk<false>(gradient, stride, input, input_stride, mean, scale,
                          column, begin, end, columns, gains, shifts);
  finish_chunk(gains, columns, is_first, gain, partial);
  finish_chunk(shifts, columns, is_first, shift,
               partial + gridDim.y * columns);
}

// 32 x 8 threads for 32 columns of a sum of several chunks.
template <class T>
__device__ void add_chunks(const float* partial, int chunks, Index columns,
                           int is_first, T* first_result, T* second_result) {
  __shared__ float shared[8][32];
  const Index column = static_cast<Index>(blockIdx.x) * 32 + threadIdx.x;
  T* result = blockIdx.y == 0 ? first_result : second_result;
  partial += static_cast<Index>(blockIdx.y) * chunks * columns;
  float sum = 0;
  if (column < columns) {
#pragma unroll 8
    for (int c = threadIdx.y; c < chunks; c += 8)
      sum += partial[c * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  sum = 0;
  for (int y = 0; y < 8; ++y) sum += shared[y][threadIdx.x];
  set(result[column], is_first ? sum : number(result[column]) + sum);
}

// A block for each token; the first of equal ones adds all of their rows, in
// their order.
template <class T>
__device__ void add_to_table(const Index* tokens, int count, const T* rows,
                             Index stride, Index columns, float scale,
                             Index num_rows, T* table) {
  constexpr int kMaxColumns = 8;  // of a thread, at a time
  __shared__ unsigned equal[kTableThreads / 32];
  const Index token = tokens[blockIdx.x];
  if (token < 0 || token >= num_rows) return;
  for (Index start = 0; start < columns;
       start += static_cast<Index>(kMaxColumns) * kTableThreads) {
    float sums[kMaxColumns] = {};
    for (int chunk = 0; chunk < count; chunk += kTableThreads) {
      const int own = chunk + threadIdx.x;
      const bool is_equal = own < count && tokens[own] == token;
      if (__syncthreads_or(is_equal && own < blockIdx.x)) return;
      const unsigned of_warp = __ballot_sync(~0u, is_equal);
      if (threadIdx.x % 32 == 0) equal[threadIdx.x / 32] = of_warp;
      __syncthreads();
      for (int warp = 0; warp < kTableThreads / 32; ++warp)
        for (unsigned left = equal[warp]; left != 0; left &= left - 1) {
          const T* row = rows + (chunk + warp * 32 + __ffs(left) - 1) * stride;
#pragma unroll
          for (int k = 0; k < kMaxColumns; ++k) {
            const Index column = start + k * kTableThreads + threadIdx.x;
            if (column < columns) sums[k] += number(row[column]);
          }
        }
    }
#pragma unroll
    for (int k = 0; k < kMaxColumns; ++k) {
      const Index column = start + k * kTableThreads + threadIdx.x;
      if (column >= columns) continue;
      T& to = table[token * columns + column];
      set(to, number(to) + scale * sums[k]);
    }
  }
}

__device__ float sum_over_warp(float own) {
  for (int distance = 16; distance > 0; distance /= 2)
    own += __shfl_xor_sync(~0u, own, distance);
  return own;
}

// A warp for each row, which its threads keep.
constexpr int kPieces = 4;  // of kMaxNormColumns

struct WarpRow {
  Index row, first;  // of the thread's columns
};
__device__ WarpRow row_of_warp() {
  return {static_cast<Index>(blockIdx.x) * (blockDim.x / 32) +
              threadIdx.x / 32,
          static_cast<Index>(threadIdx.x % 32) * kEach};
}

template <bool kPacks, class T>
__device__ void read_row(const T* row, Index first, Index columns,
                         float missing, float (*to)[kEach]) {
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const Index column = first + p * 32 * kEach;
    read<kPacks, kEach>(row + column, columns - column, missing, to[p]);
  }
}

template <bool kPacks, class T>
__device__ void normalize_row(const T* rows, Index stride, Index columns,
                              const T* gain, const T* shift, float epsilon,
                              T* result, float* means, float* scales) {
  const auto [row, first] = row_of_warp();
  float x[kPieces][kEach];
  float sum = 0, squares = 0;
  read_row<kPacks>(rows + row * stride, first, columns, 0, x);
#pragma unroll
  for (int p = 0; p < kPieces; ++p)
#pragma unroll
    for (int k = 0; k < kEach; ++k) sum += x[p][k];
  const float mean = sum_over_warp(sum) / columns;
#pragma unroll
  for (int p = 0; p < kPieces; ++p)
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      x[p][k] -= mean;
      if (first + p * 32 * kEach + k < columns) squares += x[p][k] * x[p][k];
    }
  const float scale = rsqrtf(sum_over_warp(squares) / columns + epsilon);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const Index column = first + p * 32 * kEach;
    float by[kEach], and_add[kEach];
    read<kPacks, kEach>(gain + column, columns - column, 0, by);
    read<kPacks, kEach>(shift + column, columns - column, 0, and_add);
#pragma unroll
    for (int k = 0; k < kEach; ++k)
      x[p][k] = x[p][k] * scale * by[k] + and_add[k];
    store<kEach>(result + row * columns + column, columns - column, x[p]);
  }
  if (threadIdx.x % 32 != 0) return;
  means[row] = mean;
  scales[row] = scale;
}

template <class T>
__device__ void normalize(const T* rows, Index stride, Index num_rows,
                          Index columns, const T* gain, const T* shift,
                          float epsilon, T* result, float* means,
                          float* scales) {
  if (row_of_warp().row >= num_rows) return;
  if (are_packs(rows, stride, columns) && are_packs(gain, 0, columns) &&
      are_packs(shift, 0, columns))
    normalize_row<true>(rows, stride, columns, gain, shift, epsilon, result,
                        means, scales);
  else
    normalize_row<false>(rows, stride, columns, gain, shift, epsilon, result,
                         means, scales);
}

template <bool kPacks, class T>
__device__ void normalize_backward_row(const T* gradient, Index stride,
                                       const T* input, Index input_stride,
                                       Index columns, const T* gain,
                                       const float* means, const float* scales,
                                       int adds, T* result) {
  const auto [row, first] = row_of_warp();
  const float mean = means[row], scale = scales[row];
  float g[kPieces][kEach], x[kPieces][kEach];
  float sum = 0, products = 0;
  read_row<kPacks>(gradient + row * stride, first, columns, 0, g);
  read_row<kPacks>(input + row * input_stride, first, columns, mean, x);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const Index column = first + p * 32 * kEach;
    float by[kEach];
    read<kPacks, kEach>(gain + column, columns - column, 0, by);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      g[p][k] *= by[k];
      x[p][k] = (x[p][k] - mean) * scale;
      sum += g[p][k];
      products += g[p][k] * x[p][k];
    }
  }
  sum = sum_over_warp(sum) / columns;
  products = sum_over_warp(products) / columns;
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const Index column = first + p * 32 * kEach;
    T* to = result + row * columns + column;
    float before[kEach];
    if (adds) read<kPacks, kEach>(to, columns - column, 0, before);
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      g[p][k] = __fmul_rn(scale, g[p][k] - sum - x[p][k] * products);
      if (!adds) continue;
      T rounded;
      set(rounded, g[p][k]);
      g[p][k] = __fadd_rn(before[k], number(rounded));
    }
    store<kEach>(to, columns - column, g[p]);
  }
}

template <class T>
__device__ void normalize_backward(const T* gradient, Index stride,
                                   const T* input, Index input_stride,
                                   Index num_rows, Index columns,
                                   const T* gain, const float* means,
                                   const float* scales, int adds, T* result) {
  if (row_of_warp().row >= num_rows) return;
  if (are_packs(gradient, stride, columns) &&
      are_packs(input, input_stride, columns) && are_packs(gain, 0, columns) &&
      are_packs(result, columns, columns))
    normalize_backward_row<true>(gradient, stride, input, input_stride, columns,
                                 gain, means, scales, adds, result);
  else
    normalize_backward_row<false>(gradient, stride, input, input_stride,
                                  columns, gain, means, scales, adds, result);
}

// With the roundings of LibTorch's operators one by one.
template <class T>
__device__ void descend(const T* gradient, float rate, float momentum,
                        float* velocity, float* master, T* weights,
                        Index count) {
  const Index first =
      (static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x) * kEach;
  const Index left = count - first;
  if (left <= 0) return;
  float direction[kEach], numbers[kEach];
  load<kEach>(gradient + first, left, 0.f, direction);
  if (velocity) {
    load<kEach>(velocity + first, left, 0.f, numbers);
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      direction[i] = __fadd_rn(__fmul_rn(momentum, numbers[i]), direction[i]);
    store<kEach>(velocity + first, left, direction);
  }
  if (master)
    load<kEach>(master + first, left, 0.f, numbers);
  else
    load<kEach>(weights + first, left, 0.f, numbers);
#pragma unroll
  for (int i = 0; i < kEach; ++i)
    numbers[i] = __fmaf_rn(-rate, direction[i], numbers[i]);
  if (master) store<kEach>(master + first, left, numbers);
  store<kEach>(weights + first, left, numbers);
}

// As RandomStream mixes; see random_stream.h.
typedef unsigned long long Bits;
constexpr Bits kStride = 0x9e3779b97f4a7c15ULL;
__device__ Bits mixed(Bits z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}
__device__ Bits combined(Bits key, Bits next) {
  return mixed(key + kStride + mixed(next + kStride));
}

// A number of a stream is kept if its first 53 bits are at least `least`. `call`
// is negative for a layer's own stream.
extern "C" __global__ void draw_mask(Bits seed, const Index* microbatch,
                                     Bits layer, Index call, Index first,
                                     Bits least, Index count, bool* keep) {
  Bits key = combined(combined(mixed(seed + kStride), *microbatch), layer);
  if (call >= 0) {
    const Bits own = mixed(key + kStride * (static_cast<Bits>(call) + 1));
    key = combined(combined(mixed(own + kStride), 0), 0);
  }
  const Index from =
      (static_cast<Index>(blockIdx.x) * blockDim.x + threadIdx.x) * kEach;
  for (Index i = from; i < from + kEach && i < count; ++i)
    keep[i] = mixed(key + kStride * static_cast<Bits>(first + i + 1)) >> 11 >=
              least;
}

#define KERNELS(T, name)                                                      \
  extern "C" __global__ void cross_entropy_##name(                            \
      const T* logits, Index stride, const Index* targets, Index classes,     \
      float* losses, T* derivative, Index to_stride) {                        \
    cross_entropy(logits, stride, targets, classes, losses, derivative,       \
                  to_stride);                                                 \
  }                                                                           \
  extern "C" __global__ void multiply_##name(                                 \
      const T* rows, Index stride, const T* factor, float scale,              \
      Index columns, T* result, Index to_stride) {                            \
    multiply(rows, stride, factor, scale, columns, result, to_stride);        \
  }                                                                           \
  extern "C" __global__ void sum_rows_##name(                                 \
      const T* rows, Index stride, Index num_rows, Index columns, int chunk,  \
      int is_first, T* result, float* partial) {                              \
    sum_rows(rows, stride, num_rows, columns, chunk, is_first, result,        \
             partial);                                                        \
  }                                                                           \
  extern "C" __global__ void sum_norm_##name(                                 \
      const T* gradient, Index stride, const T* input, Index input_stride,    \
      const float* mean, const float* scale, Index num_rows, Index columns,   \
      int chunk, int is_first, T* gain, T* shift, float* partial) {           \
    sum_norm(gradient, stride, input, input_stride, mean, scale, num_rows,    \
             columns, chunk, is_first, gain, shift, partial);                 \
  }                                                                           \
  extern "C" __global__ void add_chunks_##name(                               \
      const float* partial, int chunks, Index columns, int is_first,          \
      T* first_result, T* second_result) {                                    \
    add_chunks(partial, chunks, columns, is_first, first_result,              \
               second_result);                                                \
  }                                                                           \
  extern "C" __global__ void add_to_table_##name(                             \
      const Index* tokens, int count, const T* rows, Index stride,            \
      Index columns, float scale, Index num_rows, T* table) {                 \
    add_to_table(tokens, count, rows, stride, columns, scale, num_rows,       \
                 table);                                                      \
  }                                                                           \
  extern "C" __global__ void normalize_##name(                                \
      const T* rows, Index stride, Index num_rows, Index columns,             \
      const T* gain, const T* shift, float epsilon, T* result, float* means,  \
      float* scales) {                                                        \
    normalize(rows, stride, num_rows, columns, gain, shift, epsilon, result,  \
              means, scales);                                                 \
  }                                                                           \
  extern "C" __global__ void normalize_backward_##name(                       \
      const T* gradient, Index stride, const T* input, Index input_stride,    \
      Index num_rows, Index columns, const T* gain, const float* means,       \
      const float* scales, int adds, T* result) {                             \
    normalize_backward(gradient, stride, input, input_stride, num_rows,       \
                       columns, gain, means, scales, adds, result);           \
  }                                                                           \
  extern "C" __global__ void descend_##name(                                  \
      const T* gradient, float rate, float momentum, float* velocity,         \
      float* master, T* weights, Index count) {                               \
    descend(gradient, rate, momentum, velocity, master, weights, count);      \
  }

KERNELS(float, float)
KERNELS(bf16, bf16)
)cuda";

}  // namespace pipewright
