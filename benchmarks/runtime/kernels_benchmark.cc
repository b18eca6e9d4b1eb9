// Our own kernels beside ATen's, on one thread: what each of them is kept for.
// Every row is the median of several rounds in which the two take turns; the
// last column is ATen's time over ours. A kernel that does not win on both
// x86_64 and Arm has no place here.

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include "cli/program_arguments.h"
#include "pipewright/runtime/execution/finite_kernel.h"
#include "pipewright/runtime/layers/bias_kernels.h"
#include "pipewright/runtime/layers/gelu_kernels.h"
#include "pipewright/runtime/layers/softmax_kernel.h"

namespace pipewright {
namespace {

using Work = std::function<void()>;

double seconds_of(const Work& work, int times) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < times; ++i) work();
  const std::chrono::duration<double> taken =
      std::chrono::steady_clock::now() - start;
  return taken.count() / times;
}

double median(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  return numbers[numbers.size() / 2];
}

void compare(const std::string& name, const Work& ours, const Work& atens) {
  constexpr int kRounds = 15;
  constexpr double kRoundSeconds = 0.01;
  const double once = std::max(seconds_of(ours, 1), seconds_of(atens, 1));
  const int times = std::max(1, static_cast<int>(kRoundSeconds / once));
  std::vector<double> own, other;
  for (int round = 0; round < kRounds; ++round) {
    own.push_back(seconds_of(ours, times));
    other.push_back(seconds_of(atens, times));
  }
  std::printf("%-34s %10.1f us %10.1f us %8.2f\n", name.c_str(),
              median(own) * 1e6, median(other) * 1e6,
              median(other) / median(own));
}

std::string named(const char* kernel, std::int64_t rows, std::int64_t columns) {
  return std::string(kernel) + " " + std::to_string(rows) + "x" +
         std::to_string(columns);
}

void compare_gelu(std::int64_t rows, std::int64_t columns, GeluForm form) {
  const char* approximate = form == GeluForm::Erf ? "none" : "tanh";
  const std::string name =
      named(form == GeluForm::Erf ? "gelu erf" : "gelu tanh", rows, columns);
  const at::Tensor input = at::randn({rows, columns});
  const at::Tensor gradient = at::randn({rows, columns});
  compare(
      name,
      [&] {
        at::Tensor output = at::empty_like(input);
        gelu(form, input.const_data_ptr<float>(), output.data_ptr<float>(),
             input.numel());
      },
      [&] { at::gelu(input, approximate); });
  compare(
      name + " backward",
      [&] {
        at::Tensor output = at::empty_like(input);
        gelu_backward(form, gradient.const_data_ptr<float>(),
                      input.const_data_ptr<float>(), output.data_ptr<float>(),
                      input.numel());
      },
      [&] { at::gelu_backward(gradient, input, approximate); });
}

// ATen's way: scale, mask what lies ahead, softmax.
at::Tensor softmax_by_aten(const at::Tensor& scores, const at::Tensor& mask,
                           float scale, bool causal) {
  at::Tensor scaled = scores.mul(scale);
  if (causal) scaled.masked_fill_(mask, -1e30);
  return at::_softmax(scaled, -1, false);
}

void compare_softmax(std::int64_t heads, std::int64_t positions, bool causal) {
  const at::Tensor scores = at::randn({heads, positions, positions});
  const at::Tensor mask = at::ones({positions, positions}, at::kBool).triu(1);
  compare(
      named(causal ? "softmax causal" : "softmax", heads, positions),
      [&] {
        at::Tensor own = scores.clone();
        softmax_of_scores(own.data_ptr<float>(), heads, positions, positions,
                          0.125F, causal);
      },
      [&] { softmax_by_aten(scores, mask, 0.125F, causal); });
}

void compare_finite(std::int64_t count) {
  const at::Tensor numbers = at::randn({count});
  bool all = true;
  compare(
      "all finite " + std::to_string(count),
      [&] { all &= all_finite(numbers.const_data_ptr<float>(), count); },
      [&] { all &= at::isfinite(numbers).all().item<bool>(); });
  compare(
      "all finite, by sum " + std::to_string(count),
      [&] { all &= all_finite(numbers.const_data_ptr<float>(), count); },
      [&] { all &= std::isfinite(numbers.abs().max().item<float>()); });
  if (!all) std::printf("not finite\n");
}

void compare_bias(std::int64_t rows, std::int64_t columns) {
  const at::Tensor input = at::randn({rows, columns});
  const at::Tensor bias = at::randn({columns});
  at::Tensor own = at::zeros({columns}), other = at::zeros({columns});
  compare(
      named("bias", rows, columns), [&] { repeated_bias(bias, rows); },
      [&] {
        at::empty({rows, columns}).copy_(bias);
      });
  compare(
      named("bias gradient", rows, columns), [&] { add_row_sum(input, own); },
      [&] { other.add_(input.sum(0)); });
}

void run() {
  const c10::InferenceMode guard;
  at::set_num_threads(1);
  std::printf("%-34s %13s %13s %8s\n", "kernel", "ours", "ATen", "ATen/ours");
  for (const std::int64_t rows : {32, 512})
    for (const GeluForm form : {GeluForm::Erf, GeluForm::Tanh})
      compare_gelu(rows, 1024, form);
  for (const std::int64_t positions : {64, 256})
    for (const bool causal : {false, true})
      compare_softmax(16, positions, causal);
  for (const auto& [rows, columns] : std::vector<std::array<std::int64_t, 2>>{
           {4, 16}, {4, 64}, {64, 256}, {64, 1024}, {512, 768}, {512, 3072}})
    compare_bias(rows, columns);
  for (const std::int64_t count : {10'000, 4'000'000}) compare_finite(count);
}

}  // namespace
}  // namespace pipewright

int main(int argc, char** argv) {
  CLI::App app{"Times our own kernels beside ATen's"};
  if (const auto code = pipewright::cli::parse_arguments(app, argc, argv))
    return *code;
  pipewright::run();
}
