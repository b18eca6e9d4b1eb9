// Tensors of any size from safetensors files: one file, shards with an index,
// and every kind of damage.

#include "pipewright/runtime/safetensors/tensor_file.h"

#include <doctest/doctest.h>

#include <filesystem>

#include "pipewright/base/files.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

NamedTensors some_weights() {
  return {{"a.weight", at::arange(6, at::kFloat).view({2, 3})},
          {"mask", at::arange(3).ne(1)},
          {"count", at::tensor(std::int64_t{5})}};
}

fs::path written(const fs::path& file, const NamedTensors& tensors) {
  REQUIRE(write_file(file, to_safetensors(tensors)).ok());
  return file;
}

TEST_CASE("tensors are found by name, shape and type") {
  const TemporaryFolder folder("tensor-file");
  const auto file =
      TensorFile::open(written(folder.path() / "w.safetensors", some_weights()))
          .value();
  for (const auto& [name, tensor] : some_weights()) {
    CAPTURE(name);
    const Shape shape = tensor.sizes().vec();
    CHECK(file->tensor({name}, shape, tensor.scalar_type())
              .value()
              .equal(tensor));
    CHECK(file->check({"nowhere", name}, shape, tensor.scalar_type()).ok());
    CHECK(file->stored(name).value().equal(tensor));
  }
  CHECK(file->names() == std::vector<std::string>{"a.weight", "count", "mask"});
  CHECK(file->tensor({"a.weight"}, {2, 3}, at::kDouble)
            .value()
            .equal(some_weights()["a.weight"].to(at::kDouble)));
  CHECK(file->samples("a.weight", {3}, at::kFloat).value().size(0) == 2);
}

TEST_CASE("what does not fit is refused with both forms") {
  const TemporaryFolder folder("tensor-file-wrong");
  const std::string path =
      written(folder.path() / "w.safetensors", some_weights());
  const auto file = TensorFile::open(path).value();
  const auto message = [&](const std::string& name, const Shape& shape,
                           at::ScalarType type) {
    const auto found = file->tensor({name}, shape, type);
    REQUIRE(!found.ok());
    CHECK(found.error().code == ErrorCode::MalformedInput);
    CHECK(found.error().where == path);
    return found.error().message;
  };
  CHECK(message("b.weight", {2, 3}, at::kFloat) ==
        "has no tensor \"b.weight\"");
  CHECK(message("a.weight", {3, 2}, at::kFloat) ==
        "has \"a.weight\" with shape 2x3 and type F32, the model needs shape "
        "3x2 and type F32");
  CHECK(message("count", {}, at::kFloat).find("type I64") != std::string::npos);
}

TEST_CASE("an index names the shards, and a folder its index") {
  const TemporaryFolder folder("tensor-file-shards");
  written(folder.path() / "part-1.safetensors", {{"a", at::ones({2})}});
  written(folder.path() / "part-2.safetensors", {{"b", at::zeros({3})}});
  REQUIRE(write_file(folder.path() / "model.safetensors.index.json",
                     "{\"metadata\": {}, \"weight_map\": {\"a\": "
                     "\"part-1.safetensors\", \"b\": \"part-2.safetensors\"}}")
              .ok());
  const auto file = TensorFile::open(folder.path()).value();
  CHECK(file->names() == std::vector<std::string>{"a", "b"});
  CHECK(file->stored("b").value().equal(at::zeros({3})));
  fs::remove(folder.path() / "part-2.safetensors");
  const auto missing = TensorFile::open(folder.path());
  REQUIRE(!missing.ok());
  CHECK(missing.error().code == ErrorCode::MissingInput);
}

void write_index(const fs::path& folder, const std::string& shards) {
  REQUIRE(write_file(folder / "model.safetensors.index.json",
                     "{\"weight_map\": {" + shards + "}}")
              .ok());
}

TEST_CASE("an index leads to no other folder") {
  const TemporaryFolder outside("tensor-file-outside"), folder("tensor-file");
  const std::string secret =
      written(outside.path() / "secret.safetensors", {{"a", at::ones({2})}});
  fs::create_directory(folder.path() / "below");
  written(folder.path() / "below" / "part.safetensors", {{"a", at::ones({2})}});
  const std::string up =
      "../" + outside.path().filename().string() + "/secret.safetensors";
  for (const std::string& shard :
       {secret, up, std::string("below/part.safetensors"), std::string(".."),
        std::string("."), std::string(), std::string("./secret"),
        std::string("a\\u0000b")}) {
    CAPTURE(shard);
    write_index(folder.path(), "\"a\": \"" + shard + "\"");
    const auto file = TensorFile::open(folder.path());
    REQUIRE(!file.ok());
    CHECK(file.error().code == ErrorCode::MalformedInput);
    CHECK(file.error().message.find("which is not beside it") !=
          std::string::npos);
  }
}

TEST_CASE("a tensor that is in two shards is refused, not chosen") {
  const TemporaryFolder folder("tensor-file-twice");
  written(folder.path() / "one", {{"a", at::ones({2})}});
  written(folder.path() / "two", {{"a", at::zeros({2})}});
  write_index(folder.path(), R"("a": "one", "b": "two")");
  const auto file = TensorFile::open(folder.path());
  REQUIRE(!file.ok());
  CHECK(file.error().message.find("which is also in") != std::string::npos);
}

// What Python's pickle makes of an object whose __reduce__ returns
// (os.system, ("touch MARKER",)); torch.save() puts such bytes into a zip.
TEST_CASE("a pickle is named, with the safe way, and not executed") {
  const TemporaryFolder folder("tensor-file-pickle");
  const fs::path marker = folder.path() / "marker";
  const std::string payload =
      "cposix\nsystem\n(S'touch " + marker.string() + "'\ntR.";
  for (const std::string& start :
       {std::string("\x80\x02"), std::string("\x80\x04"),
        std::string("PK\x03\x04") + std::string(26, '\0')}) {
    const fs::path path = folder.path() / "model.pt";
    REQUIRE(write_file(path, start + payload).ok());
    const auto file = TensorFile::open(path);
    REQUIRE(!file.ok());
    CHECK(file.error().to_text().find("torch.save()") != std::string::npos);
    CHECK(file.error().message.find("safetensors.torch.save_file") !=
          std::string::npos);
    CHECK(!fs::exists(marker));
  }
}

TEST_CASE("every cut of a file is refused, when it is opened or read") {
  const TemporaryFolder folder("tensor-file-cut");
  const std::string whole = to_safetensors(some_weights());
  const fs::path path = folder.path() / "w.safetensors";
  for (std::size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    REQUIRE(write_file(path, whole.substr(0, n)).ok());
    CHECK(!TensorFile::open(path).ok());
  }
  REQUIRE(write_file(path, whole).ok());
  const auto open = TensorFile::open(path).value();
  fs::resize_file(path, whole.size() - 30);
  CHECK(!open->stored("mask").ok());
  for (const char* other : {"/dev/zero", "/", "/nowhere"})
    CHECK(!TensorFile::open(other).ok());
}

}  // namespace
}  // namespace pipewright
