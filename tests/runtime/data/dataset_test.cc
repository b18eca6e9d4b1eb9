// Datasets: what is in them, which samples a microbatch has, and what does not
// fit a model.

#include "pipewright/runtime/data/dataset.h"

#include <doctest/doctest.h>
#include <unistd.h>
#include <zlib.h>

#include <filesystem>
#include <set>

#include "pipewright/base/files.h"
#include "pipewright/runtime/data/random_inputs.h"
#include "pipewright/runtime/data/sources.h"
#include "pipewright/runtime/data/training_samples.h"
#include "tests/runtime/test_models.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / "pipewright-data-test") {
    path_ += std::to_string(::getpid());
    fs::create_directories(path_);
  }
  ~Folder() { fs::remove_all(path_); }
  std::string operator/(const std::string& name) const {
    return (path_ / name).string();
  }
  std::string write(const std::string& name, const std::string& text) const {
    REQUIRE(write_file(*this / name, text).ok());
    return *this / name;
  }

 private:
  fs::path path_;
};

Model model_of(const std::string& text) { return load_model(text).value(); }

std::string idx(const std::vector<int>& sizes, const std::string& values) {
  std::string text = {0, 0, 8, static_cast<char>(sizes.size())};
  for (const int size : sizes)
    for (const int shift : {24, 16, 8, 0})
      text += static_cast<char>(size >> shift & 255);
  return text + values;
}

std::string packed(const Folder& folder, const std::string& name,
                   const std::string& text) {
  const std::string file = folder / name;
  gzFile out = ::gzopen(file.c_str(), "wb");
  REQUIRE(out);
  ::gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  ::gzclose(out);
  return file;
}

// Two images of 2x3 with labels 1 and 0.
const std::string kImages = idx({2, 2, 3}, std::string("\0\1\2\3\4\377"
                                                       "\5\6\7\10\11\12",
                                                       12));
const std::string kLabels = idx({2}, std::string("\1\0", 2));

TEST_CASE("digits: 1797 images, every class about as often") {
  for (const char* name : {"mlp:features=64", "mlp:features=64,classes=12"}) {
    const Dataset digits = open_dataset("digits", model_of(name)).value();
    CHECK(digits.num_samples == 1797);
    std::vector<int> count(10);
    for (int i = 0; i < 1797; ++i)
      ++count[digits.batch(1, {i}).item<std::int64_t>()];
    for (const int n : count) CHECK(std::abs(n - 180) < 10);
    const at::Tensor first = digits.batch(0, {0, 5});
    CHECK((first.sizes() == at::IntArrayRef({2, 64})));
    CHECK(first[0][2].item<float>() == 5.0f / 16);  // "0 005d91..."
    CHECK(first[0][3].item<float>() == 13.0f / 16);
    CHECK(first.max().item<float>() <= 1);
  }
}

TEST_CASE("idx, compressed or not, in files or in a folder") {
  const Folder folder;
  const Model model = model_of("mlp:features=6,classes=2");
  const std::string images = folder.write("a-images-idx3-ubyte", kImages);
  const std::string labels = packed(folder, "a-labels-idx1-ubyte.gz", kLabels);
  for (const std::string& text :
       {"idx:" + images + "," + labels, "idx:" + (folder / "")}) {
    const Dataset dataset = open_dataset(text, model).value();
    CHECK(dataset.num_samples == 2);
    const at::Tensor rows = dataset.batch(0, {1, 0});
    CHECK(rows[0][0].item<float>() == doctest::Approx(5.0 / 255));
    CHECK(rows[1][5].item<float>() == doctest::Approx(1));
    CHECK(dataset.batch(1, {0}).item<std::int64_t>() == 1);
  }
}

