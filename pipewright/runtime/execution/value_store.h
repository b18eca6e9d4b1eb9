// The tensors a worker holds, by value and microbatch. Where replicas split a
// microbatch a value may arrive in pieces and be read by another range of
// samples than it came in.

#pragma once

#include <cstdint>
#include <vector>

#include "pipewright/plan/program/program.h"
#include "pipewright/runtime/layers/layer_function.h"

namespace pipewright {

struct Samples {
  std::int32_t first = 0, end = 0;
  bool operator==(const Samples&) const = default;
};

class ValueStore {
 public:
  explicit ValueStore(int num_layers);

  bool has(Value value, MicrobatchId microbatch) const;
  // The tensors for a range that the pieces cover.
  Tensors read(Value value, MicrobatchId microbatch, Samples range) const;
  // The same without a copy, where they came in one piece of that very range;
  // null otherwise. Good until the value is replaced or dropped.
  const Tensors* whole(Value value, MicrobatchId microbatch,
                       Samples range) const;
  void add_piece(Value value, MicrobatchId microbatch, Samples range,
                 Tensors tensors);
  void replace(Value value, MicrobatchId microbatch, Samples range,
               Tensors tensors);
  // Of one tensor; once the store has seen as many values, no memory is asked
  // for.
  void replace(Value value, MicrobatchId microbatch, Samples range,
               at::Tensor tensor);
  void drop(Value value, MicrobatchId microbatch);
  void clear();  // keeps its own memory

  std::size_t num_values() const;  // held now, of all microbatches
  // Bytes of the distinct storages held now.
  Bytes held() const;

 private:
  struct Piece {
    Samples range;
    Tensors tensors;
  };
  // The first `count`, by first sample, are held; the others keep their memory
  // for later ones. A value without pieces is not held.
  struct Entry {
    std::vector<Piece> pieces;
    std::size_t count = 0;

    Piece& added(Samples range);
    void clear();
  };
  // All values of one microbatch. Microbatch m has row m modulo the number of
  // rows, which grows until those in flight have rows of their own.
  struct Row {
    MicrobatchId microbatch;  // none: free
    std::int32_t num_held = 0;
    std::vector<Entry> entries;  // by kind and layer
  };

  std::size_t place(Value value) const { return value.index(num_layers_); }
  Row& row_at(MicrobatchId microbatch) {
    return rows_[microbatch.index() & (rows_.size() - 1)];
  }
  const Entry* find(Value value, MicrobatchId microbatch) const;
  Row& claimed_row(MicrobatchId microbatch);
  void grow();

  std::size_t num_layers_;
  std::vector<Row> rows_;  // a power of two
};

}  // namespace pipewright
