// The families of the zoo, one file each. For zoo.cc, which lists them, and for
// those files.

#pragma once

#include <vector>

#include "pipewright/model/zoo/zoo_entry.h"

namespace pipewright {

std::vector<ZooEntry> mlp_family();
std::vector<ZooEntry> lenet_family();
std::vector<ZooEntry> alexnet_family();
std::vector<ZooEntry> vgg_family();
std::vector<ZooEntry> resnet_family();
std::vector<ZooEntry> squeezenet_family();
std::vector<ZooEntry> densenet_family();
std::vector<ZooEntry> inception_family();
std::vector<ZooEntry> gnmt_family();
std::vector<ZooEntry> transformer_family();
std::vector<ZooEntry> bert_family();
std::vector<ZooEntry> gpt_family();

}  // namespace pipewright
