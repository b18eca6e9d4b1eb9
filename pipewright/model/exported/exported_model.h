// The file "pipewright/exported", version 1: a PyTorch model that
// pipewright.export() has written. Its layers are functions over ATen's
// operators; shapes, sizes and FLOPs are in the file, so that it is planned and
// simulated without LibTorch. docs/reference/formats/exported.md describes the
// file.
//
//   C  constants                                        -> made once per batch
//                                                          size
//   F  inputs, parameters, buffers, constants, C        -> output, new buffers,
//                                                          private tensors
//   I  kept tensors, parameters, gradient, constants, C -> input gradients,
//                                                          carried tensors
//   W  kept tensors, gradient, constants, C, carried    -> parameter gradients
//
// Kept tensors are the inputs in keeps_inputs, the output if it is kept, and
// the private tensors, in this order.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/exported/exported_code.h"
#include "pipewright/model/model.h"

namespace pipewright {

// The dimension of a tensor in which the batch size, times a factor, is seen.
struct BatchPlace {
  int tensor = -1;  // index; -1: the batch size does not matter
  int dimension = 0;
  std::int64_t factor = 1;
};

// What one or more layers compute.
struct LayerFunctions {
  ExportedFunction constants, forward, backward_input, backward_weight;
  std::vector<int> keeps_inputs;
  bool keeps_output = false;
  BatchPlace forward_batch;   // among the inputs
  BatchPlace backward_batch;  // among the kept tensors, then the gradient
  // The output depends on buffers that forward changes: recomputing it later
  // would give another one.
  bool reads_buffers = false;
  // What is kept is of all samples together, and cannot be cut.
  bool mixes_samples = false;
  int num_updates = 0, num_private = 0, num_carried = 0;
  Size private_bytes, carried_bytes, traffic_bytes;
  Flops forward_flops, backward_input_flops, backward_weight_flops;

  std::size_t num_kept() const {
    return keeps_inputs.size() + (keeps_output ? 1 : 0) +
           static_cast<std::size_t>(num_private);
  }
};

// What is not in its Layer.
struct ExportedLayer {
  int functions = 0;                   // index
  std::vector<std::string> constants;  // frozen parameters and buffers
  std::vector<std::string> buffers;    // those that forward changes
  std::vector<int> updates;            // by new value: index of its buffer
  bool is_fixed = false;  // the output does not grow with the samples
};

struct ExportedModel {
  std::string text, file;     // what was read, and from where
  std::string torch_version;  // that exported it
  std::string weights;        // path of the file with the tensors
  std::vector<LayerFunctions> functions;
  std::vector<ExportedLayer> layers;       // by LayerId
  std::vector<Parameter> buffers;          // frozen parameters among them
  std::set<std::string> not_saved;         // those not in the module's state
  std::vector<std::int64_t> index_bounds;  // by model input; 0: numbers
  // Other names of a parameter in the module: those tied to it.
  std::map<std::string, std::vector<std::string>> tied_names;

  const LayerFunctions& functions_of(LayerId layer) const {
    return functions[static_cast<std::size_t>(layers[layer.index()].functions)];
  }
};

// Whether the text has the format "pipewright/exported".
bool is_exported_model(std::string_view text);

// Fails with MalformedInput, all errors of the file at once.
Result<Model> parse_exported(std::string_view text, const std::string& file);

// The model with its tensors from another file.
Model with_weights(const Model& model, std::string weights);

// As layer_cost(), for a layer of an exported model.
LayerCost exported_cost(const Model& model, LayerId layer);

}  // namespace pipewright
