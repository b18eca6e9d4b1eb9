// The list of generators, and the checks of requests to all of them.

#include <algorithm>

#include "pipewright/base/index.h"
#include "pipewright/base/text.h"
#include "pipewright/profile/profile.h"
#include "pipewright/schedules/generators.h"
#include "pipewright/schedules/makespan.h"

namespace pipewright {
namespace {

// An action has sixteen bytes. Larger schedules are asked for by mistake.
constexpr std::int64_t kMaxActions = 32'000'000;

std::vector<ScheduleGenerator> all_generators() {
  return {
      gpipe(),         one_f_one_b(), one_f_one_b_so(), fbp(),
      interleaved(),   looped_bfs(),  zb_h1(),          zb_h2(),
      zb_v(),          v_half(),      v_min(),          dualpipev(),
      zero_bubble(),   chimera(),     hanayo(),         async_1f1b(),
      async_1f1b_so(), async_deep(),  spp_pe(),         spp_pe_capped(),
  };
}

bool is_time(Seconds seconds) {
  return seconds >= Seconds(0) && seconds <= kMaxTime;
}

Result<void> check_times(const ScheduleRequest& request) {
  for (const ScheduleRequest::StageTimes& t : request.times)
    if (!is_time(t.forward) || !is_time(t.backward_input) ||
        !is_time(t.backward_weight))
      return bad_configuration("times must be from 0 to " + to_text(kMaxTime));
  if (!is_time(request.transfer))
    return bad_configuration("the transfer time must be from 0 to " +
                             to_text(kMaxTime));
  for (double limit : request.memory_limit)
    if (!(limit > 0))
      return bad_configuration("the memory limit must be positive, not " +
                               to_text(limit));
  return {};
}

Result<void> check_numbers(const ScheduleRequest& request) {
  struct Number {
    int value;
    const char* name;
  };
  double actions = 3;
  for (const Number& number :
       {Number{request.workers, "workers"},
        Number{request.microbatches, "microbatches"},
        Number{request.stages_per_worker, "stages per worker"}}) {
    if (number.value < 1)
      return bad_configuration("the number of " + std::string(number.name) +
                               " must be at least 1, not " +
                               std::to_string(number.value));
    actions *= number.value;
  }
  if (actions > static_cast<double>(kMaxActions))
    return bad_configuration(
        "the schedule would have about " + to_text(actions) +
            " actions, more than " + with_thousands(kMaxActions),
        "use fewer microbatches, workers or stages per worker");
  return check_times(request);
}

Result<void> check_memory(const Schedule& schedule,
                          const ScheduleRequest& request) {
  if (request.memory_limit.empty()) return {};
  for (int w = 0; w < schedule.num_workers(); ++w) {
    const int peak = peak_activations(schedule, WorkerId(w));
    const double limit = request.memory_limit[at(w)];
    if (peak > limit)
      return bad_configuration("worker " + std::to_string(w) + " would hold " +
                                   std::to_string(peak) +
                                   " activations, the limit is " +
                                   to_text(limit),
                               "spp-pe-capped and zero-bubble keep a limit");
  }
  return {};
}

Result<Schedule> generate(const ScheduleGenerator& generator,
                          ScheduleRequest request) {
  if (auto checked = check_numbers(request); !checked) return checked.error();
  const std::size_t workers = at(request.workers);
  if (request.memory_limit.size() == 1)
    request.memory_limit.resize(workers, request.memory_limit[0]);
  if (!request.memory_limit.empty() && request.memory_limit.size() != workers)
    return bad_configuration(std::to_string(request.memory_limit.size()) +
                                 " memory limits for " +
                                 std::to_string(workers) + " workers",
                             "give one per worker, or one for all");
  auto schedule = generator.generate(request);
  if (!schedule) return schedule;
  if (auto fits = check_memory(*schedule, request); !fits) return fits.error();
  return schedule;
}

}  // namespace

const std::vector<ScheduleGenerator>& schedule_generators() {
  static const std::vector<ScheduleGenerator> generators = all_generators();
  return generators;
}

Result<Schedule> generate_schedule(const std::string& name,
                                   const ScheduleRequest& request) {
  // An older name of async-deep.
  if (name == "async-chunks") return generate_schedule("async-deep", request);
  std::vector<std::string> names;
  for (const ScheduleGenerator& generator : schedule_generators()) {
    if (generator.name == name) return generate(generator, request);
    names.push_back(generator.name);
  }
  return bad_configuration("unknown schedule \"" + name + "\"",
                           suggestion(name, names));
}

}  // namespace pipewright
