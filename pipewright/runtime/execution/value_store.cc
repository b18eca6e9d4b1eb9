// Tensors by value, microbatch and sample range; see value_store.h.

#include "pipewright/runtime/execution/value_store.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

constexpr int kNumValueKinds = 4;

std::string text(Value value, MicrobatchId microbatch) {
  static const char* const kNames[] = {"gradient", "activation", "private",
                                       "weights"};
  return std::string(kNames[static_cast<int>(value.kind)]) + " of layer " +
         std::to_string(value.layer.value) + ", microbatch " +
         std::to_string(microbatch.value);
}

// Samples are the first dimension. What has another one (statistics over the
// microbatch) cannot be cut.
at::Tensor cut(const at::Tensor& tensor, Samples whole, Samples part) {
  if (whole == part) return tensor;
  PIPEWRIGHT_CHECK(tensor.dim() > 0 &&
                       tensor.size(0) == whole.end - whole.first &&
                       whole.first <= part.first && part.end <= whole.end,
                   "a value cannot be cut into these samples");
  return tensor.narrow(0, part.first - whole.first, part.end - part.first);
}

}  // namespace

// Where one of that range belongs, without tensors.
ValueStore::Piece& ValueStore::Entry::added(Samples range) {
  if (count == pieces.size()) pieces.emplace_back();
  std::size_t place = count++;
  pieces[place].range = range;
  for (; place > 0 && pieces[place - 1].range.first > range.first; --place)
    std::swap(pieces[place - 1], pieces[place]);
  return pieces[place];
}

void ValueStore::Entry::clear() {
  for (std::size_t i = 0; i < count; ++i) pieces[i].tensors.clear();
  count = 0;
}

ValueStore::ValueStore(int num_layers) : num_layers_(num_layers), rows_(1) {
  rows_[0].entries.resize(kNumValueKinds * num_layers_);
}

const ValueStore::Entry* ValueStore::find(Value value,
                                          MicrobatchId microbatch) const {
  const Row& row = const_cast<ValueStore*>(this)->row_at(microbatch);
  if (row.microbatch != microbatch) return nullptr;
  const Entry& entry = row.entries[place(value)];
  return entry.count == 0 ? nullptr : &entry;
}

ValueStore::Row& ValueStore::claimed_row(MicrobatchId microbatch) {
  while (row_at(microbatch).microbatch != microbatch) {
    Row& row = row_at(microbatch);
    if (row.num_held == 0)
      row.microbatch = microbatch;
    else
      grow();
  }
  return row_at(microbatch);
}

void ValueStore::grow() {
  std::vector<Row> before(2 * rows_.size());
  std::swap(before, rows_);
  for (Row& row : rows_) row.entries.resize(kNumValueKinds * num_layers_);
  for (Row& row : before)
    if (row.num_held > 0) row_at(row.microbatch) = std::move(row);
}

bool ValueStore::has(Value value, MicrobatchId microbatch) const {
  return find(value, microbatch) != nullptr;
}

const Tensors* ValueStore::whole(Value value, MicrobatchId microbatch,
                                 Samples range) const {
  const Entry* entry = find(value, microbatch);
  if (!entry || entry->count != 1 || entry->pieces.front().range != range)
    return nullptr;
  return &entry->pieces.front().tensors;
}

Tensors ValueStore::read(Value value, MicrobatchId microbatch,
                         Samples range) const {
  const Entry* entry = find(value, microbatch);
  PIPEWRIGHT_CHECK(entry, "not there: " + text(value, microbatch));
  const std::span pieces(entry->pieces.data(), entry->count);
  if (pieces.size() == 1) {
    Tensors result = pieces.front().tensors;
    for (at::Tensor& tensor : result)
      tensor = cut(tensor, pieces.front().range, range);
    return result;
  }
  Tensors result;
  for (std::size_t i = 0; i < pieces.front().tensors.size(); ++i) {
    Tensors parts;
    std::int32_t covered = range.first;
    for (const Piece& piece : pieces) {
      const Samples part{std::max(piece.range.first, range.first),
                         std::min(piece.range.end, range.end)};
      if (part.first >= part.end) continue;
      PIPEWRIGHT_CHECK(part.first == covered,
                       "a gap in the samples of " + text(value, microbatch));
      covered = part.end;
      parts.push_back(cut(piece.tensors[i], piece.range, part));
    }
    PIPEWRIGHT_CHECK(covered == range.end,
                     "samples are missing of " + text(value, microbatch));
    result.push_back(parts.size() == 1 ? parts[0] : at::cat(parts, 0));
  }
  return result;
}

void ValueStore::add_piece(Value value, MicrobatchId microbatch, Samples range,
                           Tensors tensors) {
  Row& row = claimed_row(microbatch);
  Entry& entry = row.entries[place(value)];
  if (entry.count == 0) ++row.num_held;
  entry.added(range).tensors = std::move(tensors);
}

void ValueStore::replace(Value value, MicrobatchId microbatch, Samples range,
                         Tensors tensors) {
  drop(value, microbatch);
  add_piece(value, microbatch, range, std::move(tensors));
}

void ValueStore::replace(Value value, MicrobatchId microbatch, Samples range,
                         at::Tensor tensor) {
  drop(value, microbatch);
  Row& row = claimed_row(microbatch);
  ++row.num_held;
  row.entries[place(value)].added(range).tensors.push_back(std::move(tensor));
}

void ValueStore::drop(Value value, MicrobatchId microbatch) {
  Row& row = row_at(microbatch);
  if (row.microbatch != microbatch) return;
  Entry& entry = row.entries[place(value)];
  if (entry.count == 0) return;
  entry.clear();
  --row.num_held;
}

void ValueStore::clear() {
  for (Row& row : rows_) {
    for (Entry& entry : row.entries) entry.clear();
    row.num_held = 0;
    row.microbatch = MicrobatchId();
  }
}

std::size_t ValueStore::num_values() const {
  std::size_t count = 0;
  for (const Row& row : rows_) count += row.num_held;
  return count;
}

Bytes ValueStore::held() const {
  std::map<const void*, std::size_t> storages;
  for (const Row& row : rows_)
    for (const Entry& entry : row.entries)
      for (const Piece& piece : entry.pieces)
        for (const at::Tensor& tensor : piece.tensors)
          storages[tensor.storage().data()] = tensor.storage().nbytes();
  std::size_t bytes = 0;
  for (const auto& [storage, size] : storages) bytes += size;
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace pipewright