TEST_CASE("files that are not IDX are refused by name") {
  const Folder folder;
  const auto refused = [&](const std::string& text) {
    const auto answer = read_idx(folder.write("bad", text));
    REQUIRE(!answer.ok());
    CHECK(answer.error().code == ErrorCode::MalformedInput);
    CHECK(answer.error().where == folder / "bad");
  };
  for (std::size_t n = 0; n < kImages.size(); ++n)
    refused(kImages.substr(0, n));
  refused(kImages + "x");
  refused("PK" + kImages.substr(2));
  refused(idx({0, 2}, ""));
  refused(idx({-1, -1, -1, -1}, "1234"));
  CHECK(read_idx(folder / "none").error().code == ErrorCode::MissingInput);
  CHECK(read_idx(folder / "").error().code == ErrorCode::MissingInput);
  std::string whole =
      read_file(packed(folder, "cut", std::string(5000, 'x') + kImages))
          .value();
  folder.write("cut", whole.substr(0, whole.size() / 2));
  CHECK(read_idx(folder / "cut").error().code == ErrorCode::MalformedInput);
}

TEST_CASE("text: the target is the next byte") {
  const Folder folder;
  const std::string file = folder.write("t", "abcdefghij");
  const Dataset text =
      open_dataset("text:" + file,
                   model_of("gpt:layers=1,hidden=4,heads=1,vocab=256,seq=4"))
          .value();
  CHECK(text.num_samples == 2);
  const at::Tensor tokens = text.batch(0, {1}), target = text.batch(1, {1});
  CHECK(tokens[0][0].item<std::int64_t>() == 'e');
  CHECK(target[0][0].item<std::int64_t>() == 'f');
  CHECK(target[0][3].item<std::int64_t>() == 'i');
}

TEST_CASE("an error about data names both shapes, or the sample") {
  const Folder folder;
  const auto error = [](const std::string& data, const std::string& model) {
    return open_dataset(data, model_of(model)).error();
  };
  const auto has = [](const Error& e, const std::string& part) {
    INFO(e.to_text());
    CHECK(e.to_text().find(part) != std::string::npos);
  };
  const Error shapes = error("digits", "lenet");
  CHECK(shapes.code == ErrorCode::BadConfiguration);
  has(shapes, "8x8");
  has(shapes, "1x28x28");
  const Error label = error("digits", "mlp:features=64,classes=5");
  CHECK(label.code == ErrorCode::MalformedInput);
  has(label, "sample 5 has label 5");
  has(label, "5 classes");
  has(error("digits", "gpt:layers=1,hidden=4,heads=1"), "images and labels");
  has(error("digit", "mlp"), "digits");
  has(error("synthetic:0", "mlp"), "synthetic:512");
  const std::string file = folder.write("t", "abc\xff");
  has(error("text:" + file, "mlp"), "language model");
  has(error("text:" + file, "gpt:layers=1,hidden=4,heads=1,vocab=200,seq=2"),
      "byte 3 (sample 1) is 255");
  has(error("text:" + file, "gpt:layers=1,hidden=4,heads=1,vocab=256,seq=4"),
      "4 bytes");
  const std::string one = folder.write("one", idx({1}, "\1"));
  has(error("idx:" + folder.write("images", kImages) + "," + one, "lenet"),
      "labels of shape 1");
  CHECK(error("idx:/no/such", "lenet").code == ErrorCode::MissingInput);
}

TEST_CASE("an epoch has every sample once, and each epoch its own order") {
  const Model model = model_of("mlp:features=2,hidden=2");
  const Dataset dataset = open_dataset("synthetic:100", model).value();
  std::set<std::vector<std::int64_t>> orders;
  for (const std::uint64_t seed : {1, 2})
    for (int epoch = 0; epoch < 3; ++epoch) {
      const auto order = epoch_order(dataset, seed, epoch);
      CHECK(std::set(order.begin(), order.end()).size() == 100);
      CHECK((order == epoch_order(dataset, seed, epoch)));
      orders.insert(order);
    }
  CHECK(orders.size() == 6);
}

TEST_CASE("a minibatch has the same samples however it is cut") {
  const Model model = model_of("mlp:features=2,hidden=2");
  const Dataset dataset = open_dataset("synthetic:50", model).value();
  const MicrobatchSource whole = microbatches_of(dataset, {7, 12});
  const MicrobatchSource cut = microbatches_of(dataset, {7, 4});
  for (int minibatch = 0; minibatch < 9; ++minibatch) {
    const at::Tensor joined =
        at::cat({cut(0, 3 * minibatch), cut(0, 3 * minibatch + 1),
                 cut(0, 3 * minibatch + 2)});
    CHECK(joined.equal(whole(0, minibatch)));
  }
}

