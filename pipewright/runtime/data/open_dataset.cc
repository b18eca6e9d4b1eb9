// DATA on the command line; see dataset.h.

#include <cstdlib>

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

constexpr std::int64_t kSyntheticSamples = 512, kMaxSynthetic = 1 << 20;

Result<Dataset> open_synthetic(const std::string& rest, const Model& model) {
  if (rest.empty()) return synthetic(kSyntheticSamples, model);
  const auto count = parse_integer(rest);
  if (!count || *count < 1 || *count > kMaxSynthetic)
    return bad_configuration("\"" + rest + "\" is not a number of samples",
                             "for example synthetic:512");
  return synthetic(*count, model);
}

Result<Dataset> open_images(Result<LabelledImages> images, const Model& model) {
  if (!images) return images.error();
  return image_dataset(*std::move(images), model);
}

const std::string kFashionMnist = "/usr/share/datasets/fashion-mnist/";
const std::string kDictionary = "/usr/share/trans/de-en";

// `part` is "train" or "t10k". The ten thousand images in $PIPEWRIGHT_DATA are
// for training only, since evaluation needs other images.
Result<LabelledImages> fashion_mnist(const std::string& part) {
  const std::string images = kFashionMnist + part + "-images-idx3-ubyte.gz";
  std::error_code none;
  if (std::filesystem::exists(images, none))
    return read_idx_images(images + "," + kFashionMnist + part +
                           "-labels-idx1-ubyte.gz");
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  if (part == "train" && folder != nullptr && *folder != '\0')
    return read_idx_images(std::string(folder) + "/fashion-mnist-10k");
  return Error{ErrorCode::MissingInput,
               "Fashion-MNIST not found",
               images,
               "apt install dataset-fashion-mnist, or give files as "
               "idx:IMAGES,LABELS",
               {}};
}

Result<Dataset> open_tokens(Result<Tokens> tokens, const Model& model) {
  if (!tokens) return tokens.error();
  return token_dataset(*tokens, model);
}

}  // namespace

Result<Dataset> open_dataset(const std::string& text, const Model& model) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest =
      colon == std::string::npos ? "" : text.substr(colon + 1);
  if (text == "digits")
    return open_images(read_digits(kDigitsText, "digits"), model);
  if (text == "fashion-mnist")
    return open_images(fashion_mnist("train"), model);
  if (text == "fashion-mnist-test")
    return open_images(fashion_mnist("t10k"), model);
  if (text == "trans-de-en") return translation_pairs(kDictionary, model);
  if (name == "idx" && !rest.empty())
    return open_images(read_idx_images(rest), model);
  if (name == "text" && !rest.empty())
    return open_tokens(byte_tokens(rest), model);
  if (name == "chars" && !rest.empty())
    return open_tokens(character_tokens(rest), model);
  if (name == "tokens" && !rest.empty())
    return open_tokens(read_tokens(rest), model);
  if (name == "pairs" && !rest.empty()) return translation_pairs(rest, model);
  if (name == "tensors" && !rest.empty())
    return tensor_dataset(rest, model, true);
  if (name == "batches" && !rest.empty())
    return tensor_dataset(rest, model, false);
  if (name == "synthetic") return open_synthetic(rest, model);
  const std::vector<std::string> known = {
      "digits",      "fashion-mnist", "fashion-mnist-test", "idx:FOLDER",
      "text:FILE",   "chars:FILE",    "tokens:FILE",        "pairs:FILE",
      "trans-de-en", "tensors:FILE",  "batches:FILE",       "synthetic"};
  return bad_configuration("unknown data \"" + text + "\"",
                           suggestion(text, known));
}

}  // namespace pipewright
