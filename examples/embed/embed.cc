// Plans a small network for two workers, simulates the plan, and trains it.

#include <pipewright/pipewright.h>

#include <iostream>

using namespace pipewright;

Result<void> plan_simulate_train() {
  PIPEWRIGHT_TRY(const Model model, load_model("mlp:features=64,hidden=512"));
  PIPEWRIGHT_TRY(const Cluster cluster, load_cluster("2xV100@nvlink"));
  const std::vector<int> microbatches = {8};
  PIPEWRIGHT_TRY(const Profile profile,
                 analytic_profile(model, cluster.kinds(), microbatches));

  Problem problem;
  problem.profile = &profile;
  problem.cluster = &cluster;
  problem.minibatch = 64;
  problem.microbatches = microbatches;
  set_estimators(problem);
  PIPEWRIGHT_TRY(const Planner* planner, find_planner("spp"));
  PIPEWRIGHT_TRY(const Planned planned, planner->plan(problem));
  std::cout << planned.plan.num_stages() << " stages, "
            << planned.plan.schedule_name << "\n";

  PIPEWRIGHT_TRY(const Program program, lower(planned.plan, profile));
  if (auto valid = validate(program); !valid) return valid.error();
  PIPEWRIGHT_TRY(const Costs costs, costs_of(program, profile, cluster));
  std::cout << draw(simulate(program, costs));

#ifdef EMBED_TRAINS
  TrainRequest request;
  request.plan = planned.plan;
  request.program = program;
  request.data = "digits";
  request.run = "run";
  request.steps = 200;
  PIPEWRIGHT_TRY(const TrainReport report, train(model, request));
  std::cout << "trained: loss " << report.first_loss << " to "
            << report.last_loss << "\n";
#endif
  return {};
}

int main() {
  const Result<void> done = plan_simulate_train();
  if (!done) std::cerr << "embed: " << done.error().to_text() << "\n";
  return done ? 0 : static_cast<int>(done.error().code);
}
