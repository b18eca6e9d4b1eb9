// ZB-H1 and ZB-H2 against their closed forms, and as drawn.

#include "zb_test.h"

namespace pipewright {
namespace {

// Microbatches whose F is done and whose I is not.
int most_awaiting_input_gradient(const Schedule& schedule, int worker) {
  int held = 0, most = 0;
  for (const ComputeAction& a :
       schedule.sections().body[static_cast<std::size_t>(worker)]) {
    held += a.kind == ComputeKind::Forward ? 1 : 0;
    held -= a.kind == ComputeKind::BackwardInput ? 1 : 0;
    most = std::max(most, held);
  }
  return most;
}

// W <= F; whole numbers, so that sums are exact.
const EqualStages kTimes[] = {{1, 1, 1}, {2, 3, 1}, {3, 3, 2}, {2, 3, 2},
                              {3, 2, 3}, {2, 1, 1}, {1, 2, 1}, {5, 6, 3}};

TEST_CASE("zb-h1 as the paper draws it") {
  CHECK(generated("zb-h1", 3, 5).to_text() ==
        "schedule v1 stages=3 microbatches=5\n"
        "0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0F4 0I2 0W2 0I3 0W3 0I4 0W4\n"
        "1: 1F0 1F1 1I0 1F2 1I1 1W0 1F3 1I2 1W1 1F4 1I3 1W2 1I4 1W3 1W4\n"
        "2: 2F0 2I0 2F1 2I1 2F2 2I2 2W0 2F3 2I3 2W1 2F4 2I4 2W2 2W3 2W4\n");
}

TEST_CASE("zb-h1 takes (p-1)(F+I-W) beyond its work") {
  for (const EqualStages& t : kTimes)
    for (int p = 1; p <= 9; ++p)
      for (int m = p; m <= p + 12; ++m) {
        const Bubble b = bubble(generated("zb-h1", p, m), t);
        const double published = (p - 1) * (t.forward + t.input - t.weight);
        CHECK(b.longest == published);
        // The last stage cannot start before the others' F.
        CHECK(b.makespan == std::max(published, (p - 1) * t.forward));
      }
}

TEST_CASE("zb-h1 with fewer microbatches than stages has fewer W to fill") {
  for (const EqualStages& t : kTimes)
    for (int p = 2; p <= 9; ++p)
      for (int m = 1; m < p; ++m)
        CHECK(bubble(generated("zb-h1", p, m), t).longest ==
              (p - 1) * (t.forward + t.input) - (m - 1) * t.weight);
}

TEST_CASE("zb-h1 has 1f1b's microbatches in flight") {
  for (int p = 1; p <= 9; ++p)
    for (int m = 1; m <= 20; ++m) {
      const Schedule schedule = generated("zb-h1", p, m);
      for (int s = 0; s < p; ++s) {
        CHECK(most_awaiting_input_gradient(schedule, s) == std::min(m, p - s));
        CHECK(peak_in_flight(schedule, WorkerId(s), StageId(s)) ==
              std::min(m, p));
      }
    }
}

TEST_CASE("zb-h2 as the paper draws it") {
  CHECK(generated("zb-h2", 2, 4).to_text() ==
        "schedule v1 stages=2 microbatches=4\n"
        "0: 0F0 0F1 0F2 0I0 0W0 0F3 0I1 0W1 0I2 0W2 0I3 0W3\n"
        "1: 1F0 1I0 1F1 1I1 1F2 1I2 1W0 1F3 1I3 1W1 1W2 1W3\n");
}

TEST_CASE("zb-h2 takes (p-1)(F+I-2W) beyond its work") {
  for (const EqualStages& t : kTimes)
    for (int p = 1; p <= 9; ++p)
      for (int m = 2 * p - 1; m <= 2 * p + 12; ++m) {
        const Bubble b = bubble(generated("zb-h2", p, m), t);
        const double published = (p - 1) * (t.forward + t.input - 2 * t.weight);
        // The last I still goes back past stages that have no F left to do.
        const double least = (p - 1) * std::max(0.0, t.input - t.forward);
        CHECK(b.longest == std::max(published, least));
        CHECK(b.makespan == std::max(b.longest, (p - 1) * t.forward));
      }
}

TEST_CASE("zb-h2 has at most 2p-1 microbatches in flight") {
  for (int p = 1; p <= 9; ++p)
    for (int m = 1; m <= 30; ++m)
      CHECK(max_activations(generated("zb-h2", p, m)) ==
            std::min(m, 2 * p - 1));
}

}  // namespace
}  // namespace pipewright
