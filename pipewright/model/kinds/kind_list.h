// The rules of the built-in kinds, by the file that defines each. For kinds.cc,
// which lists them, and for those files.

#pragma once

#include "pipewright/model/kind_rule.h"

namespace pipewright {

using Inputs = std::vector<TensorForm>;  // of a layer

// tables.cc: linear layers and lookups
SettingRule part_of_rule();  // of a part of a split layer (split_layers.h):
SettingRule first_output_rule();  // the whole layer, and where the part begins
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

// activations.cc: elementwise, and softmax
KindRule relu_kind();
KindRule gelu_kind();
KindRule tanh_kind();
KindRule sigmoid_kind();
KindRule softmax_kind();
KindRule dropout_kind();

// joints.cc: no parameters
KindRule flatten_kind();
KindRule add_kind();
KindRule concat_kind();
KindRule select_kind();

// sequences.cc
KindRule attention_kind();
KindRule lstm_kind();

// losses.cc
KindRule cross_entropy_kind();
KindRule linear_cross_entropy_kind();
KindRule mse_kind();

// exported_kind.cc
KindRule exported_kind();

}  // namespace pipewright
