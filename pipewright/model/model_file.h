// The file "pipewright/model", version 1: a network that a user writes.
//
//   {
//     "format": "pipewright/model", "version": 1, "name": "tiny",
//     "inputs": [{"name": "features", "shape": [64]},
//                {"name": "target", "shape": [], "type": "int64"}],
//     "layers": [
//       {"repeat": 4, "name": "block{i}", "layers": [
//         {"name": "fc", "kind": "linear", "out_features": 64},
//         {"name": "relu", "kind": "relu"},
//         {"name": "add", "kind": "add", "from": ["relu", "in"]}]},
//       {"name": "out", "kind": "linear", "out_features": 10},
//       {"name": "loss", "kind": "cross_entropy", "from": ["out", "target"]}]
//   }
//
// - A layer's keys are name, kind, from, share and the attributes of its kind
//   (kinds/); "type" of the file is the floating-point type (default: float32).
// - Without "from", a layer takes the output of the previous layer; the first
//   layer takes the first input.
// - A block's layers are named block0.fc, block0.relu, ...; {i} counts from
//   "start" (0). Blocks may contain blocks. Names in "from" are looked up in
//   the block, then outside it; a block's name means its last layer's output,
//   and "in" means the block's input.
// - "share": {"weight": "embedding.weight"} shares a parameter.

#pragma once

#include <string>
#include <string_view>

#include "pipewright/base/result.h"
#include "pipewright/base/units.h"
#include "pipewright/model/model.h"

namespace pipewright {

// A larger file is rejected: no model needs it, and reading takes many times
// its size in memory.
inline constexpr Bytes kMaxModelFile{8 << 20};

// Fails with MalformedInput, all errors of the file at once.
Result<Model> parse_model(std::string_view text, const std::string& file);

// Parsing the text gives an equal model.
std::string to_text(const Model& model);

}  // namespace pipewright
