// Every kind of layer in several settings, each beside the same thing in
// LibTorch's own words.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright::testing {

inline constexpr std::int64_t kSamples = 3;

// The layer in LibTorch's own words; null where it has none.
using Reference =
    std::function<at::Tensor(const Tensors& inputs, const Tensors& weights)>;

struct Case {
  std::string name;
  LayerKind kind;
  Attributes attributes;
  std::vector<Shape> inputs;
  Reference reference;
  std::int64_t index_bound = 0;  // above 0: the last input holds indices
};

inline Case attention_case(const std::string& name, std::vector<Shape> inputs,
                           bool causal, bool flash = false) {
  constexpr std::int64_t kHeads = 2;
  return {name,
          LayerKind::Attention,
          {{"heads", kHeads}, {"causal", causal}, {"flash", flash}},
          inputs,
          [causal](const Tensors& in, const Tensors&) {
            Tensors parts = in;
            if (in.size() == 1) parts = in[0].chunk(3, 2);
            if (in.size() == 2) {
              const auto pair = in[1].chunk(2, 2);
              parts = {in[0], pair[0], pair[1]};
            }
            for (at::Tensor& part : parts)
              part = part.unflatten(2, {kHeads, -1}).transpose(1, 2);
            return at::scaled_dot_product_attention(parts[0], parts[1],
                                                    parts[2], {}, 0.0, causal)
                .transpose(1, 2)
                .flatten(2);
          }};
}

inline Case lstm_case(const std::string& name, std::int64_t layers,
                      bool bidirectional) {
  return {
      name,
      LayerKind::Lstm,
      {{"hidden", std::int64_t{4}},
       {"num_layers", layers},
       {"bidirectional", bidirectional}},
      {{5, 3}},
      [=](const Tensors& in, const Tensors& weights) {
        const std::int64_t states = layers * (bidirectional ? 2 : 1);
        const at::Tensor zero =
            at::zeros({states, kSamples, 4}, in[0].options());
        return std::get<0>(at::lstm(in[0], {zero, zero}, weights, true, layers,
                                    0.0, false, bidirectional, true));
      }};
}

inline Case loss_case(const std::string& name, Shape rows, Shape target) {
  return {name,
          LayerKind::CrossEntropy,
          {},
          {rows, target},
          [](const Tensors& in, const Tensors&) {
            return at::cross_entropy_loss(in[0].reshape({-1, in[0].size(-1)}),
                                          in[1].reshape({-1}));
          },
          rows.back()};
}

inline Case linear_loss_case(const std::string& name, Shape rows, Shape target,
                             std::int64_t classes) {
  return {name,
          LayerKind::LinearCrossEntropy,
          {{"classes", classes}},
          {rows, target},
          [](const Tensors& in, const Tensors& weights) {
            const at::Tensor logits = at::matmul(in[0], weights[0].t());
            return at::cross_entropy_loss(logits.reshape({-1, logits.size(-1)}),
                                          in[1].reshape({-1}));
          },
          classes};
}

inline Case element_case(const std::string& name, LayerKind kind,
                         at::Tensor (*reference)(const at::Tensor&),
                         Attributes attributes = {}) {
  return {name,
          kind,
          std::move(attributes),
          {{4, 5}},
          [reference](const Tensors& in, const Tensors&) {
            return reference(in[0]);
          }};
}

