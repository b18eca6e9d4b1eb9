// Checkpoints: what is written is read, and what was cut off or altered is
// refused by name.

#include "pipewright/runtime/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "pipewright/runtime/checkpoint/safetensors.h"
#include "pipewright/runtime/execution/executor.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

NamedTensors some_tensors() {
  return {{"a", at::arange(6, at::kFloat).view({2, 3})},
          {"b", at::arange(3, at::kLong)},
          {"c", at::full({}, 0.5, at::kDouble)},
          {"d", at::zeros({0, 4})},
          {"e", at::arange(4, at::kByte).view({2, 2}).t()}};
}

TEST_CASE("safetensors: what is written is read") {
  const std::string bytes = to_safetensors(some_tensors());
  const NamedTensors read = parse_safetensors(bytes, "x").value();
  REQUIRE(read.size() == 5);
  for (const auto& [name, tensor] : some_tensors()) {
    CAPTURE(name);
    CHECK(read.at(name).equal(tensor));
    CHECK((read.at(name).scalar_type() == tensor.scalar_type()));
  }
  CHECK(parse_safetensors(to_safetensors({}), "x").value().empty());
}

TEST_CASE("safetensors: the bytes are as the format says") {
  const std::string bytes =
      to_safetensors({{"w", at::full({1}, 1.0, at::kFloat)}});
  const std::size_t length = bytes[0];
  CHECK(length % 8 == 0);
  CHECK(bytes.substr(8, length).find("\"dtype\"") != std::string::npos);
  CHECK(bytes.substr(8, length).find("\"F32\"") != std::string::npos);
  CHECK(bytes.size() == 8 + length + 4);
  CHECK((bytes.substr(8 + length) == std::string("\0\0\x80\x3f", 4)));
}

TEST_CASE("safetensors: every cut and every longer file is refused") {
  const std::string bytes = to_safetensors(some_tensors());
  for (std::size_t n = 0; n < bytes.size(); ++n)
    CHECK(!parse_safetensors(bytes.substr(0, n), "x").ok());
  CHECK(!parse_safetensors(bytes + "x", "x").ok());
  std::string huge = bytes;
  huge[7] = '\x7f';
  CHECK(!parse_safetensors(huge, "x").ok());
  for (std::size_t i = 8; i < 200; ++i) {  // any answer but a crash
    std::string altered = bytes;
    altered[i] = static_cast<char>(altered[i] + 1);
    static_cast<void>(parse_safetensors(altered, "x").ok());
  }
}

TrainingState state_of(const Model& model) {
  const TrainRequest request = request_for(model, "1f1b", 2, 2, "");
  TrainingSettings settings = settings_for_tests();
  Executor executor(model, request.program, settings);
  REQUIRE(executor.run(random_source(model, 4), 3).ok());
  return executor.state();
}

const CheckpointOrigin kOrigin = {"cnn", "synthetic", "sgd", 3, 8};

TEST_CASE("a checkpoint is read as it was written") {
  const TemporaryFolder folder("checkpoint");
  for (const Model& model : {small_cnn(), small_gpt()}) {
    fs::remove_all(folder.path() / "checkpoints");
    const TrainingState state = state_of(model);
    REQUIRE(write_checkpoint(folder.path(), model, kOrigin, state).ok());
    const TrainingState read =
        read_checkpoint(folder.path(), model, kOrigin).value();
    CHECK(read.minibatches == 3);
    for (std::size_t i = 0; i < state.parameters.size(); ++i) {
      CHECK(read.parameters[i].equal(state.parameters[i]));
      REQUIRE(read.optimizer[i].size() == 1);
      CHECK(read.optimizer[i][0].equal(state.optimizer[i][0]));
    }
    for (std::size_t l = 0; l < state.statistics.size(); ++l) {
      REQUIRE(read.statistics[l].size() == state.statistics[l].size());
      for (std::size_t i = 0; i < state.statistics[l].size(); ++i)
        CHECK(read.statistics[l][i].equal(state.statistics[l][i]));
    }
  }
}

TEST_CASE("cut off, altered or missing files are refused by name") {
  const TemporaryFolder folder("altered");
  const Model model = small_cnn();
  TrainingState state = state_of(model);
  const fs::path oldest =
      write_checkpoint(folder.path(), model, kOrigin, state).value();
  state.minibatches = 4;
  const fs::path newest =
      write_checkpoint(folder.path(), model, kOrigin, state).value();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(newest))
    files.push_back(entry.path());
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    std::ostringstream text;
    text << std::ifstream(file, std::ios::binary).rdbuf();
    const std::string good = text.str();
    const auto names_file = [&](const Error& error) {
      CHECK(error.code == ErrorCode::MalformedInput);
      CHECK(error.to_text().find(file.string()) != std::string::npos);
    };
    const auto refused = [&] {
      std::vector<Error> skipped;
      const auto read =
          read_checkpoint(folder.path(), model, kOrigin, &skipped);
      REQUIRE(read.ok());
      CHECK(read->minibatches == 3);
      REQUIRE(skipped.size() == 1);
      names_file(skipped[0]);
      fs::rename(oldest, folder.path() / "away");
      names_file(read_checkpoint(folder.path(), model, kOrigin).error());
      fs::rename(folder.path() / "away", oldest);
    };
    std::ofstream(file, std::ios::binary) << good.substr(0, good.size() / 2);
    refused();
    if (file.extension() == ".safetensors") {
      std::string altered = good;
      altered.back() = static_cast<char>(altered.back() ^ 1);
      std::ofstream(file, std::ios::binary) << altered;
      refused();
    }
    fs::remove(file);
    refused();
    std::ofstream(file, std::ios::binary) << good;
    REQUIRE(read_checkpoint(folder.path(), model, kOrigin).ok());
  }
}

TEST_CASE("a different model, seed, data or optimizer is refused") {
  const TemporaryFolder folder("origin");
  const Model model = small_mlp();
  REQUIRE(
      write_checkpoint(folder.path(), model, kOrigin, state_of(model)).ok());
  CheckpointOrigin other = kOrigin;
  other.seed = 4;
  const auto read = read_checkpoint(folder.path(), model, other);
  REQUIRE(!read.ok());
  CHECK(read.error().code == ErrorCode::BadConfiguration);
  CHECK(read.error().message.find("\"3\"") != std::string::npos);
  CHECK(read.error().message.find("\"4\"") != std::string::npos);
  other = kOrigin;
  other.minibatch = 16;
  CHECK(!read_checkpoint(folder.path(), model, other).ok());
}

TEST_CASE("a checkpoint that was not finished does not count") {
  const TemporaryFolder folder("part");
  fs::create_directories(folder.path() / "checkpoints/step-7.part");
  CHECK(!has_checkpoint(folder.path()));
  CHECK(read_checkpoint(folder.path(), small_mlp(), kOrigin).error().code ==
        ErrorCode::MissingInput);
}

}  // namespace
}  // namespace pipewright
