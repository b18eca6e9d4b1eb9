// Where datasets come from, one file each; open_dataset() chooses.

#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/runtime/data/dataset.h"

namespace pipewright {

// Images and one label each, for a model that classifies images: checks that
// both fit it. Labels are int64.
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

Result<Dataset> byte_text(const std::string& file, const Model& model);

Result<Dataset> synthetic(std::int64_t num_samples, const Model& model);

}  // namespace pipewright
