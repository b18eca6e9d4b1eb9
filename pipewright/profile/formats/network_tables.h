// Which of a source's network curves is that of a link between two groups of
// GPUs.
//
// A curve of GPUs of two kinds has their zones, kinds and degrees. Where the
// source has none of these very groups, the nearest is taken, and notes() says
// which. Curves are of one direction; a link here has one rate for both.

#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipewright/profile/formats/bandwidth_table.h"

namespace pipewright {

// Tensor-parallel GPUs of one kind.
struct NetworkEnd {
  std::string kind;
  int degree = 1;  // how many of them
  std::string zone;

  auto operator<=>(const NetworkEnd&) const = default;
};

// "4xGH-96".
std::string gpus_text(const NetworkEnd& end);

class NetworkTables {
 public:
  // The argument must outlive this object.
  explicit NetworkTables(const std::vector<BandwidthTable>& tables);

  // Between so many GPUs of a host; null if the source has none.
  const BandwidthTable* within_host(const std::string& kind, int gpus) const;

  // In this order, or null:
  //   - the curve of these ends, in either direction;
  //   - between equal GPUs of one zone, the slower of what each group reaches;
  //   - the curve of both kinds between both zones, in either direction, of the
  //     nearest degrees. The smaller one counts first: as many GPUs carry the
  //     message;
  //   - that of both kinds in another zone, if they differ;
  //   - the slower of what each kind reaches between hosts of its own.
  const BandwidthTable* between(const NetworkEnd& a, const NetworkEnd& b);

  // What all GPUs of a host reach together; 0 if unknown.
  BytesPerSecond of_host(const std::string& kind) const;

  static BytesPerSecond largest_rate(const BandwidthTable& table);

  // For each pair of groups that has another one's curve: whose.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  struct PairTable {
    NetworkEnd from, to;
    const BandwidthTable* table = nullptr;
  };

  const BandwidthTable* find_between(const NetworkEnd& a, const NetworkEnd& b);
  const PairTable* nearest_pair(const NetworkEnd& a, const NetworkEnd& b) const;
  const BandwidthTable* slower_of_kinds(const NetworkEnd& a,
                                        const NetworkEnd& b) const;
  const BandwidthTable* of_kind(const std::string& operation,
                                const std::string& kind, int devices) const;

  const std::vector<BandwidthTable>& tables_;
  std::vector<PairTable> pairs_;
  std::map<std::pair<NetworkEnd, NetworkEnd>, const BandwidthTable*> found_;
  std::vector<std::string> notes_;
};

}  // namespace pipewright