TEST_CASE("epochs follow each other: every sample once, none twice") {
  const Model model = model_of("mlp:features=2,hidden=2");
  for (const int samples : {1, 3, 50, 64}) {
    const Dataset dataset =
        open_dataset("synthetic:" + std::to_string(samples), model).value();
    const MicrobatchSource source = microbatches_of(dataset, {7, 8});
    std::vector<std::int64_t> order;
    for (int epoch = 0; epoch < 150; ++epoch)
      for (const std::int64_t i : epoch_order(dataset, 7, epoch))
        order.push_back(i);
    for (int m = 0; m < 16; ++m) {
      const auto start = order.begin() + m * 8;
      CHECK(source(0, m).equal(dataset.batch(0, {start, start + 8})));
    }
  }
  const Dataset dataset = open_dataset("synthetic:50", model).value();
  CHECK(steps_of_epochs(dataset.num_samples, 12, 1) == 5);
  CHECK(steps_of_epochs(dataset.num_samples, 12, 6) == 25);
}

TEST_CASE("in order: every sample once, and the first fills up") {
  const Dataset dataset =
      open_dataset("synthetic:7", model_of("mlp:features=2,hidden=2")).value();
  const MicrobatchSource source = in_order(dataset, 4);
  CHECK(source(0, 0).equal(dataset.batch(0, {0, 1, 2, 3})));
  CHECK(source(0, 1).equal(dataset.batch(0, {4, 5, 6, 0})));
}

TEST_CASE("a split has every sample on one side") {
  const Model model = model_of("mlp:features=64");
  const Dataset digits = open_dataset("digits", model).value();
  for (const double share : {0.0, 0.1, 0.5, 0.9, 1.0}) {
    const Split parts = split(digits, share, 3);
    const std::int64_t wanted = std::clamp<std::int64_t>(
        static_cast<std::int64_t>(share * 1797), 1, 1796);
    CHECK(parts.held_out.num_samples == wanted);
    CHECK(parts.rest.num_samples == 1797 - wanted);
    // Rows of pixels and label, as a set.
    const auto rows = [](const Dataset& part) {
      const at::Tensor all = at::cat({part.inputs[0].values.to(at::kLong),
                                      part.inputs[1].values.unsqueeze(1)},
                                     1);
      return all.mul(at::arange(1, 66)).sum(1).sum().item<std::int64_t>();
    };
    CHECK(rows(parts.rest) + rows(parts.held_out) == rows(digits));
  }
  const Split again = split(digits, 0.1, 3), other = split(digits, 0.1, 4);
  CHECK(again.held_out.batch(0, {5}).equal(
      split(digits, 0.1, 3).held_out.batch(0, {5})));
  CHECK(
      !again.held_out.inputs[0].values.equal(other.held_out.inputs[0].values));
}

TEST_CASE("synthetic samples are within every model's bounds") {
  for (const Model& model : {testing::small_mlp(), testing::small_cnn(),
                             testing::small_gpt(), testing::small_lstm()}) {
    const Dataset dataset = open_dataset("synthetic:20", model).value();
    for (std::size_t i = 0; i < model.inputs().size(); ++i) {
      const int input = static_cast<int>(i);
      const at::Tensor batch = dataset.batch(input, {0, 7, 19});
      CHECK(batch.size(0) == 3);
      if (is_floating(model.inputs()[i].type)) continue;
      CHECK(batch.min().item<std::int64_t>() >= 0);
      CHECK(batch.max().item<std::int64_t>() < index_bound(model, input));
    }
  }
}

TEST_CASE("a loader prepares what takes time, not a few plain numbers") {
  const Model model = testing::small_mlp();
  const auto few = stored_samples(open_dataset("synthetic:20", model).value());
  CHECK(!few->wants_loader(4));
  CHECK(few->wants_loader(1 << 14));
  Dataset scaled = open_dataset("synthetic:20", model).value();
  scaled.inputs[0].scale = 0.5;
  CHECK(stored_samples(std::move(scaled))->wants_loader(4));
}

}  // namespace
}  // namespace pipewright
