// Checkpoints: what is written is read, and what was cut off or altered is
// refused by name.

#include "pipewright/runtime/checkpoint/checkpoint.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <fstream>
#include <sstream>

#include "pipewright/runtime/execution/executor.h"
#include "pipewright/runtime/safetensors/safetensors.h"
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
      CHECK(!fs::exists(newest));
      fs::rename(newest.string() + ".damaged", newest);
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

std::string bytes_of(const fs::path& file) {
  std::ostringstream text;
  text << std::ifstream(file, std::ios::binary).rdbuf();
  return text.str();
}
void put(const fs::path& file, const std::string& bytes) {
  std::ofstream(file, std::ios::binary) << bytes;
}

// The step that is read, with its parameters; 0: none.
std::int64_t step_read(const fs::path& run, const Model& model) {
  const auto read = read_checkpoint(run, model, kOrigin);
  if (!read) CHECK(read.error().code == ErrorCode::MalformedInput);
  return read ? read->minibatches : 0;
}

TEST_CASE("every flipped bit, in every file of a checkpoint, is found") {
  const TemporaryFolder folder("bits");
  const Model model = small_mlp();
  const TrainingState state = state_of(model);
  const fs::path written =
      write_checkpoint(folder.path(), model, kOrigin, state).value();
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(written))
    files.push_back(entry.path());
  int flips = 0;
  for (const fs::path& file : files) {
    CAPTURE(file.string());
    const std::string good = bytes_of(file);
    // Every bit of the manifest, and one in each sixty-fourth of the others.
    const bool is_manifest = file.filename() == "manifest.json";
    const std::size_t apart =
        is_manifest ? 1 : std::max<std::size_t>(1, good.size() * 8 / 64);
    for (std::size_t bit = 0; bit < good.size() * 8; bit += apart, ++flips) {
      std::string altered = good;
      altered[bit / 8] = static_cast<char>(altered[bit / 8] ^ (1 << (bit % 8)));
      put(file, altered);
      CAPTURE(bit);
      CHECK(step_read(folder.path(), model) == 0);
    }
    for (int part = 0; part < 64; ++part) {
      put(file, good.substr(0, good.size() * part / 64));
      CAPTURE(part);
      CHECK(step_read(folder.path(), model) == 0);
    }
    put(file, good);
    CHECK(step_read(folder.path(), model) == 3);
  }
  MESSAGE(flips << " flipped bits");
}

TEST_CASE("a step, a layer or a file that is another checkpoint's is found") {
  const TemporaryFolder folder("mixed");
  const Model model = small_mlp();
  TrainingState state = state_of(model);
  const fs::path older =
      write_checkpoint(folder.path(), model, kOrigin, state).value();
  state.minibatches = 40;
  for (at::Tensor& tensor : state.parameters) tensor = tensor + 1;
  const fs::path newer =
      write_checkpoint(folder.path(), model, kOrigin, state).value();
  const fs::path kept = folder.path() / "kept";
  fs::copy(newer, kept, fs::copy_options::recursive);
  const auto falls_back = [&] {
    CHECK(step_read(folder.path(), model) == 3);
    fs::remove_all(newer.string() + ".damaged");
    fs::copy(kept, newer, fs::copy_options::recursive);
    CHECK(step_read(folder.path(), model) == 40);
  };
  // Edited by hand.
  std::string text = bytes_of(newer / "manifest.json");
  text.replace(text.find("\"step\": 40"), 10, "\"step\": 44");
  put(newer / "manifest.json", text);
  falls_back();
  text = bytes_of(newer / "manifest.json");
  text.replace(text.find("cnn"), 3, "cnm");
  put(newer / "manifest.json", text);
  falls_back();
  // An old file with the new manifest, and the other way round.
  int others = 0;
  for (const auto& entry : fs::directory_iterator(older)) {
    const fs::path name = entry.path().filename();
    if (bytes_of(newer / name) == bytes_of(older / name)) continue;
    CAPTURE(name.string());
    ++others;
    put(newer / name, bytes_of(older / name));
    falls_back();
  }
  CHECK(others > 1);
  // Under the name of another step.
  const fs::path renamed = folder.path() / "checkpoints/step-44";
  fs::rename(newer, renamed);
  CHECK(step_read(folder.path(), model) == 3);
  CHECK(!fs::exists(renamed));
}

TEST_CASE("damaged checkpoints are not among those that are kept") {
  const TemporaryFolder folder("kept");
  const Model model = small_mlp();
  TrainingState state = state_of(model);
  const auto write = [&](std::int64_t step) {
    state.minibatches = step;
    return write_checkpoint(folder.path(), model, kOrigin, state).value();
  };
  write(1);
  const fs::path broken = write(2);
  fs::remove(broken / "layer-0000.safetensors");
  fs::create_directories(folder.path() / "checkpoints/step-9.part");
  write(3);
  const fs::path all = folder.path() / "checkpoints";
  CHECK(fs::exists(all / "step-1"));  // with step 3 the last two complete ones
  CHECK(!fs::exists(all / "step-9.part"));
  write(4);
  CHECK(!fs::exists(all / "step-1"));
  CHECK(!fs::exists(all / "step-2"));
  CHECK(fs::exists(all / "step-3"));
  CHECK(step_read(folder.path(), model) == 4);
}

// Names of files come from the model, never from the manifest; a link or a
// device in the place of one is read as what it points to, and must match.
TEST_CASE("links and devices in the place of files") {
  const TemporaryFolder folder("links");
  const Model model = small_mlp();
  const fs::path written =
      write_checkpoint(folder.path(), model, kOrigin, state_of(model)).value();
  const fs::path file = written / "layer-0000.safetensors";
  const std::string good = bytes_of(file);
  for (const char* target :
       {"/dev/zero", "/etc/passwd", "/", "nowhere", "layer-0000.safetensors"}) {
    CAPTURE(target);
    fs::remove(file);
    fs::create_symlink(target, file);
    CHECK(step_read(folder.path(), model) == 0);
  }
  fs::remove(file);
  REQUIRE(::mkfifo(file.c_str(), 0600) == 0);
  CHECK(step_read(folder.path(), model) == 0);
  fs::remove(file);
  put(file, good);
  CHECK(step_read(folder.path(), model) == 3);
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
