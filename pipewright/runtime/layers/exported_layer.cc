// A layer of an exported model: the four functions of its file, bound to
// LibTorch's operators. Frozen parameters and buffers that nobody changes are
// part of the function; buffers that forward changes are its running
// statistics.

#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/model/exported/exported_model.h"
#include "pipewright/runtime/layers/device_constant.h"
#include "pipewright/runtime/layers/exported_weights.h"
#include "pipewright/runtime/layers/layer_description.h"
#include "pipewright/runtime/layers/operator_code.h"

namespace pipewright {
namespace {

void append_all(Tensors& list, const Tensors& more) {
  list.append(more.begin(), more.end());
}

OperatorCode bound_code(const ExportedFunction& function) {
  auto code = OperatorCode::create(function);
  if (!code) throw std::runtime_error(code.error().to_text());
  return *std::move(code);
}

// What depends on the batch size alone, made once for each size and device.
class MadeOnce {
 public:
  Tensors at(const OperatorCode& code, const Tensors& constants,
             const CallContext& context) {
    const std::lock_guard lock(mutex_);
    const Key key(context.batch, context.device.type(), context.device.index());
    if (const auto known = known_.find(key); known != known_.end())
      return known->second;
    return known_[key] = code.run(constants, context);
  }

 private:
  using Key = std::tuple<std::int64_t, at::DeviceType, at::DeviceIndex>;
  std::mutex mutex_;
  std::map<Key, Tensors> known_;
};

// Shared by the layers that have the same functions.
struct BoundFunctions {
  explicit BoundFunctions(const LayerFunctions& f)
      : constants(bound_code(f.constants)),
        forward(bound_code(f.forward)),
        backward_input(bound_code(f.backward_input)),
        backward_weight(bound_code(f.backward_weight)) {}

  const OperatorCode constants, forward, backward_input, backward_weight;
  MadeOnce made_once;  // for layers without constants of their own
};

// Those of layers that exist, or new ones.
std::shared_ptr<BoundFunctions> bound_functions(
    const LayerFunctions& functions) {
  static std::mutex mutex;
  static std::map<const LayerFunctions*, std::weak_ptr<BoundFunctions>> all;
  const std::lock_guard lock(mutex);
  if (auto known = all[&functions].lock()) return known;
  auto bound = std::make_shared<BoundFunctions>(functions);
  all[&functions] = bound;
  return bound;
}

// The batch size, as seen in one of these tensors or in the one after them.
std::int64_t batch_in(const BatchPlace& place, const Tensors& tensors,
                      const at::Tensor& last = {}) {
  if (place.tensor < 0) return 1;
  const auto i = static_cast<std::size_t>(place.tensor);
  const at::Tensor& seen = i < tensors.size() ? tensors[i] : last;
  return seen.size(place.dimension) / place.factor;
}

Tensors on_device(const std::deque<DeviceConstant>& constants,
                  const at::Device& device) {
  Tensors tensors;
  for (const DeviceConstant& one : constants) tensors.push_back(one.on(device));
  return tensors;
}

class ExportedLayerFunction final : public LayerFunction {
 public:
  explicit ExportedLayerFunction(const LayerDescription& description)
      : id_(description.id),
        wanted_(description.wanted),
        functions_(description.model->exported()->functions_of(id_)),
        own_(description.model->exported()->layers[id_.index()]),
        bound_(bound_functions(functions_)) {
    for (const std::string& name : own_.constants)
      constants_.emplace_back(exported_buffer(*description.model, name));
    for (const std::string& name : own_.buffers)
      buffers_.emplace_back(exported_buffer(*description.model, name));
  }

  Forwarded forward(const Tensors& inputs, const Tensors& weights,
                    const ForwardContext& context) const override {
    PIPEWRIGHT_CHECK(context.statistics || !functions_.reads_buffers,
                     "a layer that reads the buffers it changes is recomputed");
    CallContext call;
    call.batch = batch_in(functions_.forward_batch, inputs);
    call.device = inputs[0].device();
    call.training = context.training;
    call.seed = context.seed;
    call.microbatch = static_cast<std::uint64_t>(context.microbatch);
    call.layer = static_cast<std::uint64_t>(id_.value);
    call.first_sample = context.first_sample;
    call.number = context.number;
    call.draws = context.draws;
    Tensors arguments = inputs;
    append_all(arguments, weights);
    append_all(arguments, context.statistics
                              ? *context.statistics
                              : on_device(buffers_, call.device));
    append_fixed(arguments, call);
    const Tensors results = bound_->forward.run(arguments, call);
    if (context.statistics && context.training)
      update(*context.statistics, results);
    Forwarded forwarded;
    forwarded.output = results[0];
    // Some kernels leave one number in the storage of all that they reduced.
    if (forwarded.output.dim() == 0)
      forwarded.output = forwarded.output.clone();
    forwarded.kept_private.append(results.begin() + 1 + own_.updates.size(),
                                  results.end());
    return forwarded;
  }

