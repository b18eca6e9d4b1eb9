// The functions of an exported model as data: calls of ATen's operators over
// numbered tensors. Read from text, one line per call:
//
//   %3 = addmm(%2, %0, %1)
//   %4 %5 = native_dropout(%3, 0.1, true)
//   [%6 %7] = split.Tensor(%4, 32, 1)
//   %8 = reshape(%6, [B, (* 2 B), 16])
//
// Arguments are tensors (%3), whole numbers and expressions of the batch size
// B, real numbers, true, false, none, "text", words (float32, strided), lists,
// and _ for the operator's default. Which operators exist is not known here.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipewright/base/result.h"

namespace pipewright {

// A whole number that may depend on the batch size.
struct BatchExpression {
  enum class Kind : std::uint8_t {
    Number,
    Batch,      // B
    Sum,        // (+ a b ...)
    Product,    // (* a b ...)
    Quotient,   // (// a b), rounded down
    Remainder,  // (% a b)
    Max,        // (max a b ...)
    Min,        // (min a b ...)
  };
  Kind kind = Kind::Number;
  std::int64_t number = 0;
  std::vector<BatchExpression> parts = {};

  bool is_number() const { return kind == Kind::Number; }
  // Division by zero gives zero; sums and products wrap around.
  std::int64_t at(std::int64_t batch) const;
};

struct OperatorArgument {
  enum class Kind : std::uint8_t {
    Default,  // _
    None,     // none
    Tensor,   // %3
    Flag,     // true, false
    Integer,  // 4, B, (* 2 B)
    Real,     // 0.1, inf
    Text,     // "mean"
    Word,     // float32
    List,     // [...]
  };
  Kind kind = Kind::Default;
  int tensor = -1;
  bool flag = false;
  BatchExpression integer = {};
  double real = 0;
  std::string text = {};  // of Text and Word
  std::vector<OperatorArgument> elements = {};
};

struct OperatorCall {
  std::string name;      // "aten::addmm"
  std::string overload;  // "Tensor"; often empty
  std::vector<OperatorArgument> arguments = {};
  std::vector<int> results = {};  // numbers of the tensors it makes
  bool returns_list = false;
};

// Its arguments are the tensors 0, 1, ...; every other tensor is made once.
struct ExportedFunction {
  int num_arguments = 0;
  int num_tensors = 0;
  std::vector<OperatorCall> calls;
  std::vector<int> results;
};

// Fails with MalformedInput, quoting the text from where it is wrong.
Result<OperatorCall> parse_operator_call(std::string_view line);

// Fails with MalformedInput unless every tensor is made before it is read,
// once, and has a number below num_tensors.
Result<void> check_tensors(const ExportedFunction& function);

}  // namespace pipewright
