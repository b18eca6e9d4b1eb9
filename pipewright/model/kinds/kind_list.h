// Every kind's rule, by the file that holds it. For kinds.cc, which lists them,
// and those files.

#pragma once

#include "pipewright/model/kinds.h"

namespace pipewright {

using Inputs = std::vector<TensorForm>;  // what a layer is given

// tables.cc: products with a weight, and look-ups
KindRule linear_kind();
KindRule embedding_kind();
KindRule positional_kind();

// images.cc
KindRule conv2d_kind();
KindRule max_pool_kind();
KindRule avg_pool_kind();
KindRule adaptive_avg_pool_kind();

// norms.cc
KindRule batch_norm_kind();
KindRule layer_norm_kind();

// activations.cc: element by element, and softmax
KindRule relu_kind();
KindRule gelu_kind();
KindRule tanh_kind();
KindRule sigmoid_kind();
KindRule softmax_kind();
KindRule dropout_kind();

// joints.cc: nothing learned, nothing kept
KindRule flatten_kind();
KindRule add_kind();
KindRule concat_kind();
KindRule select_kind();

// sequences.cc
KindRule attention_kind();
KindRule lstm_kind();

// losses.cc
KindRule cross_entropy_kind();
KindRule mse_kind();

}  // namespace pipewright
