#include "pipewright/runtime/layers/bound_argument.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/jit_type.h>

#include <map>

#include "pipewright/runtime/random_stream.h"
#include "pipewright/runtime/unsupported_operator.h"

namespace pipewright {
namespace {

using Given = OperatorArgument::Kind;

// Number types, layouts and memory formats by their names in the file.
std::optional<c10::IValue> word_value(const std::string& word) {
  static const std::map<std::string, c10::IValue> kWords = {
      {"float64", at::kDouble},
      {"float32", at::kFloat},
      {"float16", at::kHalf},
      {"bfloat16", at::kBFloat16},
      {"int64", at::kLong},
      {"int32", at::kInt},
      {"int16", at::kShort},
      {"int8", at::kChar},
      {"uint8", at::kByte},
      {"bool", at::kBool},
      {"complex64", at::kComplexFloat},
      {"strided", at::kStrided},
      {"contiguous_format", at::MemoryFormat::Contiguous},
      {"channels_last", at::MemoryFormat::ChannelsLast},
      {"channels_last_3d", at::MemoryFormat::ChannelsLast3d},
      {"preserve_format", at::MemoryFormat::Preserve}};
  const auto found = kWords.find(word);
  if (found == kWords.end()) return std::nullopt;
  return found->second;
}

c10::TypePtr without_optional(const c10::TypePtr& type) {
  if (type->kind() != c10::TypeKind::OptionalType) return type;
  return type->castRaw<c10::OptionalType>()->getElementType();
}

// A number where a tensor is wanted, as Python gives it: it does not decide the
// type of the result.
at::Tensor wrapped_number(const at::Scalar& number) {
  at::Tensor tensor =
      at::scalar_tensor(number, at::TensorOptions(number.type()));
  tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
  return tensor;
}

c10::IValue integer_value(std::int64_t integer, c10::TypeKind wanted) {
  if (wanted == c10::TypeKind::TensorType) return wrapped_number(integer);
  if (wanted == c10::TypeKind::FloatType) return static_cast<double>(integer);
  if (wanted == c10::TypeKind::ListType)
    return std::vector<std::int64_t>{integer};
  return integer;
}

double real_of(const OperatorArgument& given) {
  return given.kind == Given::Real ? given.real
                                   : static_cast<double>(given.integer.number);
}

Error not_bound(const c10::Argument& wanted) {
  return bad_configuration("its argument " + wanted.name() + " must be " +
                           wanted.type()->str());
}

}  // namespace

Result<BoundArgument> BoundArgument::create(const OperatorArgument& given,
                                            const c10::Argument& wanted) {
  BoundArgument result;
  const c10::TypePtr type = without_optional(wanted.type());
  result.type_ = type->kind();
  if (given.kind == Given::Default && wanted.default_value())
    result.constant_ = *wanted.default_value();
  if (auto bound = result.bind(given, type); !bound || !result.fits(wanted))
    return not_bound(wanted);
  if (wanted.name() == "generator") result.kind_ = Kind::Generator;
  result.set_evaluation(wanted);
  return result;
}

Result<void> BoundArgument::bind(const OperatorArgument& given,
                                 const c10::TypePtr& type) {
  switch (given.kind) {
    case Given::Default:
    case Given::None:
      // What is made from nothing is made where the layer runs.
      if (type_ == c10::TypeKind::DeviceObjType) kind_ = Kind::Device;
      break;
    case Given::Tensor:
      kind_ = Kind::Tensor;
      tensors_ = {given.tensor};
      break;
    case Given::Flag:
      constant_ = type_ == c10::TypeKind::TensorType
                      ? c10::IValue(wrapped_number(given.flag))
                      : c10::IValue(given.flag);
      break;
    case Given::Integer:
      constant_ = integer_value(given.integer.number, type_);
      if (given.integer.is_number()) break;
      kind_ = Kind::Integer;
      integers_ = {given.integer};
      break;
    case Given::Real:
      constant_ = type_ == c10::TypeKind::TensorType
                      ? c10::IValue(wrapped_number(given.real))
                      : c10::IValue(given.real);
      break;
    case Given::Text:
      constant_ = given.text;
      break;
    case Given::Word:
      if (given.text == "device") {
        kind_ = Kind::Device;
      } else if (const auto word = word_value(given.text)) {
        constant_ = *word;
      } else {
        return bad_configuration("an unknown word");
      }
      break;
    case Given::List:
      if (type_ != c10::TypeKind::ListType)
        return bad_configuration("not a list");
      return bind_list(given, type->castRaw<c10::ListType>()->getElementType());
  }
  return {};
}

Result<void> BoundArgument::bind_list(const OperatorArgument& given,
                                      const c10::TypePtr& element) {
  const c10::TypeKind kind = element->kind();
  if (kind == c10::TypeKind::TensorType ||
      kind == c10::TypeKind::OptionalType) {
    const bool is_optional = kind == c10::TypeKind::OptionalType;
    kind_ = is_optional ? Kind::OptionalTensorList : Kind::TensorList;
    for (const OperatorArgument& one : given.elements) {
      if (one.kind != Given::Tensor && !is_optional)
        return bad_configuration("not a tensor");
      tensors_.push_back(one.kind == Given::Tensor ? one.tensor : -1);
    }
  } else if (kind == c10::TypeKind::BoolType) {
    c10::List<bool> list;
    for (const OperatorArgument& one : given.elements) list.push_back(one.flag);
    constant_ = list;
  } else if (kind == c10::TypeKind::FloatType) {
    c10::List<double> list;
    for (const OperatorArgument& one : given.elements)
      list.push_back(real_of(one));
    constant_ = list;
  } else {
    std::vector<std::int64_t> numbers;
    for (const OperatorArgument& one : given.elements) {
      if (!one.integer.is_number()) kind_ = Kind::Integers;
      numbers.push_back(one.integer.number);
      integers_.push_back(one.integer);
    }
    constant_ = numbers;
  }
  return {};
}

// Also for what is filled in per call: `constant_` then has its type.
bool BoundArgument::fits(const c10::Argument& wanted) const {
  if (kind_ == Kind::Tensor) return type_ == c10::TypeKind::TensorType;
  if (kind_ == Kind::Device) return type_ == c10::TypeKind::DeviceObjType;
  if (kind_ == Kind::TensorList || kind_ == Kind::OptionalTensorList)
    return true;
  if (type_ == c10::TypeKind::NumberType && constant_.isBool()) return true;
  return constant_.type()->isSubtypeOf(*wanted.type());
}

// Arguments that say whether the model is in training have another value in
// evaluation.
void BoundArgument::set_evaluation(const c10::Argument& wanted) {
  in_evaluation_ = constant_;
  const bool is_flag = wanted.name() == "train" || wanted.name() == "training";
  if (is_flag && constant_.isBool()) in_evaluation_ = false;
  if (wanted.name() == "dropout_p" && constant_.isDouble())
    in_evaluation_ = 0.0;
}

c10::IValue BoundArgument::value(std::span<const at::Tensor> held,
                                 const CallContext& context,
                                 std::uint64_t call) const {
  const auto tensor = [&](int i) { return held[static_cast<std::size_t>(i)]; };
  switch (kind_) {
    case Kind::Constant:
      return context.training ? constant_ : in_evaluation_;
    case Kind::Tensor:
      return tensor(tensors_[0]);
    case Kind::Integer:
      return integer_value(integers_[0].at(context.batch), type_);
    case Kind::Integers: {
      std::vector<std::int64_t> numbers;
      numbers.reserve(integers_.size());
      for (const BatchExpression& one : integers_)
        numbers.push_back(one.at(context.batch));
      return numbers;
    }
    case Kind::TensorList: {
      c10::List<at::Tensor> list;
      for (const int i : tensors_) list.push_back(tensor(i));
      return list;
    }
    case Kind::OptionalTensorList: {
      c10::List<std::optional<at::Tensor>> list;
      for (const int i : tensors_)
        list.push_back(i < 0 ? std::nullopt : std::optional(tensor(i)));
      return list;
    }
    case Kind::Device:
      return context.device;
    case Kind::Generator:
      if (!context.device.is_cpu())
        throw UnsupportedOperator(
            "random operators other than dropout run on cores only",
            "train this model with --device cpu");
      if (context.draws) *context.draws = true;
      return at::detail::createCPUGenerator(
          RandomStream(context.seed, context.microbatch, context.layer)
              .bits(call));
  }
  return {};
}

}  // namespace pipewright
