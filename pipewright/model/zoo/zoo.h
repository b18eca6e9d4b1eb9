// The zoo: known architectures by name, with settings.
//
//   gpt:layers=12,hidden=768      name, then settings that differ from defaults
//
// A family (vgg, resnet, bert, ...) is one file, which lists its entries, and
// one line in zoo.cc.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/model/setting.h"

namespace pipewright {

class Sketch;

struct ZooEntry {
  std::string name;
  std::string meaning;  // a line for people, with the source of the shapes
  std::vector<SettingRule> settings;
  void (*draw)(Sketch& sketch, const Attributes& settings);
};

// All entries, each also with the setting "type" (of its numbers).
const std::vector<ZooEntry>& zoo();
const ZooEntry* find_zoo_entry(std::string_view name);

// The model of "name:key=value,..."; its name is that text, less what is
// default. Fails with BadConfiguration: an unknown name or setting with the
// nearest known one, settings that do not fit one another.
Result<Model> zoo_model(std::string_view text);

}  // namespace pipewright
