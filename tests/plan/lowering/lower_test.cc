#include "pipewright/plan/lowering/lower.h"

#include <doctest/doctest.h>

#include "pipewright/schedules/generator.h"
#include "tests/plan/chain.h"

namespace pipewright {
namespace {

Plan plan_of(const std::vector<int>& cuts, int num_layers, int microbatches,
             const std::string& schedule, Method method) {
  Plan plan;
  plan.model = "chain";
  plan.method = method;
  plan.minibatch = microbatches;
  plan.microbatch = 1;
  plan.stages = stages_of_cuts(cuts, num_layers);
  for (std::size_t d = 0; d <= cuts.size(); ++d)
    plan.devices.push_back(DeviceId(d));
  plan.schedule_name = schedule;
  ScheduleRequest request;
  request.workers = plan.num_stages();
  request.microbatches = microbatches;
  plan.schedule = *generate_schedule(schedule, request);
  return plan;
}

std::string text_of(const std::vector<Action>& actions) {
  std::string text;
  for (const Action& action : actions)
    text += (text.empty() ? "" : ", ") + to_text(action);
  return text;
}

}  // namespace

TEST_CASE("1f1b on two workers") {
  Result<Program> program =
      lower(plan_of({2}, 4, 2, "1f1b", Method::Sync), chain(4));
  REQUIRE(program);
  CHECK(text_of(program->workers[0].body) ==
        "receive 1 m0 v0, receive 1 m1 v0, 0F0 v0, send 0 m0 v0, 0F1 v0, "
        "send 0 m1 v0, 0B0 v0, 0B1 v0, step stage 0 v1");
  CHECK(text_of(program->workers[1].body) ==
        "receive 0 m0 v0, receive 0 m1 v0, 1F0 v0, 1B0 v0, send 1 m0 v0, "
        "1F1 v0, 1B1 v0, send 1 m1 v0, step stage 1 v1");
  REQUIRE(program->transfers.size() == 2);
  CHECK(program->transfers[0].values ==
        std::vector<Value>{{ValueKind::Activation, LayerId(1)}});
  CHECK(program->transfers[1].values ==
        std::vector<Value>{{ValueKind::Gradient, LayerId(1)}});
  for (const WorkerProgram& worker : program->workers)
    CHECK(worker.held[0].versions == 1);
}

TEST_CASE("a receive waits for room in its window") {
  LowerOptions options;
  options.window = 1;
  Result<Program> program =
      lower(plan_of({2}, 4, 3, "gpipe", Method::Sync), chain(4), options);
  REQUIRE(program);
  CHECK(text_of(program->workers[1].body).substr(0, 77) ==
        "receive 0 m0 v0, 1F0 v0, receive 0 m1 v0, 1F1 v0, receive 0 m2 v0, "
        "1F2 v0, 1B");
}

// Fill once, never drain: stage 0 runs one microbatch ahead.
Schedule two_stage_async() {
  const auto f = [](int stage, int m) {
    return ComputeAction{StageId(stage), MicrobatchId(m), ComputeKind::Forward};
  };
  const auto b = [](int stage, int m) {
    return ComputeAction{StageId(stage), MicrobatchId(m),
                         ComputeKind::Backward};
  };
  Schedule::Sections sections;
  sections.prologue = {{f(0, 0)}, {}};
  sections.body = {{f(0, 1), b(0, 0)}, {f(1, 0), b(1, 0)}};
  sections.epilogue = {{b(0, 0)}, {f(1, 0), b(1, 0)}};
  sections.minibatches_outside = 1;
  return *Schedule::create(2, 1, sections);
}

Plan async_plan(Method method) {
  Plan plan = plan_of({2}, 4, 1, "1f1b", Method::Sync);
  plan.method = method;
  plan.schedule = two_stage_async();
  return plan;
}

TEST_CASE("methods differ in the versions that are read") {
  struct Row {
    Method method;
    double forward, backward;  // delay of the first stage
    int held;                  // versions on the first worker
  };
  for (const Row& row :
       {Row{Method::Naive, 1, 0, 1}, Row{Method::PipeMare, 1, 0, 1},
        Row{Method::Stash, 1, 1, 2}, Row{Method::VerticalSync, 1, 1, 2},
        Row{Method::TwoBw, 1, 1, 2}}) {
    CAPTURE(to_text(row.method));
    Result<Program> program = lower(async_plan(row.method), chain(4));
    REQUIRE(program);
    CHECK(program->delays[0].forward == row.forward);
    CHECK(program->delays[0].backward == row.backward);
    CHECK(program->workers[0].held[0].versions == row.held);
    CHECK(program->delays[0].corrected == (row.method == Method::PipeMare));
  }
}

// The layers of the chain have ten bytes of weights each, two of them per
// stage.
TEST_CASE("the correction keeps a velocity, and moves one layer at a time") {
  const Result<Program> naive = lower(async_plan(Method::Naive), chain(4)),
                        pipemare =
                            lower(async_plan(Method::PipeMare), chain(4));
  REQUIRE((naive && pipemare));
  for (std::size_t s = 0; s < 2; ++s) {
    const bool corrects = s == 0;  // the last stage has no delay
    CHECK(pipemare->operations[s].optimizer - naive->operations[s].optimizer ==
          Bytes(corrects ? 20 : 0));
    const auto backward = [&](const Program& program) {
      for (const Action& action : program.workers[s].body)
        if (action.kind == ActionKind::Backward)
          return program.life(action).effect;
      return Effect{};
    };
    const Effect plain = backward(*naive), moved = backward(*pipemare);
    CHECK(moved.allocates - plain.allocates == Bytes(corrects ? 10 : 0));
    CHECK(moved.frees - plain.frees == moved.allocates - plain.allocates);
  }
}

TEST_CASE("a program of any length is the flat lowering of that length") {
  for (Method method : {Method::Naive, Method::Stash, Method::TwoBw}) {
    const Plan plan = async_plan(method);
    Result<Program> program = lower(plan, chain(4));
    REQUIRE(program);
    for (int n = program->minibatches_outside; n < 12; ++n) {
      LowerOptions options;
      options.minibatches = n;
      Result<Program> flat = lower(plan, chain(4), options);
      REQUIRE(flat);
      for (int w = 0; w < 2; ++w)
        CHECK(unrolled(*program, WorkerId(w), n) ==
              unrolled(*flat, WorkerId(w), n));
    }
  }
}

// The first stage reads versions as old as the fill is long, so its first
// repetitions read the initial weights. Behind them all are alike.
TEST_CASE("a deep pipeline's body is the first that reads all its versions") {
  for (int stages : {12, 40, 90}) {
    std::vector<int> cuts;
    for (int s = 1; s < stages; ++s) cuts.push_back(s);
    const Plan plan = plan_of(cuts, stages, 4, "async-1f1b", Method::Stash);
    const int fill = plan.schedule.sections().minibatches_outside;
    const Result<Program> program = lower(plan, chain(stages));
    REQUIRE(program.ok());
    CHECK(program->minibatches_outside == fill + 2 * fill);
    LowerOptions options;
    options.minibatches = program->minibatches_outside + 3;
    const Result<Program> flat = lower(plan, chain(stages), options);
    REQUIRE(flat.ok());
    for (int w = 0; w < stages; ++w)
      CHECK(unrolled(*program, WorkerId(w), options.minibatches) ==
            unrolled(*flat, WorkerId(w), options.minibatches));
  }
}

// Layer 1 goes forward on worker 0 and backward on worker 1: its kept input
// travels with the activation, its new weights come back.
TEST_CASE("Bi-Partition, forward cut behind backward cut") {
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.stages[0].backward = {LayerId(0)};
  plan.stages[1].backward = {LayerId(1), LayerId(2), LayerId(3)};
  Result<Program> program = lower(plan, chain(4));
  REQUIRE(program);
  std::vector<std::pair<TransferKind, std::vector<Value>>> found;
  for (const Transfer& transfer : program->transfers)
    found.emplace_back(transfer.kind, transfer.values);
  const std::vector<std::pair<TransferKind, std::vector<Value>>> expected = {
      {TransferKind::Activation, {{ValueKind::Activation, LayerId(1)}}},
      {TransferKind::Saved, {{ValueKind::Activation, LayerId(0)}}},
      {TransferKind::Gradient, {{ValueKind::Gradient, LayerId(0)}}},
      {TransferKind::Weights, {{ValueKind::Weights, LayerId(1)}}}};
  CHECK(found == expected);
  CHECK(program->transfers[3].from == WorkerId(1));
  CHECK(program->transfers[3].bytes == Bytes(10));
  // Worker 0 holds the live copy of layer 1 and the one that lands.
  CHECK(program->workers[0].held ==
        std::vector<HeldWeights>{{WeightGroupId(0), 1}, {WeightGroupId(1), 2}});
}

TEST_CASE("Bi-Partition, forward cut before backward cut") {
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.stages[0].backward = {LayerId(0), LayerId(1), LayerId(2)};
  plan.stages[1].backward = {LayerId(3)};
  Result<Program> program = lower(plan, chain(4));
  REQUIRE(program);
  for (const Transfer& transfer : program->transfers) {
    // Layer 2's input is layer 1's output, which worker 0 made itself.
    CHECK(transfer.kind != TransferKind::Saved);
    if (transfer.kind == TransferKind::Gradient)
      CHECK(transfer.values[0].layer == LayerId(2));
    if (transfer.kind == TransferKind::Weights)
      CHECK(transfer.from == WorkerId(0));
  }
}

TEST_CASE("replicas that split exchange slices, and reduce before the step") {
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.minibatch = 12;
  plan.microbatch = 6;
  plan.devices.assign(5, DeviceId(0));
  plan.stages[0].workers = {WorkerId(0), WorkerId(1), WorkerId(2)};
  plan.stages[1].workers = {WorkerId(3), WorkerId(4)};
  plan.schedule = *with_replicas(plan.schedule, {3, 2}, Replication::Split);
  Result<Program> program = lower(plan, chain(4));
  REQUIRE(program);
  // 3 by 2 replicas share 4 slices: 0-2, 2-3, 3-4, 4-6; each way.
  CHECK(program->transfers.size() == 8);
  Bytes forward;
  for (const Transfer& transfer : program->transfers)
    if (transfer.kind == TransferKind::Activation) forward += transfer.bytes;
  CHECK(forward == Bytes(600));
  REQUIRE(program->reductions.size() == 2);
  CHECK(program->reductions[0].workers.size() == 3);
  CHECK(program->reductions[0].bytes == Bytes(20));
}

TEST_CASE("what mixes samples has its backward for the same samples") {
  Profile profile = chain(4);
  profile.layers[1].mixes_samples = true;
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.stages[0].backward = {LayerId(0)};
  plan.stages[1].backward = {LayerId(1), LayerId(2), LayerId(3)};
  CHECK(lower(plan, profile));
  plan.microbatch = 2;
  plan.minibatch = 4;
  plan.devices.assign(3, DeviceId(0));
  plan.stages[1].workers = {WorkerId(1), WorkerId(2)};
  plan.schedule = *with_replicas(plan.schedule, {1, 2}, Replication::Split);
  CHECK(lower(plan, chain(4)));
  CHECK(lower(plan, profile)
            .error()
            .to_text()
            .find("its forward has 1 replicas and its backward 2") !=
        std::string::npos);
}

TEST_CASE("a skip connection's gradient is one running sum") {
  // Layer 0 feeds layers 1, 2 and 3, each in a stage of its own.
  Profile profile = chain(4);
  for (int l : {2, 3}) {
    auto& layer = profile.layers[static_cast<std::size_t>(l)];
    layer.inputs = {LayerId(0), LayerId(l - 1)};
    layer.keeps_input = {true, true};
  }
  Result<Program> program =
      lower(plan_of({1, 2, 3}, 4, 1, "1f1b", Method::Sync), profile);
  REQUIRE(program);
  std::vector<std::pair<int, int>> hops;
  for (const Transfer& transfer : program->transfers)
    for (const Value& value : transfer.values)
      if (value == Value{ValueKind::Gradient, LayerId(0)})
        hops.emplace_back(transfer.from.value, transfer.to.value);
  const std::vector<std::pair<int, int>> expected = {{3, 2}, {2, 1}, {1, 0}};
  CHECK(hops == expected);
}

TEST_CASE("a tied parameter is reduced over the stages that use it") {
  Profile profile = chain(4);
  profile.layers[3].parameters = {ParameterId(0)};
  Result<Program> program =
      lower(plan_of({2}, 4, 2, "1f1b", Method::Sync), profile);
  REQUIRE(program);
  REQUIRE(program->reductions.size() == 1);
  CHECK(program->reductions[0].parameters ==
        std::vector<ParameterId>{ParameterId(0)});
  CHECK(program->reductions[0].workers.size() == 2);
  CHECK(text_of(program->workers[0].body).find("reduce 0") !=
        std::string::npos);
}

// Of the first such action; each stage has one worker.
Effect effect_of(const Program& program, int stage, ActionKind kind) {
  for (const WorkerProgram& worker : program.workers)
    for (const Action& action : worker.body)
      if (action.stage == StageId(stage) && action.kind == kind)
        return program.life(action).effect;
  return {};
}

TEST_CASE("recompute keeps only what comes into the stage") {
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.stages[1].recompute = true;
  Result<Program> program = lower(plan, chain(4));
  REQUIRE(program);
  // Layer 3 keeps the 100 B of layer 2, made again by R; its own 100 B go
  // after it.
  CHECK(effect_of(*program, 1, ActionKind::Recompute) ==
        Effect{Bytes(200), Bytes(100)});
  CHECK(text_of(program->workers[1].body).find("1F0 v0, 1R0 v0, 1B0 v0") !=
        std::string::npos);
}

TEST_CASE("a layer's workspace is held while it computes") {
  Plan plan = plan_of({2}, 4, 2, "zb-h1", Method::Sync);
  plan.stages[1].recompute = true;
  Profile profile = chain(4);
  const Program without = lower(plan, profile).value();
  profile.sizes[1][3].workspace = Bytes(7000);
  const Program with = lower(plan, profile).value();
  // Beside it, while layer 3 computes: the outputs of layers 2 and 3; or the
  // gradient that it makes; or nothing that was not there before.
  for (const auto& [kind, beside] : {std::pair(ActionKind::Forward, 200),
                                     {ActionKind::Recompute, 200},
                                     {ActionKind::BackwardInput, 100},
                                     {ActionKind::BackwardWeight, 0}}) {
    const Effect plain = effect_of(without, 1, kind);
    const Effect more = effect_of(with, 1, kind);
    CHECK(more.allocates == Bytes(7000 + beside));
    CHECK(more.allocates - more.frees == plain.allocates - plain.frees);
    CHECK(effect_of(with, 0, kind) == effect_of(without, 0, kind));
  }
}

TEST_CASE("what I carries to W is held between them") {
  const Bytes bytes(7000);
  const auto effect = [](const char* schedule, ActionKind kind, Bytes carried) {
    const Plan plan = plan_of({2}, 4, 2, schedule, Method::Sync);
    Profile profile = chain(4);
    profile.sizes[1][3].carried = carried;
    return effect_of(lower(plan, profile).value(), 1, kind);
  };
  const auto net = [](const Effect& e) { return e.allocates - e.frees; };
  const auto stays = [&](const char* schedule, ActionKind kind) {
    return net(effect(schedule, kind, bytes)) -
           net(effect(schedule, kind, Bytes(0)));
  };
  CHECK(stays("1f1b", ActionKind::Backward) == Bytes(0));
  CHECK(stays("zb-h1", ActionKind::BackwardInput) == bytes);
  CHECK(stays("zb-h1", ActionKind::BackwardWeight) == Bytes(0) - bytes);
  // And the gradient that layer 3 makes.
  CHECK(effect("1f1b", ActionKind::Backward, bytes).allocates ==
        bytes + Bytes(100));
}

TEST_CASE("plans that do not fit their model are refused") {
  const auto message = [](const Plan& plan) {
    return lower(plan, chain(4)).error().to_text();
  };
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.stages[1].forward.pop_back();
  CHECK(message(plan).find("layer 3 (layer3) has its forward in no stage") !=
        std::string::npos);
  plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  std::swap(plan.stages[0].backward, plan.stages[1].backward);
  CHECK(message(plan).find("earlier stage") != std::string::npos);
  plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.minibatch = 3;
  CHECK(message(plan).find("microbatches") != std::string::npos);
}

TEST_CASE("stages that share workers share their slices") {
  ScheduleRequest request;
  request.workers = 1;
  request.microbatches = 2;
  request.stages_per_worker = 2;
  Plan plan = plan_of_schedule(
      *with_replicas(*generate_schedule("interleaved", request), {2},
                     Replication::Split),
      Method::Sync, Replication::Split);
  CHECK(lower(plan, chain(2)).ok());
  std::swap(plan.stages[1].workers[0], plan.stages[1].workers[1]);
  CHECK(lower(plan, chain(2))
            .error()
            .to_text()
            .find("others of its other stages") != std::string::npos);
}

TEST_CASE("replicas split every microbatch or take turns, not some of each") {
  ScheduleRequest request;
  request.workers = 3;
  request.microbatches = 4;
  const Schedule chimera = *generate_schedule("chimera", request);
  CHECK(lower(plan_of_schedule(chimera, Method::Sync, Replication::Rotate),
              chain(3))
            .ok());
  // Two workers take turns at stages 0 and 2, and two split stage 1.
  const Schedule both = *with_replicas(chimera, {1, 2, 1}, Replication::Split);
  for (const Replication replication :
       {Replication::Split, Replication::Rotate})
    CHECK(lower(plan_of_schedule(both, Method::Sync, replication), chain(3))
              .error()
              .to_text()
              .find("workers run microbatch") != std::string::npos);
}

TEST_CASE("a plan file reads back as the same plan") {
  Plan plan = plan_of({2}, 4, 2, "1f1b", Method::Sync);
  plan.stages[0].backward = {LayerId(0)};
  plan.stages[1].backward = {LayerId(1), LayerId(2), LayerId(3)};
  const std::string text = to_json(plan).to_text();
  Result<Plan> again = parse_plan(text, "plan.json");
  REQUIRE(again);
  CHECK(again->stages == plan.stages);
  CHECK(again->schedule == plan.schedule);
  CHECK(to_json(*again).to_text() == text);
}

}  // namespace pipewright
