// Tensors by value, microbatch and sample range; see value_store.h.

#include "pipewright/runtime/value_store.h"

#include <algorithm>
#include <map>

#include "pipewright/base/check.h"

namespace pipewright {
namespace {

constexpr int kNumValueKinds = 4;

std::string text(Value value, std::int32_t microbatch) {
  static const char* const kNames[] = {"gradient", "activation", "private",
                                       "weights"};
  return std::string(kNames[static_cast<int>(value.kind)]) + " of layer " +
         std::to_string(value.layer.value) + ", microbatch " +
         std::to_string(microbatch);
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

ValueStore::ValueStore(int num_layers)
    : num_layers_(num_layers),
      slots_(static_cast<std::size_t>(kNumValueKinds * num_layers)) {}

ValueStore::Slot& ValueStore::slot(Value value) {
  return slots_[static_cast<std::size_t>(value.kind) *
                    static_cast<std::size_t>(num_layers_) +
                value.layer.index()];
}
const ValueStore::Slot& ValueStore::slot(Value value) const {
  return const_cast<ValueStore*>(this)->slot(value);
}

ValueStore::Entry* ValueStore::find(Slot& slot, std::int32_t microbatch) {
  for (Entry& entry : slot)
    if (entry.microbatch == microbatch) return &entry;
  return nullptr;
}

bool ValueStore::has(Value value, std::int32_t microbatch) const {
  return find(const_cast<Slot&>(slot(value)), microbatch) != nullptr;
}

Tensors ValueStore::read(Value value, std::int32_t microbatch,
                         Samples range) const {
  const Entry* entry = find(const_cast<Slot&>(slot(value)), microbatch);
  PIPEWRIGHT_CHECK(entry, "not there: " + text(value, microbatch));
  if (entry->pieces.size() == 1) {
    Tensors result = entry->pieces[0].tensors;
    for (at::Tensor& tensor : result)
      tensor = cut(tensor, entry->pieces[0].range, range);
    return result;
  }
  std::vector<Tensors> columns;  // per tensor of the value, its parts in order
  std::int32_t covered = range.first;
  for (const Piece& piece : entry->pieces) {
    const Samples part{std::max(piece.range.first, range.first),
                       std::min(piece.range.end, range.end)};
    if (part.first >= part.end) continue;
    PIPEWRIGHT_CHECK(part.first == covered,
                     "a gap in the samples of " + text(value, microbatch));
    covered = part.end;
    columns.resize(piece.tensors.size());
    for (std::size_t i = 0; i < columns.size(); ++i)
      columns[i].push_back(cut(piece.tensors[i], piece.range, part));
  }
  PIPEWRIGHT_CHECK(covered == range.end,
                   "samples are missing of " + text(value, microbatch));
  Tensors result;
  for (const Tensors& column : columns)
    result.push_back(column.size() == 1 ? column[0] : at::cat(column, 0));
  return result;
}

void ValueStore::add_piece(Value value, std::int32_t microbatch, Samples range,
                           Tensors tensors) {
  Entry* entry = find(slot(value), microbatch);
  if (!entry) entry = &slot(value).emplace_back(Entry{microbatch, {}});
  const auto behind = std::find_if(
      entry->pieces.begin(), entry->pieces.end(),
      [&](const Piece& piece) { return piece.range.first > range.first; });
  entry->pieces.insert(behind, {range, std::move(tensors)});
}

void ValueStore::replace(Value value, std::int32_t microbatch, Samples range,
                         Tensors tensors) {
  if (Entry* entry = find(slot(value), microbatch)) entry->pieces.clear();
  add_piece(value, microbatch, range, std::move(tensors));
}

void ValueStore::drop(Value value, std::int32_t microbatch) {
  Slot& entries = slot(value);
  if (Entry* entry = find(entries, microbatch)) {
    std::swap(*entry, entries.back());
    entries.pop_back();
  }
}

std::size_t ValueStore::num_values() const {
  std::size_t count = 0;
  for (const Slot& entries : slots_) count += entries.size();
  return count;
}

Bytes ValueStore::held() const {
  std::map<const void*, std::size_t> storages;
  for (const Slot& entries : slots_)
    for (const Entry& entry : entries)
      for (const Piece& piece : entry.pieces)
        for (const at::Tensor& tensor : piece.tensors)
          storages[tensor.storage().data()] = tensor.storage().nbytes();
  std::size_t bytes = 0;
  for (const auto& [storage, size] : storages) bytes += size;
  return Bytes(static_cast<std::int64_t>(bytes));
}

}  // namespace pipewright
