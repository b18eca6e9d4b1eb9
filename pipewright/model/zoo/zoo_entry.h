// One model of the zoo: its name, its settings, and the function that draws it.

#pragma once

#include <string>
#include <vector>

#include "pipewright/model/setting.h"

namespace pipewright {

class Sketch;

struct ZooEntry {
  std::string name;
  std::string meaning;  // one line for `pipewright models`, with the source
  std::vector<SettingRule> settings;
  void (*draw)(Sketch& sketch, const Attributes& settings);
};

}  // namespace pipewright
