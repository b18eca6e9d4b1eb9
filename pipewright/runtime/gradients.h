// Weight gradients of a minibatch on their way to the step: summed over
// microbatches by layer, then over the uses of a parameter, and clipped.
//
// Clipping by global norm: gradients longer than `most`, all of them taken as
// one vector, are shortened to it. As torch's clip_grad_norm_, but summed in
// double and in ascending order of parameters, so that the bits depend on no
// partition.

#pragma once

#include <map>
#include <vector>

#include "pipewright/model/model.h"
#include "pipewright/plan/program.h"
#include "pipewright/runtime/channels/channel.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

using Gradients = std::map<ParameterId, at::Tensor>;
using LayerGradients = std::map<LayerId, Tensors>;  // by place of the parameter

// Of the parameters that the operation's backward uses, as far as they are
// there; uses of a tied one in ascending order of layers.
Gradients own_gradients(const Model& model, const Operation& operation,
                        const LayerGradients& of_layers);

// What a worker hands to a reduction of gradients.
std::vector<Contribution> contributions_of(const Model& model,
                                           const Reduction& reduction,
                                           const LayerGradients& of_layers);

// What a worker hands to the reduction of a norm: the square of each gradient.
std::vector<Contribution> squares_of(const Gradients& gradients);

// The length, from one square of each parameter, in that order.
double norm_of_squares(const std::vector<at::Tensor>& squares);

// Of all gradients of a model.
double norm_of(const Gradients& gradients);

// Makes new tensors where there is something to shorten.
void clip(Gradients& gradients, double norm, double most);

}  // namespace pipewright
