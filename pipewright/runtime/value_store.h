// The tensors a worker holds, by value and microbatch. Where replicas split a
// microbatch a value may arrive in pieces and be read by another range of
// samples than it came in.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct Samples {
  std::int32_t first = 0, end = 0;
  bool operator==(const Samples&) const = default;
};

class ValueStore {
 public:
  explicit ValueStore(int num_layers);

  bool has(Value value, std::int32_t microbatch) const;
  // The tensors for a range that the pieces cover.
  Tensors read(Value value, std::int32_t microbatch, Samples range) const;
  void add_piece(Value value, std::int32_t microbatch, Samples range,
                 Tensors tensors);
  void replace(Value value, std::int32_t microbatch, Samples range,
               Tensors tensors);
  void drop(Value value, std::int32_t microbatch);

  std::size_t num_values() const;  // held now, of all microbatches
  // Bytes of the distinct storages held now.
  Bytes held() const;

 private:
  struct Piece {
    Samples range;
    Tensors tensors;
  };
  struct Entry {
    std::int32_t microbatch = 0;
    std::vector<Piece> pieces;
  };
  using Slot = std::vector<Entry>;  // few: the microbatches in flight

  Slot& slot(Value value);
  const Slot& slot(Value value) const;
  static Entry* find(Slot& slot, std::int32_t microbatch);

  int num_layers_;
  std::vector<Slot> slots_;  // by kind and layer
};

}  // namespace pipewright
