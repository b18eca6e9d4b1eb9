// pipewright models: lists the zoo, or the layers of one model.

#include <iostream>

#include "cli/command.h"
#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"
#include "pipewright/model/cuts.h"
#include "pipewright/model/kinds.h"
#include "pipewright/model/model_file.h"
#include "pipewright/model/repeats.h"
#include "pipewright/model/zoo/zoo.h"

namespace pipewright::cli {
namespace {

using Column = TextTable::Column;
constexpr auto kRight = TextTable::Align::Right;
constexpr const char* kSettingsOfAll =
    "type=float32, split=LAYER@OUTPUTS[+...]: such a linear or conv2d is two "
    "layers and a join";

Flops forward_flops(const Model& model) {
  Flops total;
  for (LayerId layer : model_order(model))
    total += layer_cost(model, layer).forward;
  return total;
}

// "image=224", or only "image" if the entries have different defaults.
std::string settings_text(const std::vector<const ZooEntry*>& entries) {
  std::string text;
  for (const SettingRule& rule : entries.front()->settings) {
    if (rule.name == "type" || rule.name == "split") continue;
    bool same = rule.fallback.has_value();
    for (const ZooEntry* entry : entries)
      same = same &&
             find_rule(entry->settings, rule.name)->fallback == rule.fallback;
    text += (text.empty() ? "" : ", ") + rule.name;
    if (same) text += "=" + setting_text(*rule.fallback);
  }
  return text;
}

// One line for consecutive entries that have the same settings.
void print_settings(std::ostream& out) {
  std::vector<const ZooEntry*> group;
  const auto flush = [&] {
    std::string names;
    for (const ZooEntry* entry : group)
      names += (names.empty() ? "" : ", ") + entry->name;
    if (!group.empty())
      out << "  " << names << ":\n      " << settings_text(group) << "\n";
    group.clear();
  };
  for (const ZooEntry& entry : zoo()) {
    if (!group.empty() &&
        rule_names(group.front()->settings) != rule_names(entry.settings))
      flush();
    group.push_back(&entry);
  }
  flush();
}

Result<void> print_zoo(const Output& output) {
  TextTable table({{"model"},
                   {"description"},
                   {"layers", kRight},
                   {"parameters", kRight},
                   {"forward/sample", kRight}});
  Json list = Json::array();
  for (const ZooEntry& entry : zoo()) {
    PIPEWRIGHT_TRY(const Model model, zoo_model(entry.name));
    const Flops flops = forward_flops(model);
    table.add_row({entry.name, entry.meaning,
                   std::to_string(model.num_layers()),
                   with_thousands(model.num_parameters()), to_text(flops)});
    Json json = Json::object();
    json.set("name", entry.name).set("what", entry.meaning);
    json.set("layers", model.num_layers());
    json.set("parameters", model.num_parameters());
    json.set("forward_flops", flops.value());
    Json settings = Json::array();
    for (const SettingRule& rule : entry.settings) settings.push(rule.name);
    json.set("settings", std::move(settings));
    list.push(std::move(json));
  }
  if (output.json) {
    std::cout << Json::object().set("models", std::move(list)).to_text();
    return {};
  }
  std::cout << table.to_text(output.width)
            << "\nSettings with defaults, used as in "
               "gpt:layers=24,hidden=1024:\n";
  print_settings(std::cout);
  std::cout << "  all models:\n      " << kSettingsOfAll
            << "\n\n"
               "A model can also be a file: `pipewright models MODEL --json` "
               "prints one to start from.\n";
  return {};
}

// The table of one model's layers.
class LayerTable {
 public:
  explicit LayerTable(const Model& model)
      : model_(model),
        kept_(added_kept_sizes(model, model_order(model))),
        cuts_(cut_sizes(model)),
        table_({{"layer"},
                {"kind"},
                {"output"},
                {"parameters", kRight},
                {"forward", kRight},
                {"kept", kRight},
                {"cut after", kRight}}) {}

