// Text: characters, token files of llm.c, translation pairs; and what of them
// does not fit a model.

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>

#include "pipewright/base/files.h"
#include "pipewright/runtime/data/sources.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

using testing::TemporaryFolder;

std::string written(const TemporaryFolder& folder, const std::string& name,
                    const std::string& text) {
  const auto path = folder.path() / name;
  REQUIRE(write_file(path, text).ok());
  return path.string();
}

Model gpt(int vocab, int seq) {
  return load_model("gpt:layers=1,hidden=4,heads=1,vocab=" +
                    std::to_string(vocab) + ",seq=" + std::to_string(seq))
      .value();
}
Model gnmt(int vocab, int seq) {
  return load_model("gnmt:layers=2,hidden=4,vocab=" + std::to_string(vocab) +
                    ",seq=" + std::to_string(seq))
      .value();
}

std::vector<std::int64_t> numbers(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.to(at::kLong).flatten();
  return {flat.data_ptr<std::int64_t>(),
          flat.data_ptr<std::int64_t>() + flat.numel()};
}
using List = std::vector<std::int64_t>;

bool has(const Error& error, const std::string& part) {
  INFO(error.to_text());
  return error.to_text().find(part) != std::string::npos;
}

TEST_CASE("characters, not bytes; a broken one is its bytes") {
  CHECK((characters("aäß€𝄞") ==
         std::vector<std::string>{"a", "ä", "ß", "€", "𝄞"}));
  CHECK((characters("\xc3") == std::vector<std::string>{"\xc3"}));
  CHECK((characters("\xc3x\xe2\x82") ==
         std::vector<std::string>{"\xc3", "x", "\xe2", "\x82"}));
}

TEST_CASE("chars: numbered by the file's own characters") {
  const TemporaryFolder folder("chars");
  const std::string file = written(folder, "t", "bäbäcb");
  const Dataset text = open_dataset("chars:" + file, gpt(3, 2)).value();
  CHECK(text.num_samples == 2);
  CHECK((numbers(text.batch(0, {0, 1})) == List{0, 2, 0, 2}));
  CHECK((numbers(text.batch(1, {0, 1})) == List{2, 0, 2, 1}));
  // Another text has the same numbers where both files are named.
  const std::string other = written(folder, "u", "cccc");
  const Dataset held_out =
      open_dataset("chars:" + other + "," + file, gpt(3, 2)).value();
  CHECK((numbers(held_out.batch(0, {0})) == List{1, 1}));
  const Error small = open_dataset("chars:" + file, gpt(2, 2)).error();
  CHECK(small.code == ErrorCode::MalformedInput);
  CHECK(has(small, "character 1 (sample 0) is 2"));
  CHECK(has(small, "vocab=3"));
}

std::string token_file(std::int32_t mark, std::int32_t version,
                       const std::vector<std::uint32_t>& tokens, int bytes) {
  std::vector<std::int32_t> head(256);
  head[0] = mark;
  head[1] = version;
  head[2] = static_cast<std::int32_t>(tokens.size());
  std::string text(reinterpret_cast<const char*>(head.data()), 1024);
  for (const std::uint32_t token : tokens)
    text.append(reinterpret_cast<const char*>(&token),
                static_cast<std::size_t>(bytes));
  return text;
}

TEST_CASE("token files of llm.c, in both widths") {
  const TemporaryFolder folder("tokens");
  const std::vector<std::uint32_t> tokens = {5, 50000, 7, 1, 2};
  for (const int bytes : {2, 4}) {
    const std::string file =
        written(folder, "t.bin",
                token_file(bytes == 2 ? 20240520 : 20240801, bytes == 2 ? 1 : 7,
                           tokens, bytes));
    const Dataset text = open_dataset("tokens:" + file, gpt(50257, 2)).value();
    CHECK(text.num_samples == 2);
    CHECK((numbers(text.batch(0, {0, 1})) == List{5, 50000, 7, 1}));
    CHECK((numbers(text.batch(1, {0, 1})) == List{50000, 7, 1, 2}));
    const Error small = open_dataset("tokens:" + file, gpt(100, 2)).error();
    CHECK(has(small, "token 1 (sample 0) is 50000"));
    CHECK(has(small, "100 entries"));
  }
}

