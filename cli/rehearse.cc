// pipewright rehearse: if a host dies, what training would go on with, and what
// would be lost. The answer for each host is what `train --elastic` then does.

#include <algorithm>
#include <iostream>
#include <set>

#include "cli/command.h"
#include "cli/number_in.h"
#include "cli/plan/replanning.h"
#include "cli/plan/stages_text.h"
#include "cli/simulate/lowered_plan.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/cluster/equal_hosts.h"
#include "pipewright/cluster/part_of_cluster.h"
#include "pipewright/estimate/estimator.h"

namespace pipewright::cli {
namespace {

struct RehearsalOptions {
  std::string plan;
  PlanInputs inputs;
  ReplanningOptions replanning;
  std::int64_t checkpoint_every = 100;
  Output output;
};

// The loss of one host.
struct Loss {
  std::vector<std::string> devices;  // the names of those that are lost
  std::string name;                  // of the host, or of its devices
  Result<Replanned> replanned = bad_configuration("no host is left");
  std::string stages;  // of the new plan
};

struct Rehearsal {
  Seconds step;  // of the present plan, as the next two
  int microbatch = 0;
  std::string stages;
  std::vector<Loss> losses;
};

// `like`: what was planned without a host that is equal; null: nothing.
Loss lost(int host, const LoweredPlan& now, const ReplanningOptions& options,
          const Result<Replanned>* like) {
  Loss loss;
  std::vector<DeviceId> gone, left;
  for (int d = 0; d < now.cluster.num_devices(); ++d) {
    const Device& device = now.cluster.devices()[DeviceId(d).index()];
    (device.host == host ? gone : left).push_back(DeviceId(d));
    if (device.host == host) loss.devices.push_back(device.name);
  }
  loss.name = devices_text(gone, now.cluster);
  if (left.empty()) return loss;
  const Result<Cluster> rest = part_of_cluster(now.cluster, left);
  if (!rest) {
    loss.replanned = rest.error();
    return loss;
  }
  loss.replanned = like ? *like : replanned(now.plan, *rest, options);
  if (loss.replanned) loss.stages = stages_text(loss.replanned->plan, *rest);
  return loss;
}

Result<Rehearsal> rehearsed(const RehearsalOptions& options) {
  PIPEWRIGHT_TRY(const LoweredPlan now,
                 load_lowered(options.plan, options.inputs));
  PIPEWRIGHT_TRY(const Estimate estimate,
                 simulating_estimator(now.profile, now.cluster)(now.plan));
  Rehearsal rehearsal{estimate.step,
                      now.plan.microbatch,
                      stages_text(now.plan, now.cluster),
                      {}};
  std::set<int> hosts;
  for (const Device& device : now.cluster.devices()) hosts.insert(device.host);
  const bool are_equal = has_equal_hosts(now.cluster);
  for (int host : hosts) {
    const bool has_like = are_equal && !rehearsal.losses.empty();
    rehearsal.losses.push_back(
        lost(host, now, options.replanning,
             has_like ? &rehearsal.losses.front().replanned : nullptr));
  }
  return rehearsal;
}

std::string change_text(Seconds step, Seconds before) {
  const double change = step / before - 1;
  return (change < 0 ? "" : "+") + percent(change);
}

// A line per host that there is a plan without.
std::string plans_table(const Rehearsal& rehearsal) {
  using Align = TextTable::Align;
  TextTable table({{"without"},
                   {"step", Align::Right},
                   {"change", Align::Right},
                   {"microbatch", Align::Right},
                   {"bits"},
                   {"then"}});
  for (const Loss& loss : rehearsal.losses) {
    if (!loss.replanned) continue;
    const Replanned& next = *loss.replanned;
    table.add_row({loss.name, to_text(next.step),
                   change_text(next.step, rehearsal.step),
                   std::to_string(next.plan.microbatch),
                   next.keeps_bits ? "same" : "other", loss.stages});
  }
  constexpr int kNothingIsShortened = 1 << 20;
  return table.has_rows() ? table.to_text(kNothingIsShortened) : "";
}

Seconds longest_planning(const Rehearsal& rehearsal) {
  Seconds longest;
  for (const Loss& loss : rehearsal.losses)
    if (loss.replanned) longest = std::max(longest, loss.replanned->planning);
  return longest;
}

void print_rehearsal(const Rehearsal& rehearsal, std::int64_t every) {
  std::cout << "now: step " << to_text(rehearsal.step) << ", microbatch "
            << rehearsal.microbatch << ", " << rehearsal.stages << "\n"
            << "if a host dies: at most " << counted(every, "step")
            << " are lost, "
            << to_text(rehearsal.step * static_cast<double>(every));
  if (const std::string table = plans_table(rehearsal); !table.empty())
    std::cout << ", and the next plan is planned in "
              << to_text(longest_planning(rehearsal)) << " at most\n\n"
              << table;
  else
    std::cout << "\n";
  for (const Loss& loss : rehearsal.losses)
    if (!loss.replanned)
      std::cout << "without " << loss.name
                << ": no plan: " << loss.replanned.error().to_text() << "\n";
}

Json rehearsal_json(const Rehearsal& rehearsal, std::int64_t every) {
  Json hosts = Json::array();
  for (const Loss& loss : rehearsal.losses) {
    Json devices = Json::array();
    for (const std::string& name : loss.devices) devices.push(name);
    Json row = Json::object();
    row.set("lost_devices", std::move(devices));
    if (!loss.replanned) {
      row.set("refused", loss.replanned.error().to_text());
    } else {
      row.set("step_seconds", loss.replanned->step.value());
      row.set("planning_seconds", loss.replanned->planning.value());
      row.set("keeps_microbatch", loss.replanned->keeps_microbatch);
      row.set("keeps_bits", loss.replanned->keeps_bits);
      row.set("plan", to_json(loss.replanned->plan));
    }
    hosts.push(std::move(row));
  }
  Json json = Json::object();
  json.set("step_seconds", rehearsal.step.value());
  json.set("lost_steps", every);
  json.set("hosts", std::move(hosts));
  return json;
}

void run_rehearse(const RehearsalOptions& options, Exit& exit) {
  const Result<Rehearsal> rehearsal = rehearsed(options);
  if (!rehearsal) return report(rehearsal.error(), exit);
  if (options.output.json)
    std::cout << rehearsal_json(*rehearsal, options.checkpoint_every).to_text();
  else
    print_rehearsal(*rehearsal, options.checkpoint_every);
}

}  // namespace

void add_rehearse(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "rehearse",
      "Show the plan to go on with if a host dies, and what is lost");
  auto options = std::make_shared<RehearsalOptions>();
  command->add_option("PLAN", options->plan, "Plan file")->required();
  command
      ->add_option("--cluster", options->inputs.cluster,
                   "Cluster that the plan is for")
      ->required();
  command->add_option("--profile", options->inputs.profile,
                      "Profile file with the costs; default: estimated");
  command
      ->add_option("--checkpoint-every", options->checkpoint_every,
                   "Steps between checkpoints")
      ->capture_default_str()
      ->check(integer_in(1, std::int64_t{1} << 40));
  command
      ->add_option("--budget", options->replanning.budget,
                   "Time limit in seconds for each plan")
      ->capture_default_str()
      ->check(number_in(0.001, 1e6));
  add_output_options(*command, options->output);
  command->callback([options, &exit] {
    options->replanning.profile = options->inputs.profile;
    run_rehearse(*options, exit);
  });
}

}  // namespace pipewright::cli