inline std::vector<Case> cases() {
  const Attributes linear = {{"out_features", std::int64_t{7}}};
  const Attributes plain = {{"out_features", std::int64_t{7}}, {"bias", false}};
  const Attributes conv = {
      {"out_channels", std::int64_t{6}}, {"kernel", Shape{3, 2}},
      {"stride", Shape{2, 1}},           {"padding", Shape{1, 0}},
      {"dilation", Shape{1, 2}},         {"groups", std::int64_t{2}}};
  const Attributes pool = {{"kernel", Shape{3, 2}},
                           {"stride", Shape{2, 2}},
                           {"padding", Shape{1, 1}},
                           {"ceil", true}};
  return {
      {"linear",
       LayerKind::Linear,
       linear,
       {{5}},
       [](const Tensors& in, const Tensors& w) {
         return at::linear(in[0], w[0], w[1]);
       }},
      {"linear on a sequence, no bias",
       LayerKind::Linear,
       plain,
       {{4, 5}},
       [](const Tensors& in, const Tensors& w) {
         return at::linear(in[0], w[0]);
       }},
      {"conv2d",
       LayerKind::Conv2d,
       conv,
       {{4, 7, 6}},
       [](const Tensors& in, const Tensors& w) {
         return at::conv2d(in[0], w[0], w[1], {2, 1}, at::IntArrayRef{1, 0},
                           {1, 2}, 2);
       }},
      {"batch_norm",
       LayerKind::BatchNorm,
       {},
       {{4, 3, 3}},
       [](const Tensors& in, const Tensors& w) {
         return at::batch_norm(in[0], w[0], w[1], {}, {}, true, 0.1, 1e-5,
                               false);
       }},
      {"batch_norm of features",
       LayerKind::BatchNorm,
       {},
       {{6}},
       [](const Tensors& in, const Tensors& w) {
         return at::batch_norm(in[0], w[0], w[1], {}, {}, true, 0.1, 1e-5,
                               false);
       }},
      {"layer_norm",
       LayerKind::LayerNorm,
       {},
       {{4, 5}},
       [](const Tensors& in, const Tensors& w) {
         return at::layer_norm(in[0], {5}, w[0], w[1]);
       }},
      element_case("relu", LayerKind::Relu,
                   [](const at::Tensor& x) { return at::relu(x); }),
      element_case("tanh", LayerKind::Tanh,
                   [](const at::Tensor& x) { return at::tanh(x); }),
      element_case("sigmoid", LayerKind::Sigmoid,
                   [](const at::Tensor& x) { return at::sigmoid(x); }),
      element_case("softmax", LayerKind::Softmax,
                   [](const at::Tensor& x) { return at::softmax(x, -1); }),
      element_case("gelu", LayerKind::Gelu,
                   [](const at::Tensor& x) { return at::gelu(x); }),
      element_case("gelu by tanh", LayerKind::Gelu,
                   [](const at::Tensor& x) { return at::gelu(x, "tanh"); },
                   {{"approximate", std::string("tanh")}}),
      {"dropout", LayerKind::Dropout, {{"rate", 0.4}}, {{4, 5}}, nullptr},
      {"max_pool",
       LayerKind::MaxPool,
       pool,
       {{2, 7, 6}},
       [](const Tensors& in, const Tensors&) {
         return at::max_pool2d(in[0], {3, 2}, {2, 2}, {1, 1}, {1, 1}, true);
       }},
      {"avg_pool",
       LayerKind::AvgPool,
       pool,
       {{2, 7, 6}},
       [](const Tensors& in, const Tensors&) {
         return at::avg_pool2d(in[0], {3, 2}, {2, 2}, {1, 1}, true);
       }},
      {"adaptive_avg_pool",
       LayerKind::AdaptiveAvgPool,
       {{"size", Shape{3, 2}}},
       {{2, 7, 6}},
       [](const Tensors& in, const Tensors&) {
         return at::adaptive_avg_pool2d(in[0], {3, 2});
       }},
      {"flatten",
       LayerKind::Flatten,
       {},
       {{2, 3, 2}},
       [](const Tensors& in, const Tensors&) { return in[0].flatten(1); }},
      {"add",
       LayerKind::Add,
       {},
       {{2, 3}, {2, 3}, {2, 3}},
       [](const Tensors& in, const Tensors&) {
         return in[0].add(in[1]).add(in[2]);
       }},
      {"concat",
       LayerKind::Concat,
       {},
       {{2, 3}, {4, 3}},
       [](const Tensors& in, const Tensors&) { return at::cat(in, 1); }},
      {"concat of features",
       LayerKind::Concat,
       {{"axis", std::int64_t{1}}},
       {{2, 3}, {2, 1}},
       [](const Tensors& in, const Tensors&) { return at::cat(in, 2); }},
      {"select",
       LayerKind::Select,
       {{"index", std::int64_t{1}}},
       {{3, 4}},
       [](const Tensors& in, const Tensors&) { return in[0].select(1, 1); }},
      {"embedding",
       LayerKind::Embedding,
       {{"entries", std::int64_t{6}},
        {"features", std::int64_t{4}},
        {"scale", 2.0}},
       {{5}},
       [](const Tensors& in, const Tensors& w) {
         return at::embedding(w[0], in[0]).mul(2);
       },
       6},
      {"positional",
       LayerKind::Positional,
       {{"positions", std::int64_t{6}}},
       {{4, 5}},
       [](const Tensors& in, const Tensors& w) {
         return in[0].add(w[0].narrow(0, 0, 4));
       }},
      {"positional, sines",
       LayerKind::Positional,
       {{"positions", std::int64_t{6}}, {"learned", false}},
       {{4, 5}},
       nullptr},
      attention_case("attention, packed", {{4, 12}}, false),
      attention_case("attention, causal", {{4, 12}}, true),
      attention_case("attention, key and value packed", {{4, 4}, {3, 8}},
                     false),
      attention_case("attention, apart", {{4, 4}, {3, 4}, {3, 6}}, false),
      attention_case("flash attention, packed", {{5, 48}}, false, true),
      attention_case("flash attention, causal", {{5, 48}}, true, true),
      attention_case("flash attention, key and value packed",
                     {{4, 16}, {3, 32}}, false, true),
      attention_case("flash attention, apart", {{4, 16}, {3, 16}, {3, 16}},
                     false, true),
      {"attention, dropout",
       LayerKind::Attention,
       {{"heads", std::int64_t{2}}, {"dropout", 0.3}},
       {{4, 12}},
       nullptr},
      lstm_case("lstm", 1, false),
      lstm_case("lstm, both ways", 1, true),
      lstm_case("lstm, three layers both ways", 3, true),
      loss_case("cross_entropy", {5}, {}),
      loss_case("cross_entropy of a sequence", {4, 5}, {4}),
      linear_loss_case("linear_cross_entropy", {5}, {}, 7),
      linear_loss_case("linear_cross_entropy of a sequence", {4, 5}, {4}, 3),
      {"mse",
       LayerKind::Mse,
       {},
       {{4, 5}, {4, 5}},
       [](const Tensors& in, const Tensors&) {
         return at::mse_loss(in[0], in[1]);
       }},
  };
}

}  // namespace pipewright::testing