TEST_CASE("files that are not token files are refused by name") {
  const TemporaryFolder folder("no-tokens");
  const std::string good = token_file(20240520, 1, {1, 2, 3, 4}, 2);
  const auto refused = [&](const std::string& text) {
    const auto read = read_tokens(written(folder, "bad.bin", text));
    REQUIRE(!read.ok());
    CHECK(read.error().code == ErrorCode::MalformedInput);
    CHECK(has(read.error(), "bad.bin"));
  };
  for (const std::size_t n :
       {std::size_t{0}, std::size_t{1023}, good.size() - 1})
    refused(good.substr(0, n));
  refused(good + "x");
  refused(token_file(20240520, 2, {1}, 2));
  refused(token_file(1, 1, {1}, 2));
  refused(token_file(20240520, 1, {}, 2));
  std::string negative = good;
  std::memset(negative.data() + 8, 0xff, 4);
  refused(negative);
  refused(token_file(20240801, 7, {0x80000000u}, 4));
  CHECK(read_tokens("/no/such.bin").error().code == ErrorCode::MissingInput);
  CHECK(read_tokens("/").error().code == ErrorCode::MissingInput);
}

TEST_CASE("pairs: separated by a tab; too long ones are left out") {
  const TemporaryFolder folder("pairs");
  const std::string file = written(
      folder, "p", "# remark\nab\tb\n\nabcde\tx\nb\tabcd\na\tab\tnote\n");
  const Dataset pairs = open_dataset("pairs:" + file, gnmt(5, 4)).value();
  CHECK(pairs.num_samples == 2);  // ab -> b, a -> ab
  CHECK((numbers(pairs.batch(0, {0, 1})) == List{3, 4, 0, 0, 3, 0, 0, 0}));
  CHECK((numbers(pairs.batch(1, {0, 1})) == List{1, 4, 0, 0, 1, 3, 4, 0}));
  CHECK((numbers(pairs.batch(2, {0, 1})) == List{4, 2, 0, 0, 3, 4, 2, 0}));
  CHECK(has(open_dataset("pairs:" + file, gnmt(4, 4)).error(), "vocab=5"));
  CHECK(has(open_dataset("pairs:" + file, gnmt(5, 1)).error(), "4 pairs"));
  CHECK(has(open_dataset("pairs:" + file, gpt(9, 4)).error(), "tokens 4"));
  const std::string bad = written(folder, "q", "a\tb\nno pair\n");
  const Error line = open_dataset("pairs:" + bad, gnmt(5, 4)).error();
  CHECK(line.code == ErrorCode::MalformedInput);
  CHECK(has(line, "q:2"));
}

TEST_CASE("pairs: a dictionary's entries") {
  const TemporaryFolder folder("dictionary");
  const std::string file = written(
      folder, "d",
      "# Version :: devel\n"
      "Aal {m}; Schlange [zool.] | Aale {pl} :: eel (fish); snake | eels\n"
      "das A und O [ugs.] :: the nuts and bolts\n"
      "eins | zwei :: one\n"
      "{n} :: nothing\n");
  const auto pairs = read_pairs(file).value();
  REQUIRE(pairs.size() == 3);
  CHECK(pairs[0].source == "Aal");
  CHECK(pairs[0].target == "eel");
  CHECK(pairs[1].source == "Aale");
  CHECK(pairs[1].target == "eels");
  CHECK(pairs[2].source == "das A und O");
  CHECK(pairs[2].target == "the nuts and bolts");
}

TEST_CASE("Debian's dictionary, where it is installed") {
  if (!std::filesystem::exists("/usr/share/trans/de-en")) {
    MESSAGE("trans-de-en is not installed");
    return;
  }
  const Dataset pairs = open_dataset("trans-de-en", gnmt(300, 12)).value();
  CHECK(pairs.num_samples > 10'000);
}

}  // namespace
}  // namespace pipewright
