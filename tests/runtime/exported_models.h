// Exported models for the tests of the runtime, which
// tests/python/make_fixtures.py writes, with samples and what PyTorch computes.

#pragma once

#include <map>
#include <memory>
#include <string>

#include "pipewright/model/model.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/training/training.h"

namespace pipewright::testing {

inline const std::string kExportedFolder =
    PIPEWRIGHT_SOURCE_DIR "/tests/runtime/layers/exported/";

// In-place operators, buffers and a frozen part; attention, dropout and tied
// weights; an LSTM; a UNet with batch norms.
inline const std::map<std::string, Model>& exported_models() {
  static const std::map<std::string, Model> all = [] {
    std::map<std::string, Model> models;
    for (const char* name : {"mixed", "language", "recurrent", "images"})
      models.emplace(name,
                     load_model(kExportedFolder + name + ".json").value());
    return models;
  }();
  return all;
}

// Random samples within the bounds of the model's inputs.
inline MicrobatchSource exported_source(const Model& model, int microbatch) {
  return [&model, microbatch](int input, std::int64_t m) {
    return random_samples(model, {LayerId(), input}, microbatch,
                          RandomStream(7, static_cast<std::uint64_t>(input),
                                       static_cast<std::uint64_t>(m)));
  };
}

}  // namespace pipewright::testing
