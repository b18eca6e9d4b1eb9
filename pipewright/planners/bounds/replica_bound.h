// What follows for time from weights that are either summed over slow links or
// kept near few devices (bounds.h).
//
// Take the hosts of a cluster, or its single devices, as islands. The backward
// of a layer l is on some k of them.
//
//   k > 1   Gradients are summed in a ring of r >= k devices. Each island is
//           left by at least one link of the ring, which carries 2 (r-1)/r >=
//           2 (k-1)/k of the layer's parameter bytes p, and the fastest link
//           between islands has bandwidth b: T >= 2 (k-1)/k p/b. A synchronous
//           step does this behind the last backward of l, which takes at least
//           1/k of its time on one island, shared out among its devices.
//   any k   In the time T at most X = k T c - 2 (k-1) p bytes of gradients pass
//           between these islands and others, each way, where c is what can
//           leave or enter an island in a second and the ring has its part. A
//           sample whose backward of another layer m is on none of the k takes
//           its gradient over some edge of every path between l and m, so at
//           least w bytes, where w is the widest path's narrowest edge. Hence
//           at most X/w samples do; the backwards of m of all the others are on
//           these islands, whose k d devices have T seconds each:
//           sum over m of (N - X/w) time(m) <= T k d.
//
// The smallest T that satisfies this for some k bounds every plan, whatever its
// method, schedule, replicas and cuts: backwards only, because forwards may be
// elsewhere. Both conditions become weaker with T, so halving finds it.

#pragma once

#include <vector>

#include "pipewright/planners/bounds/least_times.h"

namespace pipewright {

// Seconds; never less than `known`, which is a bound already.
double replica_bound(const Problem& problem,
                     const std::vector<KindTimes>& kinds, double known);

}  // namespace pipewright
