// One action dropped, swapped with its neighbour, or doubled: the mutant is
// either rejected by the validator or computes what the program computed.

#include <doctest/doctest.h>

#include <random>

#include "pipewright/plan/lowering/lower.h"
#include "pipewright/plan/validation/validate.h"
#include "tests/plan/chain.h"
#include "tests/plan/lowering/symbolic.h"

namespace pipewright {
namespace {

std::size_t below(std::mt19937& random, std::size_t size) {
  return random() % size;
}

// Backward cuts moved by one layer here and there; two layers a stage.
void moved_cuts(Plan& plan, std::mt19937& random) {
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const int first = static_cast<int>(2 * s);
    plan.stages[s].forward = {LayerId(first), LayerId(first + 1)};
    plan.stages[s].backward = plan.stages[s].forward;
  }
  for (std::size_t s = 0; s + 1 < plan.stages.size(); ++s) {
    auto& here = plan.stages[s].backward;
    auto& behind = plan.stages[s + 1].backward;
    if (random() % 3 == 0 && here.size() > 1) {
      behind.insert(behind.begin(), here.back());
      here.pop_back();
    } else if (random() % 3 == 0 && behind.size() > 1) {
      here.push_back(behind.front());
      behind.erase(behind.begin());
    }
  }
}

// What was done; empty: there was nothing to mutate.
std::string mutate(Program& program, std::mt19937& random) {
  WorkerProgram& worker =
      program.workers[below(random, program.workers.size())];
  std::vector<Action>* lists[] = {&worker.prologue, &worker.body,
                                  &worker.epilogue};
  std::vector<Action>& list = *lists[below(random, 3)];
  if (list.size() < 2) return {};
  const std::size_t k = below(random, list.size() - 1);
  const auto at = list.begin() + static_cast<std::ptrdiff_t>(k);
  switch (random() % 3) {
    case 0: {
      const std::string name = "dropped " + to_text(*at);
      list.erase(at);
      return name;
    }
    case 1:
      if (*at == *(at + 1)) return {};
      std::iter_swap(at, at + 1);
      return "swapped " + to_text(*at) + " and " + to_text(*(at + 1));
    default:
      list.insert(at, *at);
      return "doubled " + to_text(list[k]);
  }
}

Program random_program(std::mt19937& random, Profile& profile) {
  while (true) {
    const auto& generators = schedule_generators();
    ScheduleRequest request;
    request.workers = 1 + static_cast<int>(random() % 4);
    request.microbatches = 1 + static_cast<int>(random() % 4);
    Result<Schedule> schedule = generate_schedule(
        generators[below(random, generators.size())].name, request);
    if (!schedule) continue;
    Method method = Method::Sync;
    if (schedule->is_asynchronous())
      method = kMethods[1 + random() % (kMethods.size() - 1)];
    Plan plan = plan_of_schedule(*schedule, method, Replication::Rotate);
    profile = chain_with_skips(2 * schedule->num_stages(), random);
    moved_cuts(plan, random);
    Result<Program> program = lower(plan, profile);
    if (program) return *program;
  }
}

}  // namespace

TEST_CASE("every mutant is rejected or computes the same") {
  std::mt19937 random(11);
  int rejected = 0, equal = 0;
  for (int i = 0; i < 400; ++i) {
    Profile profile;
    const Program program = random_program(random, profile);
    Result<ProgramFacts> facts = validate(program);
    INFO((facts ? std::string() : facts.error().to_text()));
    REQUIRE(facts.ok());
    const int minibatches = program.minibatches_outside + 2;
    const auto expected = Symbolic(program, profile, minibatches).run();
    REQUIRE(expected);
    for (int j = 0; j < 25; ++j) {
      Program mutant = program;
      const std::string what = mutate(mutant, random);
      if (what.empty()) continue;
      if (!validate(mutant).ok()) {
        ++rejected;
        continue;
      }
      const auto result = Symbolic(mutant, profile, minibatches).run();
      REQUIRE(result);
      CAPTURE(what);
      CHECK(*result == *expected);
      ++equal;
    }
  }
  MESSAGE(rejected << " mutants rejected, " << equal << " compute the same");
  CHECK(rejected > 1000);
  CHECK(equal > 100);
}

}  // namespace pipewright
