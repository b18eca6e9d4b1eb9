// Weight gradients of a minibatch on their way to the step: summed over
// microbatches by layer, then over the uses of a parameter, and clipped.
//
// Clipping by global norm: gradients longer than `most`, all of them taken as
// one vector, are shortened to it. As torch's clip_grad_norm_, but summed in
// double and in ascending order of parameters, so that the bits depend on no
// partition.

#pragma once

#include <c10/util/FunctionRef.h>

#include <map>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/tensors.h"

namespace pipewright {

// By ParameterId; undefined where there is none.
using Gradients = std::vector<at::Tensor>;

// Answers with a layer's, by place of the parameter; null: there are none.
using LayerGradients = c10::function_ref<const Tensors*(LayerId)>;

// Those of the parameters that the operation's backward uses, as far as they
// are there; uses of a tied one in ascending order of layers.
void add_own_gradients(const Model& model, const Operation& operation,
                       LayerGradients of_layers, Gradients& gradients);

// What a worker hands to a reduction of gradients.
void add_contributions(const Model& model, const Reduction& reduction,
                       LayerGradients of_layers,
                       std::vector<Contribution>& contributions);

// What a worker hands to the reduction of a norm: the square of each gradient.
void add_squares(const Gradients& gradients,
                 std::vector<Contribution>& contributions);

// The length of all gradients of a model.
double norm_of(const Gradients& gradients);

// Whether all numbers are, of what lies in memory of the host: one pass. What
// is on a device counts as finite, for asking would be to wait for it.
bool is_finite(const at::Tensor& tensor);

// Makes new tensors where there is something to shorten.
void clip(Gradients& gradients, double norm, double most);

}  // namespace pipewright
