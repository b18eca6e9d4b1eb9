// pipewright env: versions and machine, pasteable into a report.

#include <sys/utsname.h>
#include <unistd.h>

#include <iostream>
#include <thread>

#include "cli/command.h"
#include "cli/runtime_link.h"
#include "pipewright/base/text.h"

namespace pipewright::cli {
namespace {

Json gpus_json(const GpuReport& report) {
  if (report.gpus.empty()) return "none: " + report.why_none;
  Json list = Json::array();
  for (const Gpu& gpu : report.gpus) {
    Json json = Json::object();
    json.set("name", gpu.name).set("memory_bytes", gpu.memory.value());
    json.set("sms", gpu.num_sms).set("capability", gpu.capability);
    Json peers = Json::array();
    for (const int peer : gpu.peers) peers.push(peer);
    json.set("peers", std::move(peers));
    list.push(std::move(json));
  }
  return list;
}

Json environment() {
  utsname system{};
  ::uname(&system);
  const auto pages = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES));
  const auto page = static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  Json json = Json::object();
  json.set("pipewright", PIPEWRIGHT_VERSION);
  json.set("compiler", __VERSION__);
  json.set("libtorch", libtorch());
  json.set("mpi", mpi());
  if (mpi() != "none") json.set("mpi_threads", mpi_threads());
  json.set("system", std::string(system.sysname) + " " + system.release + " " +
                         system.machine);
  json.set("cores", static_cast<int>(std::thread::hardware_concurrency()));
  json.set("memory_bytes", pages * page);
  const GpuReport report = gpus();
  json.set("gpus", gpus_json(report));
  if (!report.runtime.empty()) json.set("cuda", report.runtime);
  if (!report.driver.empty()) json.set("driver", report.driver);
  if (!report.nccl.empty()) json.set("nccl", report.nccl);
  return json;
}

}  // namespace

void add_env(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "env", "Print versions, cores and devices, for a bug report");
  auto output = std::make_shared<Output>();
  add_output_options(*command, *output);
  command->callback([output, &exit] {
    enter_runtime(exit.arguments);  // it knows its versions
    Json json = environment();
    if (output->json) {
      std::cout << json.to_text();
      return;
    }
    for (const auto& [name, value] : *json.if_object())
      std::cout << name << ": "
                << (value.if_string() ? *value.if_string() : value.to_line())
                << "\n";
  });
}

}  // namespace pipewright::cli
