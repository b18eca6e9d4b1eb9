// Replicated stages in buckets: which layers, in which order, and which stages
// stay whole.

#include "pipewright/plan/gradient_buckets.h"

#include <doctest/doctest.h>

#include "pipewright/schedules/generator.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

// Three layers of 10 B of weights each on `replicas` workers.
Plan one_stage(int replicas) {
  ScheduleRequest request;
  request.workers = 1;
  request.microbatches = 2;
  Plan plan =
      plan_of_schedule(with_replicas(generate_schedule("1f1b", request).value(),
                                     {replicas}, Replication::Split)
                           .value(),
                       Method::Sync, Replication::Split);
  plan.stages[0].forward = {LayerId(0), LayerId(1), LayerId(2)};
  plan.stages[0].backward = plan.stages[0].forward;
  plan.schedule_name = "1f1b";
  return plan;
}

std::string stages_text(const Plan& plan) {
  std::string text;
  for (const Stage& stage : plan.stages) {
    for (LayerId layer : stage.forward) text += std::to_string(layer.value);
    text += stage.forward == stage.backward ? " " : "! ";
  }
  return text;
}

TEST_CASE("a bucket ends with the layer that fills it, from the last layer") {
  const Profile profile = chain(3);
  const Plan plan = one_stage(2);
  const auto stages = [&](int bytes) {
    return stages_text(with_buckets(plan, profile, Bytes(bytes)).value());
  };
  CHECK(stages(1) == "0 1 2 ");
  CHECK(stages(10) == "0 1 2 ");
  CHECK(stages(11) == "0 12 ");
  CHECK(stages(20) == "0 12 ");
  CHECK(stages(21) == "012 ");
  CHECK(with_buckets(plan, profile, Bytes(30))->schedule_name == "1f1b");
}

TEST_CASE("every microbatch passes the buckets in turn") {
  const Plan plan = with_buckets(one_stage(2), chain(3), Bytes(20)).value();
  CHECK(plan.schedule.to_text() ==
        "schedule v1 stages=2 microbatches=2\n"
        "0: 0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1\n"
        "1: 0F0 1F0 1B0 0B0 0F1 1F1 1B1 0B1\n");
  CHECK(plan.schedule_name == "1f1b");
  CHECK(num_buckets(plan) == 2);
  CHECK(check_plan(plan, chain(3)));
  for (const Stage& stage : plan.stages)
    CHECK(stage.workers == one_stage(2).stages[0].workers);
}

TEST_CASE("a plan in buckets is the plan before, once they are merged") {
  const Profile profile = chain(3);
  for (int replicas : {1, 2, 3}) {
    Plan plan = one_stage(replicas);
    plan.microbatch = plan.minibatch = 2 * replicas;
    plan.minibatch *= 2;
    for (int bytes : {1, 11, 21, 31}) {
      const Plan cut = with_buckets(plan, profile, Bytes(bytes)).value();
      CHECK(to_json(*without_buckets(cut)).to_text() ==
            to_json(plan).to_text());
      const std::string text = to_json(cut).to_text();
      CHECK(to_json(*parse_plan(text, "cut")).to_text() == text);
      if (has_buckets(cut))
        CHECK(with_buckets(cut, profile, Bytes(1))->stages == cut.stages);
    }
  }
}

TEST_CASE("a bucket has the workers of the stage before it") {
  Plan plan = with_buckets(one_stage(2), chain(3), Bytes(20)).value();
  std::swap(plan.stages[1].workers[0], plan.stages[1].workers[1]);
  CHECK(!check_plan(plan));
  plan = with_buckets(one_stage(2), chain(3), Bytes(20)).value();
  plan.stages[0].bucket = true;
  CHECK(check_plan(plan).error().to_text().find("but there is none") !=
        std::string::npos);
}

TEST_CASE("layers without weights go with those after them") {
  Profile profile = chain(3);
  profile.layers[0].parameters.clear();
  const Plan plan = with_buckets(one_stage(2), profile, Bytes(1)).value();
  CHECK(stages_text(plan) == "01 2 ");
  // A tied parameter is summed with the last of its layers.
  profile.layers[0].parameters = {ParameterId(2)};
  CHECK(stages_text(with_buckets(one_stage(2), profile, Bytes(1)).value()) ==
        "01 2 ");
}

TEST_CASE("stages stay whole without replicas, and where they recompute") {
  CHECK(with_buckets(one_stage(1), chain(3), Bytes(1))->num_stages() == 1);
  Plan plan = one_stage(2);
  plan.stages[0].recompute = true;
  CHECK(with_buckets(plan, chain(3), Bytes(1))->num_stages() == 1);
}

}  // namespace
}  // namespace pipewright
