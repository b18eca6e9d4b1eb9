#include "pipewright/model/exported/exported_code.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "pipewright/base/text.h"
#include "pipewright/base/text_table.h"

namespace pipewright {
namespace {

constexpr int kMaxDepth = 16;  // of lists and expressions
constexpr std::int64_t kMaxTensor = 1 << 24;

bool is_word_character(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ||
         c == ':' || c == '-' || c == '+';
}

// Reads one line. After a failure everything else fails, too.
class CallReader {
 public:
  explicit CallReader(std::string_view line) : rest_(line), line_(line) {}

  Result<OperatorCall> read() {
    OperatorCall call;
    call.returns_list = skip("[");
    while (peek() == '%') call.results.push_back(tensor());
    if (call.returns_list) expect("]");
    expect("=");
    read_name(call);
    expect("(");
    while (is_good_ && !skip(")")) {
      if (!call.arguments.empty()) expect(",");
      call.arguments.push_back(argument(0));
    }
    if (is_good_ && (call.results.empty() || !trim(rest_).empty())) fail();
    if (!is_good_)
      return malformed("cannot read \"" + shortened(std::string(wrong_), 60) +
                       "\" in \"" + shortened(std::string(line_), 120) + "\"");
    return call;
  }

 private:
  char peek() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool skip(std::string_view token) {
    peek();
    if (!is_good_ || rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!skip(token)) fail();
  }
  void fail() {
    if (is_good_) wrong_ = rest_;
    is_good_ = false;
    rest_ = {};
  }
  std::string_view word() {
    peek();
    std::size_t n = 0;
    while (n < rest_.size() && is_word_character(rest_[n])) ++n;
    if (n == 0) fail();
    const std::string_view found = rest_.substr(0, n);
    rest_.remove_prefix(std::min(n, rest_.size()));
    return found;
  }
  int tensor() {
    expect("%");
    const auto number = parse_integer(std::string(word()));
    if (!number || *number < 0 || *number > kMaxTensor) fail();
    return is_good_ ? static_cast<int>(*number) : 0;
  }
  void read_name(OperatorCall& call) {
    const std::string whole(word());
    const std::size_t dot = whole.find('.');
    call.name = whole.substr(0, dot);
    if (dot != std::string::npos) call.overload = whole.substr(dot + 1);
    if (call.name.find("::") == std::string::npos)
      call.name = "aten::" + call.name;
  }
  std::string quoted() {
    expect("\"");
    const std::size_t end = rest_.find('"');
    if (end == std::string_view::npos ||
        rest_.substr(0, end).find('\\') != std::string_view::npos) {
      fail();
      return {};
    }
    std::string text(rest_.substr(0, end));
    rest_.remove_prefix(end + 1);
    return text;
  }

  BatchExpression expression(int depth) {
    BatchExpression result;
    if (depth > kMaxDepth) fail();
    if (!skip("(")) return number();
    using Kind = BatchExpression::Kind;
    if (skip("+"))
      result.kind = Kind::Sum;
    else if (skip("*"))
      result.kind = Kind::Product;
    else if (skip("//"))
      result.kind = Kind::Quotient;
    else if (skip("%"))
      result.kind = Kind::Remainder;
    else if (skip("max"))
      result.kind = Kind::Max;
    else if (skip("min"))
      result.kind = Kind::Min;
    else
      fail();
    while (is_good_ && !skip(")"))
      result.parts.push_back(expression(depth + 1));
    if (result.parts.size() < 2) fail();
    return result;
  }
  BatchExpression number() {
    if (skip("B")) return {BatchExpression::Kind::Batch, 0, {}};
    const auto found = parse_integer(std::string(word()));
    if (!found) fail();
    return {BatchExpression::Kind::Number, found ? *found : 0, {}};
  }

