// Names the devices of a graph anew, by nothing but its bandwidths and kinds,
// so that what follows does not depend on the names that the cluster gives
// them. Ours; used before SPP's device order breaks ties by name.

#pragma once

#include <vector>

namespace pipewright {

// Symmetric; 0 without a link. The diagonal is not used.
using Bandwidths = std::vector<std::vector<double>>;
// The graph of some vertices of `all`, in the order of `vertices`.
Bandwidths among(const Bandwidths& all, const std::vector<int>& vertices);

// Every vertex once. Two graphs that differ only in their names get orders in
// which vertex i of one and vertex i of the other have the same kind and the
// same bandwidths to all others. Vertices that look alike keep the order of
// their names, so equal bandwidths give 0, 1, 2, ...
//
// Vertices with the same bandwidths to all others (the devices of a host, then
// the hosts of a network) are merged first, until no two have; most clusters
// end as one vertex. Of the rest, colours are refined until they are stable.
// Where vertices still share a colour, each that no known symmetry maps to an
// earlier one is tried as the first of them, and the order with the largest
// bandwidths first is taken. In graphs in which very many orders would have to
// be tried, not all are, and names may matter again.
std::vector<int> canonical_order(const Bandwidths& bandwidths,
                                 const std::vector<int>& kinds);

}  // namespace pipewright
