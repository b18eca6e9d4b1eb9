// The V-shaped schedules against what their papers publish. A worker's two
// stages are each half of its share: 1F1B's p microbatches are 2p activations
// here, its bubble of (p-1)(F+B) is 6(p-1) at F = I = W = 1 per stage.

#include "zb_test.h"

namespace pipewright {
namespace {

TEST_CASE("zb-v as the paper draws it") {
  CHECK(generated("zb-v", 2, 3).to_text() ==
        "schedule v1 stages=4 microbatches=3\n"
        "0: 0F0 0F1 0F2 3F0 3I0 3W0 3F1 3I1 3W1 0I0 0W0 3F2 3I2 3W2 0I1 0W1 "
        "0I2 0W2\n"
        "1: 1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 "
        "2W2 1W2\n");
}

TEST_CASE("zb-v has no bubble at F = I = W, in 1f1b's memory") {
  for (int p = 1; p <= 12; ++p)
    for (int m = 2 * p - 1; m <= 2 * p + 12; ++m) {
      const Schedule schedule = generated("zb-v", p, m);
      CHECK(bubble(schedule).longest == 0);
      CHECK(bubble(schedule).makespan == p - 1);  // the last starts that late
      CHECK(max_activations(schedule) == 2 * p);
    }
}

TEST_CASE("v-half: half of 1f1b's memory, half of its bubble") {
  for (int p = 2; p <= 16; ++p)
    for (int m = 2 * p; m <= 2 * p + 5; ++m) {
      const Schedule schedule = generated("v-half", p, m);
      CHECK(bubble(schedule).makespan == 3 * (p - 1) - p % 2);
      CHECK(max_activations(schedule) == 2 * ((p + 2) / 2));
    }
}

TEST_CASE("v-min: a third of 1f1b's memory, two thirds of its bubble") {
  for (int p = 2; p <= 16; ++p)
    for (int m = 2 * p; m <= 2 * p + 5; ++m) {
      const Schedule schedule = generated("v-min", p, m);
      CHECK(bubble(schedule).makespan == 4 * p - (p % 3 == 0 ? 3 : 5));
      CHECK(max_activations(schedule) == 2 * ((p + 4) / 3));
    }
}

TEST_CASE("dualpipev: at most the published bubble, in p + 1/2 microbatches") {
  // Where a forward is no longer than the input gradient.
  const EqualStages times[] = {
      {1, 1, 1}, {2, 3, 1}, {3, 3, 2}, {2, 3, 2}, {1, 2, 2}};
  for (int p = 1; p <= 9; ++p)
    for (int m = 2 * p; m <= 2 * p + 8; ++m) {
      const Schedule schedule = generated("dualpipev", p, m);
      CHECK(bubble(schedule).longest == 2 * (p - 1));
      CHECK(max_activations(schedule) == (m > p ? 2 * p + 1 : 2 * p));
      // deepseek-ai/DualPipe: (PP/2 - 1)(F&B + B - 3W), PP stages, F&B joined.
      for (const EqualStages& t : times)
        CHECK(bubble(schedule, t).longest <=
              (p - 1) * (t.forward + 2 * t.input - t.weight));
    }
}

TEST_CASE("dualpipev joins a forward with another microbatch's backward") {
  for (int m : {1, 3, 8, 12}) {
    int joined = 0;
    const Schedule schedule = generated("dualpipev", 4, m);
    for (const auto& order : schedule.sections().body)
      for (std::size_t i = 0; i < order.size(); ++i) {
        if (!order[i].joined) continue;
        ++joined;
        CHECK(order[i].kind == ComputeKind::Forward);
        CHECK(order[i + 1].kind == ComputeKind::Backward);
        CHECK(order[i + 1].microbatch != order[i].microbatch);
      }
    CHECK((joined > 0) == (m > 4));
  }
}

TEST_CASE("any number of workers and microbatches makes a schedule") {
  for (const char* name :
       {"zb-h1", "zb-h2", "zb-v", "v-half", "v-min", "dualpipev"})
    for (int p = 1; p <= 16; ++p)
      for (int m = 1; m <= 64; ++m) {
        const Schedule schedule = generated(name, p, m);
        CHECK(schedule.num_workers() == p);
        CHECK(schedule.num_microbatches() == m);
      }
}

}  // namespace
}  // namespace pipewright
