// Reports of a run from all ranks; see run_report.h.

#include "pipewright/runtime/ranks/run_report.h"

#include <algorithm>

#include "pipewright/runtime/ranks/packing.h"

namespace pipewright {
namespace {

void pack(Packer& packer, const std::optional<Error>& failure) {
  packer.number(failure.has_value());
  if (!failure) return;
  packer.number(failure->code);
  for (const auto* text : {&failure->message, &failure->where, &failure->hint})
    packer.text(*text);
}

std::optional<Error> unpacked_failure(Unpacker& bytes) {
  if (!bytes.number<bool>()) return std::nullopt;
  Error error;
  error.code = bytes.number<ErrorCode>();
  error.message = bytes.text();
  error.where = bytes.text();
  error.hint = bytes.text();
  return error;
}

// What every rank gets.
void pack_shared(Packer& packer, const RunReport& report) {
  pack(packer, report.failure);
  pack(packer, report.not_finite);
  packer.numbers(report.versions);
  packer.number(report.is_remembered);
  packer.number(report.duration);
}

void add_shared(RunReport& all, Unpacker& bytes) {
  std::optional<Error> failure = unpacked_failure(bytes);
  if (!all.failure) all.failure = std::move(failure);
  std::optional<Error> not_finite = unpacked_failure(bytes);
  if (!all.not_finite) all.not_finite = std::move(not_finite);
  const auto versions = bytes.numbers<std::int32_t>();
  all.versions.resize(std::max(all.versions.size(), versions.size()));
  for (std::size_t i = 0; i < versions.size(); ++i)
    all.versions[i] = std::max(all.versions[i], versions[i]);
  all.is_remembered = bytes.number<bool>() && all.is_remembered;
  all.duration = std::max(all.duration, bytes.number<Seconds>());
}

std::string packed(const RunReport& report) {
  Packer packer;
  pack_shared(packer, report);
  packer.numbers(report.losses);
  packer.numbers(report.spans);
  packer.number(report.memory.size());
  for (const auto& [worker, peak] : report.memory) {
    packer.number(worker);
    packer.number(peak);
  }
  return packer.take();
}

void add(RunReport& all, Unpacker bytes) {
  add_shared(all, bytes);
  const auto losses = bytes.numbers<PartialLoss>();
  all.losses.insert(all.losses.end(), losses.begin(), losses.end());
  const auto spans = bytes.numbers<Span>();
  all.spans.insert(all.spans.end(), spans.begin(), spans.end());
  for (auto n = bytes.number<std::size_t>(); n > 0; --n) {
    const auto worker = bytes.number<WorkerId>();
    all.memory.emplace_back(worker, bytes.number<Bytes>());
  }
}

}  // namespace

RunReport combine_reports(Transport& transport, RunReport mine) {
  if (transport.is_alone()) return mine;
  RunReport all;
  for (const std::string& bytes : transport.gather(packed(mine)))
    add(all, Unpacker(bytes));
  Packer shared;
  pack_shared(shared, all);
  const std::string answer = transport.broadcast(shared.take());
  Unpacker bytes(answer);
  add_shared(all, bytes);
  return all;
}

}  // namespace pipewright