  Tensors backward_input(const KeptTensors& kept, const Tensors& weights,
                         const at::Tensor& gradient,
                         Tensors* carried) const override {
    Tensors arguments = kept_tensors(kept);
    const CallContext call = backward_call(arguments, gradient);
    append_all(arguments, weights);
    arguments.push_back(gradient);
    append_fixed(arguments, call);
    const Tensors results = bound_->backward_input.run(arguments, call);
    Tensors gradients(wanted_.size());
    std::size_t next = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i)
      if (wanted_[i]) gradients[i] = results[next++];
    if (carried) carried->append(results.begin() + next, results.end());
    return gradients;
  }

  Tensors backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                          const Tensors& carried) const override {
    Tensors gradients = weight_gradients(kept, gradient, carried);
    // The caller adds to them: what is someone else's, too, is copied. That may
    // be another parameter's gradient: the same tensor, or its storage.
    for (at::Tensor& one : gradients)
      if (one.use_count() > 1 || one.storage().use_count() > 1 ||
          !one.is_contiguous())
        one = one.clone(at::MemoryFormat::Contiguous);
    return gradients;
  }

  void add_backward_weight(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors& carried,
                           Tensors& sums) const override {
    const Tensors parts = weight_gradients(kept, gradient, carried);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i].add_(parts[i]);
  }

  bool draws() const override { return bound_->forward.draws(); }

  Tensors initial_statistics() const override {
    Tensors copies;
    for (const at::Tensor& buffer : on_device(buffers_, at::kCPU))
      copies.push_back(buffer.clone());
    return copies;
  }

 private:
  void update(Tensors& statistics, const Tensors& results) const {
    for (std::size_t i = 0; i < own_.updates.size(); ++i)
      statistics[static_cast<std::size_t>(own_.updates[i])].copy_(
          results[1 + i]);
  }

  void append_fixed(Tensors& arguments, const CallContext& call) const {
    const Tensors constants = on_device(constants_, call.device);
    MadeOnce& made = constants_.empty() ? bound_->made_once : made_once_;
    append_all(arguments, constants);
    append_all(arguments, made.at(bound_->constants, constants, call));
  }

  Tensors kept_tensors(const KeptTensors& kept) const {
    Tensors tensors;
    for (const int input : functions_.keeps_inputs)
      tensors.push_back(kept.inputs[static_cast<std::size_t>(input)]);
    if (functions_.keeps_output) tensors.push_back(kept.output);
    append_all(tensors, kept.kept_private);
    return tensors;
  }

  CallContext backward_call(const Tensors& kept,
                            const at::Tensor& gradient) const {
    CallContext call;
    call.batch = batch_in(functions_.backward_batch, kept, gradient);
    call.device = gradient.device();
    return call;
  }

  Tensors weight_gradients(const KeptTensors& kept, const at::Tensor& gradient,
                           const Tensors& carried) const {
    Tensors arguments = kept_tensors(kept);
    const CallContext call = backward_call(arguments, gradient);
    arguments.push_back(gradient);
    append_fixed(arguments, call);
    append_all(arguments, carried);
    return bound_->backward_weight.run(arguments, call);
  }

  const LayerId id_;
  const std::vector<bool> wanted_;
  const LayerFunctions& functions_;  // of the model, which outlives this
  const ExportedLayer& own_;
  const std::shared_ptr<BoundFunctions> bound_;
  std::deque<DeviceConstant> constants_, buffers_;
  mutable MadeOnce made_once_;  // where there are constants
};

}  // namespace

std::unique_ptr<const LayerFunction> make_exported(
    LayerDescription description) {
  return std::make_unique<ExportedLayerFunction>(description);
}

}  // namespace pipewright