  OperatorArgument argument(int depth) {
    using Kind = OperatorArgument::Kind;
    OperatorArgument result;
    const char next = peek();
    if (depth > kMaxDepth) fail();
    if (next == '%') {
      result.kind = Kind::Tensor;
      result.tensor = tensor();
    } else if (next == '[') {
      result = list(depth);
    } else if (next == '"') {
      result.kind = Kind::Text;
      result.text = quoted();
    } else if (next == '(') {
      result.kind = Kind::Integer;
      result.integer = expression(depth);
    } else {
      result = plain(std::string(word()));
    }
    return result;
  }
  OperatorArgument list(int depth) {
    OperatorArgument result;
    result.kind = OperatorArgument::Kind::List;
    expect("[");
    while (is_good_ && !skip("]")) {
      if (!result.elements.empty()) expect(",");
      result.elements.push_back(argument(depth + 1));
    }
    return result;
  }
  OperatorArgument plain(const std::string& word) {
    using Kind = OperatorArgument::Kind;
    OperatorArgument result;
    if (word == "_") return result;
    if (word == "none") {
      result.kind = Kind::None;
    } else if (word == "true" || word == "false") {
      result.kind = Kind::Flag;
      result.flag = word == "true";
    } else if (word == "B") {
      result.kind = Kind::Integer;
      result.integer.kind = BatchExpression::Kind::Batch;
    } else if (const auto number = parse_integer(word)) {
      result.kind = Kind::Integer;
      result.integer.number = *number;
    } else if (read_real(word, result.real)) {
      result.kind = Kind::Real;
    } else {
      result.kind = Kind::Word;
      result.text = word;
    }
    return result;
  }
  static bool read_real(const std::string& word, double& value) {
    char* end = nullptr;
    value = std::strtod(word.c_str(), &end);
    return !word.empty() && *end == '\0';
  }

  std::string_view rest_, line_, wrong_;
  bool is_good_ = true;
};

// Tensors that an argument reads.
void add_reads(const OperatorArgument& argument, std::vector<int>& reads) {
  if (argument.kind == OperatorArgument::Kind::Tensor)
    reads.push_back(argument.tensor);
  for (const OperatorArgument& element : argument.elements)
    add_reads(element, reads);
}

// In unsigned numbers, which may wrap around.
std::int64_t sum(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) +
                                   static_cast<std::uint64_t>(b));
}
std::int64_t product(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) *
                                   static_cast<std::uint64_t>(b));
}
// Rounded down, as Python's.
std::int64_t quotient(std::int64_t a, std::int64_t b) {
  if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min()))
    return 0;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}

}  // namespace

std::int64_t BatchExpression::at(std::int64_t batch) const {
  if (kind == Kind::Number) return number;
  if (kind == Kind::Batch) return batch;
  std::int64_t result = parts.front().at(batch);
  for (std::size_t i = 1; i < parts.size(); ++i) {
    const std::int64_t next = parts[i].at(batch);
    if (kind == Kind::Sum) result = sum(result, next);
    if (kind == Kind::Product) result = product(result, next);
    if (kind == Kind::Quotient) result = quotient(result, next);
    if (kind == Kind::Remainder)
      result = sum(result, -product(next, quotient(result, next)));
    if (kind == Kind::Max) result = std::max(result, next);
    if (kind == Kind::Min) result = std::min(result, next);
  }
  return result;
}

Result<OperatorCall> parse_operator_call(std::string_view line) {
  return CallReader(line).read();
}

Result<void> check_tensors(const ExportedFunction& function) {
  std::vector<bool> is_made(static_cast<std::size_t>(function.num_tensors));
  std::fill_n(is_made.begin(),
              std::min(function.num_arguments, function.num_tensors), true);
  const auto is_there = [&](int tensor) {
    return tensor >= 0 && tensor < function.num_tensors &&
           is_made[static_cast<std::size_t>(tensor)];
  };
  for (const OperatorCall& call : function.calls) {
    std::vector<int> reads;
    for (const OperatorArgument& argument : call.arguments)
      add_reads(argument, reads);
    for (const int tensor : reads)
      if (!is_there(tensor))
        return malformed(call.name + " reads %" + std::to_string(tensor) +
                         ", which is not made before");
    for (const int tensor : call.results) {
      if (tensor >= function.num_tensors || is_there(tensor))
        return malformed(call.name + " makes %" + std::to_string(tensor) +
                         ", which is made already or out of range");
      is_made[static_cast<std::size_t>(tensor)] = true;
    }
  }
  for (const int tensor : function.results)
    if (!is_there(tensor))
      return malformed("the result %" + std::to_string(tensor) +
                       " is not made");
  return {};
}

}  // namespace pipewright
