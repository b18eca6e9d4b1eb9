// The zoo: known architectures by name, with settings.
//
//   gpt:layers=12,hidden=768      name, then settings that differ from defaults
//
// To add a family (vgg, resnet, bert, ...), write one file that lists its
// entries, and add one line to families.h and to zoo.cc.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"
#include "pipewright/model/model.h"
#include "pipewright/model/split_layers.h"
#include "pipewright/model/zoo/zoo_entry.h"

namespace pipewright {

// All entries. Each has the settings "type" (the number type) and "split"
// (split_layers.h) as well.
const std::vector<ZooEntry>& zoo();
const ZooEntry* find_zoo_entry(std::string_view name);

// The model of "name:key=value,..."; its name is that text without settings
// that equal the default. Fails with BadConfiguration: an unknown name or
// setting (the nearest one is offered), settings that do not fit each other.
Result<Model> zoo_model(std::string_view text);

// The text of a model with more layers split: "mlp:hidden=64" becomes
// "mlp:hidden=64,split=output@4", a file "mine.json:split=output@4".
std::string with_splits(std::string text,
                        const std::vector<LayerSplit>& splits);

}  // namespace pipewright
