// A lower bound on the step time of synchronous plans for models with several
// layers whose gradients take long to sum over network cards. It goes on where
// replica_bound.h ends, with its islands, the numbers k of islands that have
// the backward of each layer, the times t by which sums start at the latest,
// and a step of T seconds. All numbers are bounds for every plan, with any
// schedule, replicas, stages per device, recompute and cuts.
//
//   k       Each layer has a fewest number of islands: with fewer there is no
//           start of its sum. If that is 2 or more, then the sum takes
//           S = 2 (k-1)/k p/c or more of the card of each of its islands, in
//           either direction: a ring enters and leaves each of them.
//   two     If an island has the backwards of two such layers a and b, then
//           both sums are on its card, one after the other or at once, between
//           the start of the first and the end of the step with the shorter
//           update u. So the first starts by D(a,b) = T - u - S(a) - S(b).
//           Layers with a parameter in common are left out: their gradients
//           are summed together.
//   apart   No sum starts before the work that precedes it is done, shared by
//           all devices without loss. If for both layers that is after D(a,b),
//           then no island has both. So every sample's gradient crosses the
//           border between them, in replica_bound.h: not N - X/w samples or
//           more of b are on the islands of a, but none.
//   idle    The sum of a starts at some s, before the time e by which those of
//           some other layers start. Between s and e the devices of its islands
//           can still do, of what precedes these,
//             - nothing that precedes the sum of a: it is done;
//             - forwards that do not;
//             - the backwards of a layer b if s <= D(a,b). Otherwise the sum
//               of b is the first of the two, so they are done, or not here;
//             - all other backwards.
//           These devices are those of the fewest islands, and as many as can
//           do all backwards of a by s. They also do its forwards, unless
//           another island is sent the weights after the sum and the update.
//           What is left of their time is idle, for the s that leaves least.
//           Between two times at which one of these conditions changes, a later
//           s leaves less. So only these times are tried, and the latest.
//           All devices have e seconds each, less what is idle, for the work
//           before the sums of these layers.

#pragma once

#include "pipewright/planners/bounds/pivots.h"

namespace pipewright {

// Seconds; at least `known`, which is a bound already.
double card_bound(const Pivots& pivots, double known);

}  // namespace pipewright
