#include "pipewright/profile/formats/import_usage.h"

namespace pipewright {
namespace {

std::string import_line(const SourceFile& file, const std::string& more) {
  return "pipewright import " + file.name + (more.empty() ? "" : " " + more);
}

}  // namespace

// The names are not those of the source's own files.
std::string plan_usage(const SourceFile& file, const std::string& more) {
  return import_line(file, more) +
         " -o our-profile.json --plan our-plan.json --cluster "
         "our-cluster.json makes files for this command";
}

std::string profile_usage(const SourceFile& file, const std::string& more) {
  return "it has no plan; " + import_line(file, more) +
         " -o our-profile.json makes a profile, for pipewright plan --profile";
}

std::string printed_usage(const SourceFile& file, const std::string& why) {
  return import_line(file, "") + " prints what it contains; " + why;
}

}  // namespace pipewright
