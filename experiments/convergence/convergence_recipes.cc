#include "experiments/convergence/convergence_recipes.h"

#include <algorithm>
#include <cstdlib>

#include "pipewright/base/text.h"

namespace pipewright {
namespace {

const std::vector<double> kAnnealings = {0.12, 1};
const std::string kT2 = "pipemare T2", kT3 = "pipemare T1+T2+T3",
                  kRecompute = "pipemare T1+T2+recompute";

Recipe with_arms(Recipe recipe, const std::vector<std::string>& names) {
  recipe.arms.insert(recipe.arms.end(), names.begin(), names.end());
  return recipe;
}

// Where stashing is not the question.
Recipe without_stash(Recipe recipe) {
  std::erase(recipe.arms, "stash");
  return recipe;
}

// One layer with weights per stage: convolutions and norms in turn.
Recipe convolutions(const std::string& task, int layers, int steps,
                    std::vector<double> rates) {
  Recipe recipe{task};
  recipe.blocks = (layers - 3) / 4;
  recipe.width = 6;
  recipe.steps = steps;
  recipe.rates = std::move(rates);
  recipe.annealings = kAnnealings;
  recipe.momentum = 0;
  return recipe;
}

// As deep as its number of layers with weights. How fast a delayed stage can
// learn falls with its delay, so the deepest take the most steps and the lowest
// rates.
Recipe chain(const std::string& task, int layers, int steps,
             std::vector<double> rates) {
  Recipe recipe{task, "chain"};
  recipe.blocks = layers / 3 - 1 + (layers % 3 > 0);
  recipe.width = 32;
  recipe.depths = {layers};
  recipe.steps = steps;
  recipe.trial = 0.5;
  recipe.rates = std::move(rates);
  recipe.annealings = kAnnealings;
  recipe.momentum = 0;
  return recipe;
}

Recipe deep(int layers, int steps, std::vector<double> rates) {
  return chain("deep-" + std::to_string(layers), layers, steps,
               std::move(rates));
}

// The same rate for all: naive training fails at it, PipeMare does not.
Recipe floor_task() {
  Recipe recipe = chain("floor", 32, 300, {0.4});
  recipe.trial = 1;
  recipe.annealings = {1};
  recipe.arms = {"sync", "naive", "pipemare T1+T2"};
  return recipe;
}

Recipe digits() {
  Recipe recipe{"digits"};
  recipe.blocks = 2;
  recipe.width = 6;
  recipe.steps = 300;
  recipe.rates = {0.05, 0.02, 0.01};
  return with_arms(recipe, {"2bw"});
}

Recipe fashion() {
  Recipe recipe{"fashion-mnist", "cnn", "fashion-mnist"};
  recipe.patch = 4;
  recipe.blocks = 4;
  recipe.width = 8;
  recipe.steps = 1200;
  recipe.trial = 0.5;
  recipe.rates = {0.03, 0.01, 0.003};
  recipe.tested_samples = 5000;
  return with_arms(recipe, {"2bw"});
}

Recipe translation() {
  Recipe recipe{"translation", "transformer", "trans-de-en"};
  recipe.blocks = 1;
  recipe.width = 32;
  recipe.steps = 1000;
  recipe.trial = 0.5;
  recipe.rates = {0.03, 0.01, 0.003};
  recipe.optimizer = "adam";
  recipe.momentum = 0;
  recipe.ramp = 0.05;
  recipe.tested_samples = 1000;
  return with_arms(recipe, {"2bw", kT3});
}

// Characters of a novel, the next one after sixteen.
Recipe text() {
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  Recipe recipe{"text-19", "gpt",
                "chars:" + std::string(folder ? folder : "../shared/data") +
                    "/moby-dick/data.txt"};
  recipe.blocks = 3;
  recipe.width = 32;
  recipe.depths = {19};
  recipe.steps = 800;
  recipe.rates = {0.01, 0.003, 0.001};
  recipe.annealings = kAnnealings;
  recipe.optimizer = "adam";
  recipe.ramp = 0.05;
  recipe.seeds = 2;
  recipe.tested_samples = 1000;
  return without_stash(with_arms(recipe, {kT3}));
}

Recipe batch_norm() {
  Recipe recipe = convolutions("batchnorm-107", 107, 1200, {0.1, 0.05, 0.02});
  recipe.patch = 2;
  recipe.trial = 0.5;
  recipe.seeds = 2;
  return without_stash(recipe);
}

Recipe adam(Recipe recipe) {
  recipe.optimizer = "adam";
  recipe.momentum = 0.9;
  recipe.ramp = 0.05;
  return without_stash(with_arms(recipe, {kT3}));
}

Recipe momentum(Recipe recipe) {
  recipe.momentum = 0.9;
  return without_stash(with_arms(recipe, {kT3}));
}

Recipe with_seeds(Recipe recipe, int seeds) {
  recipe.seeds = seeds;
  return recipe;
}

// Stages of the paper's machine run a forward and a backward at a time, which
// doubles delays: with eight microbatches they are (2 (P - i) + 1) / 8 steps,
// and those of our 1F1B with four are (P - i) / 4.
Recipe delays_of_paper() {
  return with_seeds(
      without_stash(chain("delays-150", 150, 4000, {0.1, 0.03, 0.01})), 2);
}

// Eight microbatches halve the delays of four.
Recipe deepest() {
  Recipe recipe = deep(150, 3000, {0.2, 0.05, 0.01});
  recipe.microbatch = 8;
  return recipe;
}

// The paper's ResNet-50, one layer with weights per stage: 53 convolutions, as
// many batch norms and a linear layer. Four microbatches, for the delays of the
// paper's machine with eight, as in delays_of_paper().
Recipe resnet() {
  Recipe recipe{"resnet50-107", "resnet50", "fashion-mnist"};
  recipe.steps = 600;
  recipe.rates = {0.1, 0.03, 0.01, 0.003};
  recipe.annealings = {1};
  recipe.momentum = 0;
  recipe.tested_samples = 12000;
  return with_arms(recipe, {kT3});
}

Result<std::vector<double>> numbers(std::string_view text) {
  std::vector<double> all;
  for (const std::string_view part : split(text, ',')) {
    const auto number = parse_real(part);
    if (!number || !(*number >= 0 && *number < 1e9))
      return bad_configuration("\"" + std::string(part) + "\" is not a number");
    all.push_back(*number);
  }
  return all;
}

}  // namespace

std::vector<Recipe> quick_recipes() { return {floor_task()}; }

std::vector<Recipe> gpu_recipes() { return {resnet()}; }

std::vector<Recipe> recipes() {
  const std::vector<std::string> techniques = {kT2, kT3, kRecompute};
  return {
      digits(),
      fashion(),
      translation(),
      deep(8, 1000, {0.2, 0.05, 0.01}),
      with_arms(deep(32, 2000, {0.4, 0.2, 0.05, 0.01}), techniques),
      with_arms(deep(107, 3500, {0.2, 0.05, 0.01}), techniques),
      deepest(),
      delays_of_paper(),
      with_arms(convolutions("batchnorm-31", 31, 400, {0.1, 0.05, 0.02}),
                techniques),
      batch_norm(),
      with_arms(
          momentum(convolutions("momentum-19", 19, 600, {0.05, 0.02, 0.005})),
          {kT2}),
      with_arms(adam(convolutions("adam-19", 19, 600, {0.01, 0.003, 0.001})),
                {kT2}),
      text(),
      with_seeds(
          momentum(chain("momentum-107", 107, 3500, {0.01, 0.003, 0.001})), 2),
      with_seeds(adam(chain("adam-107", 107, 2500, {0.003, 0.001, 0.0003})),
                 2)};
}

Result<void> change(Recipe& recipe, const std::string& text) {
  const std::size_t equals = text.find('=');
  const std::string key = text.substr(0, equals);
  PIPEWRIGHT_TRY(
      const std::vector<double> values,
      numbers(equals == std::string::npos ? "" : text.substr(equals + 1)));
  const std::vector<std::pair<std::string, int*>> counts = {
      {"blocks", &recipe.blocks},         {"patch", &recipe.patch},
      {"width", &recipe.width},           {"minibatch", &recipe.minibatch},
      {"microbatch", &recipe.microbatch}, {"steps", &recipe.steps},
      {"tested", &recipe.tested_samples}, {"seeds", &recipe.seeds}};
  const std::vector<std::pair<std::string, double*>> shares = {
      {"momentum", &recipe.momentum},
      {"ramp", &recipe.ramp},
      {"decay", &recipe.decay},
      {"trial", &recipe.trial},
      {"warm-up", &recipe.warm_up}};
  const std::vector<std::pair<std::string, std::vector<double>*>> lists = {
      {"rates", &recipe.rates}, {"annealings", &recipe.annealings}};
  for (const auto& [name, place] : counts)
    if (name == key) {
      *place = std::max(1, static_cast<int>(values.front()));
      return {};
    }
  for (const auto& [name, place] : shares)
    if (name == key) {
      *place = values.front();
      return {};
    }
  for (const auto& [name, place] : lists)
    if (name == key) {
      *place = values;
      return {};
    }
  if (key == "depths") {
    recipe.depths.assign(values.begin(), values.end());
    return {};
  }
  return bad_configuration("--set does not know \"" + key + "\"");
}

}  // namespace pipewright