  void add(int index, const std::string& indent = "") {
    const Layer& layer = model_.layer(LayerId(index));
    const LayerCost cost = layer_cost(model_, LayerId(index));
    std::int64_t parameters = 0;
    bool shares = false;
    for (std::size_t p = 0; p < layer.parameters.size(); ++p) {
      parameters += num_elements(model_.parameter(layer.parameters[p]).shape);
      shares = shares || !owns_parameter(model_, layer, p);
    }
    table_.add_row(
        {indent + (indent.empty() ? layer.name : local_name(layer)),
         to_text(layer.kind), to_text(layer.output),
         parameters == 0
             ? ""
             : (shares ? "(shared) " : "") + with_thousands(parameters),
         cost.forward.value() == 0 ? "" : to_text(cost.forward),
         bytes_text(kept_[index]), bytes_text(cuts_[index + 1].forward)});
  }

  void add_blocks(const BlockRun& run) {
    table_.add_row({run.stem + std::to_string(run.start) + " to " +
                    std::to_string(run.start + run.count - 1) + ", each:"});
    for (int l = 0; l < run.length; ++l) add(run.first + l, "  ");
  }

  std::string to_text_with_total(int width) {
    Size kept;
    for (const Size& size : kept_) kept += size;
    table_.add_rule();
    table_.add_row({std::to_string(model_.num_layers()) + " layers", "", "",
                    with_thousands(model_.num_parameters()),
                    to_text(forward_flops(model_)), bytes_text(kept)});
    return table_.to_text(width);
  }

 private:
  static std::string bytes_text(const Size& size) {
    return size == Size{} ? "" : to_text(size.at(1));
  }

  const Model& model_;
  std::vector<Size> kept_;
  std::vector<Crossing> cuts_;
  TextTable table_;
};

// What can be set in the zoo model of this text, or nothing of a file.
void print_settings_of(const std::string& text) {
  const std::string name = text.substr(0, text.find(':'));
  const ZooEntry* entry = find_zoo_entry(name);
  if (!entry) return;
  const std::string own = settings_text({entry});
  std::cout << "\nSettings with defaults, used as in " << name
            << ":type=float16:\n  " << own << (own.empty() ? "" : "\n  ")
            << kSettingsOfAll << "\n";
}

void print_model(const Model& model, bool all, const Output& output) {
  std::cout << model.name() << "\n";
  for (const ModelInput& input : model.inputs())
    std::cout << "  input " << input.name << ": " << to_text(input.shape) << " "
              << to_text(input.type) << "\n";
  LayerTable table(model);
  std::vector<BlockRun> runs;
  if (!all) runs = repeated_blocks(model);
  auto run = runs.begin();
  for (int l = 0; l < model.num_layers();) {
    if (run != runs.end() && run->first == l) {
      table.add_blocks(*run);
      l = (run++)->end();
    } else {
      table.add(l++);
    }
  }
  std::cout << "\n" << table.to_text_with_total(output.width);
  std::cout << "\nFor one sample. kept: for backward, in addition to what the "
               "layers above keep;\ncut after: what a cut after the layer "
               "sends to the next stage.";
  if (!runs.empty())
    std::cout << "\nEqual blocks are shown once; --all shows each.";
  std::cout << "\n";
}

}  // namespace

void add_models(CLI::App& app, Exit& exit) {
  CLI::App* command = app.add_subcommand(
      "models", "List the model zoo, or the layers of one model");
  struct Options {
    Output output;
    std::string model;
    bool all = false;
  };
  auto options = std::make_shared<Options>();
  command->add_option("MODEL", options->model,
                      "Model of the zoo with settings, such as gpt:layers=12, "
                      "or a model file. Without it, list the zoo");
  command->add_flag("--all", options->all,
                    "Show every layer of repeated blocks");
  add_output_options(*command, options->output);
  command->callback([options, &exit, command] {
    if (command->count("MODEL") == 0) {
      if (auto done = print_zoo(options->output); !done)
        report(done.error(), exit);
      return;
    }
    auto model = load_model(options->model);
    if (!model) return report(model.error(), exit);
    if (options->output.json)
      std::cout << to_text(*model);
    else
      print_model(*model, options->all, options->output);
    if (!options->output.json) print_settings_of(options->model);
  });
}

}  // namespace pipewright::cli
