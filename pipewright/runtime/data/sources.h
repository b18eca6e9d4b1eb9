// The sources of datasets, one file each; open_dataset() chooses.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/runtime/data/dataset.h"

namespace pipewright {

// Images and one label each, for a model that classifies images. Labels are
// int64.
struct LabelledImages {
  std::string name;
  Shape shape;        // of an image
  at::Tensor pixels;  // bytes, first dimension: samples
  double scale = 1;   // to numbers up to 1
  at::Tensor labels;
};
Result<Dataset> image_dataset(LabelledImages images, const Model& model);

Result<LabelledImages> read_digits(std::string_view text,
                                   const std::string& file);
extern const std::string_view kDigitsText;  // examples/data/digits.txt

// An array of bytes in the IDX format of the MNIST files (Y. LeCun, C. Cortes
// and C. Burges, "The MNIST database of handwritten digits"), with or without
// gzip.
struct IdxArray {
  Shape sizes;
  std::vector<std::uint8_t> values;
};
Result<IdxArray> read_idx(const std::filesystem::path& file);
// "IMAGES,LABELS", or a folder that has one pair.
Result<LabelledImages> read_idx_images(const std::string& where);

// A text as numbers from 0 to entries - 1.
struct Tokens {
  std::string name;
  std::string unit;  // "byte", "character", "token"
  std::int64_t entries = 0;
  at::Tensor values;  // integers
};
Result<Tokens> byte_tokens(const std::string& file);
// The text of the first of some files, separated by commas. Characters are
// numbered by those of all files, so that a text for evaluation has the same
// numbers as the text for training.
Result<Tokens> character_tokens(const std::string& files);
Result<Tokens> read_tokens(const std::string& file);
Result<Dataset> token_dataset(const Tokens& tokens, const Model& model);

std::vector<std::string> characters(std::string_view utf8);

struct TextPair {
  std::string source, target;
};
// One pair per line, separated by a tab; or a dictionary's entry, "source ::
// target", with forms separated by | and comments in brackets (the format of
// Debian's trans-de-en). Lines that start with # are comments.
Result<std::vector<TextPair>> read_pairs(const std::string& file);
Result<Dataset> translation_pairs(const std::string& file, const Model& model);

// A safetensors file with a tensor per model input, by its name; samples are
// the first dimension.
Result<Dataset> tensor_dataset(const std::string& file, const Model& model,
                               bool is_shuffled);

std::string input_shapes(const Model& model);  // "tokens 64, target 64"

Result<Dataset> synthetic(std::int64_t num_samples, const Model& model);

}  // namespace pipewright
