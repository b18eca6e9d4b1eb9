// A lower bound on the step time for models whose gradients are either summed
// over slow links or whose weights are on few devices (bounds.h).
//
// Take the hosts of a cluster, or its single devices, as islands. The backward
// of a layer l is on k of them.
//
//   k > 1   Gradients are summed over r >= k devices. 2 (r-1)/r of the layer's
//           parameter bytes p leave and enter each island, and the fastest link
//           between islands has bandwidth b: the sum takes 2 (r-1)/r p/b, and
//           2 log2 r times the shortest latency (sum_rounds.h).
//   k = 1   The same with the fastest link of all and 1 to d devices, as many
//           as an island has.
//   any k   A synchronous step sums after the last backward of l. The r devices
//           share the backwards of l, which start when one slice has passed
//           forward and back to l: with few devices these take long, with many
//           the sum does. They also share its forwards, which start when one
//           slice has come to l; unless a device has a forward of l and no
//           backward: then it is sent the new weights after the sum and the
//           update. Before the sum all devices together have done, for all
//           samples, the backward of l, the input gradients of all layers that
//           depend on l, and the forwards that those need: that takes at least
//           their work, shared without loss. So the sum starts by some time t.
//           In time T at most X = k T c - 2 (k-1) p bytes of gradients pass
//           between these islands and others, in each direction, where c is the
//           rate at which data can leave or enter an island, and the sum uses
//           its part. If the backward of another layer m for some sample is on
//           none of the k islands, then its gradient passes some edge of every
//           path between l and m: at least w bytes, where w is the narrowest
//           edge of the widest path. So this holds for at most X/w samples,
//           and, if m depends on l, for those whose w bytes can come in after a
//           first backward of m could start and before t. The backwards of m
//           for all other samples are on the k islands, whose k d devices have
//           T seconds each: sum over m of (N - X/w) time(m) <= T k d.
//           The forward of m may be elsewhere, but then what its backward keeps
//           of it, q bytes, crosses the border in one direction or the other,
//           unless the forward is computed again. So for N - X/w - 2 X/q
//           samples its time counts too.
//           If the backward of l keeps an input that depends on m, then it
//           needs the forward of m on one of the k islands, or w bytes that
//           came in after m could first end and before t. The k d devices do
//           these forwards and the backwards of l before t.
//
// So each layer has a time by which its sum starts at the latest, over all k.
// Several layers with such times t1 <= t2 <= ... share the devices: by t_i the
// work before the sums of the first i of them is done, what they have in common
// once.
//
// The smallest T that satisfies this is a bound for every plan, with any
// method, schedule, replicas and cuts. The conditions become weaker as T grows,
// so bisection finds it.

#pragma once

#include "pipewright/planners/bounds/pivots.h"

namespace pipewright {

// Seconds; at least `known`, which is a bound already.
double replica_bound(const Pivots& pivots, double known);

}  // namespace pipewright
