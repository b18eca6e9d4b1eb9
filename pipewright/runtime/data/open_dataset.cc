// DATA on the command line; see dataset.h.

#include <cstdlib>

#include "pipewright/base/text.h"
#include "pipewright/runtime/data/sources.h"

namespace pipewright {
namespace {

constexpr std::int64_t kSyntheticSamples = 512, kMostSynthetic = 1 << 20;

Result<Dataset> open_synthetic(const std::string& rest, const Model& model) {
  if (rest.empty()) return synthetic(kSyntheticSamples, model);
  const auto count = parse_integer(rest);
  if (!count || *count < 1 || *count > kMostSynthetic)
    return bad_configuration("\"" + rest + "\" is no number of samples",
                             "as synthetic:512");
  return synthetic(*count, model);
}

Result<Dataset> open_images(Result<LabelledImages> images, const Model& model) {
  if (!images) return images.error();
  return image_dataset(*std::move(images), model);
}

Result<LabelledImages> fashion_mnist() {
  const char* folder = std::getenv("PIPEWRIGHT_DATA");
  if (folder == nullptr || *folder == '\0')
    return Error{ErrorCode::MissingInput,
                 "PIPEWRIGHT_DATA is not set, so there is no Fashion-MNIST",
                 "",
                 "set it, or name the files as idx:IMAGES,LABELS",
                 {}};
  return read_idx_images(std::string(folder) + "/fashion-mnist-10k");
}

}  // namespace

Result<Dataset> open_dataset(const std::string& text, const Model& model) {
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  const std::string rest =
      colon == std::string::npos ? "" : text.substr(colon + 1);
  if (text == "digits")
    return open_images(read_digits(kDigitsText, "digits"), model);
  if (text == "fashion-mnist") return open_images(fashion_mnist(), model);
  if (name == "idx" && !rest.empty())
    return open_images(read_idx_images(rest), model);
  if (name == "text" && !rest.empty()) return byte_text(rest, model);
  if (name == "synthetic") return open_synthetic(rest, model);
  const std::vector<std::string> known = {
      "digits", "fashion-mnist", "idx:FOLDER", "text:FILE", "synthetic"};
  return bad_configuration("unknown data \"" + text + "\"",
                           suggestion(text, known));
}

}  // namespace pipewright
