// Samples that another process hands over; see training_samples.h.

#include <ATen/ops/from_blob.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <utility>

#include "pipewright/base/check.h"
#include "pipewright/base/text.h"
#include "pipewright/runtime/data/training_samples.h"

namespace pipewright {
namespace {

constexpr std::int64_t kMinibatchesAhead = 2;
constexpr std::int64_t kAlignment = 64;

std::int64_t rounded_up(std::int64_t bytes, std::int64_t to) {
  return (bytes + to - 1) / to * to;
}

// Where a minibatch is: in this process, and in the file.
struct Place {
  char* memory = nullptr;
  std::int64_t offset = 0;
};

// Pieces of the file, each for one minibatch.
class Places {
 public:
  Places(int file, std::int64_t bytes)
      : file_(file), bytes_(rounded_up(bytes, ::sysconf(_SC_PAGESIZE))) {}
  ~Places() {
    for (const Place& place : all_)
      ::munmap(place.memory, static_cast<std::size_t>(bytes_));
  }
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  Place take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) add();
    const Place place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(const Place& place) {
    const std::lock_guard lock(mutex_);
    free_.push_back(place);
  }

 private:
  void add() {
    const auto offset = static_cast<std::int64_t>(all_.size()) * bytes_;
    void* memory = MAP_FAILED;
    if (::ftruncate(file_, offset + bytes_) == 0)
      memory = ::mmap(nullptr, static_cast<std::size_t>(bytes_),
                      PROT_READ | PROT_WRITE, MAP_SHARED, file_, offset);
    if (memory == MAP_FAILED)
      throw std::runtime_error("there is no memory for the " +
                               std::to_string(bytes_) +
                               " bytes of a minibatch's samples");
    all_.push_back({static_cast<char*>(memory), offset});
    free_.push_back(all_.back());
  }

  const int file_;
  const std::int64_t bytes_;
  std::mutex mutex_;  // of what follows
  std::vector<Place> all_, free_;
};

// The samples of a step, while the source or a tensor has them.
class FedMinibatch {
 public:
  explicit FedMinibatch(std::shared_ptr<Places> places)
      : places_(std::move(places)), place_(places_->take()) {}
  ~FedMinibatch() { places_->give_back(place_); }
  FedMinibatch(const FedMinibatch&) = delete;
  FedMinibatch& operator=(const FedMinibatch&) = delete;
  const Place& place() const { return place_; }

 private:
  const std::shared_ptr<Places> places_;
  const Place place_;
};

class FedSamples : public TrainingSamples {
 public:
  FedSamples(std::vector<ModelInput> forms, int socket, int file)
      : forms_(std::move(forms)), socket_(socket), file_(file) {}
  ~FedSamples() override {
    ::close(socket_);
    ::close(file_);
  }

  std::int64_t num_samples() const override { return 0; }
  bool wants_loader(int) const override { return false; }

  MicrobatchSource microbatches(const SampleRequest& request) override {
    request_ = request;
    next_ = num_there_ = request.first;
    std::int64_t bytes = 0;
    for (const ModelInput& form : forms_) {
      begins_.push_back(bytes);
      bytes += rounded_up(microbatch_bytes(form) * request.num_microbatches,
                          kAlignment);
    }
    places_ = std::make_shared<Places>(file_, bytes);
    return [this](int input, std::int64_t microbatch) {
      return samples(static_cast<std::size_t>(input), microbatch);
    };
  }

  bool has_step(std::int64_t step) override {
    std::unique_lock lock(mutex_);
    return wait_for(step, lock);
  }

 private:
  using Minibatch = std::shared_ptr<const FedMinibatch>;
  struct Held {
    Minibatch minibatch;
    std::int64_t reads_left = 0;
  };

  std::int64_t microbatch_bytes(const ModelInput& form) const {
    return size_of(form.type).value() * num_elements(form.shape) *
           request_.microbatch;
  }

  at::Tensor samples(std::size_t input, std::int64_t microbatch) {
    const ModelInput& form = forms_[input];
    const Minibatch minibatch = read(microbatch / request_.num_microbatches);
    char* const first =
        minibatch->place().memory + begins_[input] +
        microbatch % request_.num_microbatches * microbatch_bytes(form);
    return at::from_blob(
        first, sizes_of(request_.microbatch, form.shape), [minibatch](void*) {},
        at::TensorOptions(scalar_type(form.type)));
  }

  // Whether the samples of the step are there.
  bool wait_for(std::int64_t step, std::unique_lock<std::mutex>& lock) {
    ask_until(step);
    while (num_there_ <= step && !has_ended_) {
      if (is_reading_)
        changed_.wait(lock);
      else
        read_answer(lock);
    }
    return num_there_ > step;
  }

  // The last that asks takes it away.
  Minibatch read(std::int64_t step) {
    std::unique_lock lock(mutex_);
    if (!wait_for(step, lock))
      throw std::runtime_error("the data ended before the samples of step " +
                               std::to_string(step + 1));
    const auto found = held_.find(step);
    PIPEWRIGHT_CHECK(found != held_.end(), "samples were read too often");
    const Minibatch minibatch = found->second.minibatch;
    if (--found->second.reads_left == 0) held_.erase(found);
    return minibatch;
  }

  // Also for the next steps.
  void ask_until(std::int64_t step) {
    const std::int64_t last =
        std::max(step, std::min(step + kMinibatchesAhead, request_.end - 1));
    for (; next_ <= last && !is_closed_; ++next_) {
      const auto minibatch = std::make_shared<const FedMinibatch>(places_);
      held_[next_] = {minibatch, request_.num_reads(next_)};
      const std::array<std::int64_t, 2> message = {next_,
                                                   minibatch->place().offset};
      if (::send(socket_, message.data(), sizeof(message), MSG_NOSIGNAL) !=
          static_cast<ssize_t>(sizeof(message)))
        is_closed_ = true;  // there may be answers all the same
    }
  }

  // By one thread at a time; the others can take what is there.
  void read_answer(std::unique_lock<std::mutex>& lock) {
    is_reading_ = true;
    lock.unlock();
    std::int64_t number = 0;
    ssize_t size = 0;
    do {
      size = ::recv(socket_, &number, sizeof(number), MSG_WAITALL);
    } while (size < 0 && errno == EINTR);
    lock.lock();
    is_reading_ = false;
    if (size == static_cast<ssize_t>(sizeof(number)) && number == num_there_)
      ++num_there_;
    else
      has_ended_ = true;
    changed_.notify_all();
  }

  const std::vector<ModelInput> forms_;
  const int socket_, file_;
  SampleRequest request_;
  std::vector<std::int64_t> begins_;  // of each input in a minibatch's place
  std::shared_ptr<Places> places_;    // tensors may live on

  std::mutex mutex_;  // of what follows
  std::condition_variable changed_;
  std::map<std::int64_t, Held> held_;  // by step
  // Steps: the next to be asked for, and those whose samples are there.
  std::int64_t next_ = 0, num_there_ = 0;
  bool is_reading_ = false, is_closed_ = false, has_ended_ = false;
};

bool is_open(int descriptor) { return ::fcntl(descriptor, F_GETFD) >= 0; }

// From "SOCKET,MEMORY".
std::optional<std::pair<int, int>> inherited_descriptors() {
  const char* text = std::getenv("PIPEWRIGHT_FEED");
  if (text == nullptr) return std::nullopt;
  const std::string both = text;
  const std::size_t comma = both.find(',');
  if (comma == std::string::npos) return std::nullopt;
  const auto socket = parse_integer(both.substr(0, comma));
  const auto file = parse_integer(both.substr(comma + 1));
  constexpr std::int64_t kMaxDescriptor = 1 << 20;
  for (const auto& one : {socket, file})
    if (!one || *one < 0 || *one > kMaxDescriptor ||
        !is_open(static_cast<int>(*one)))
      return std::nullopt;
  return std::pair(static_cast<int>(*socket), static_cast<int>(*file));
}

}  // namespace

Result<std::unique_ptr<TrainingSamples>> fed_samples(const Model& model) {
  const auto descriptors = inherited_descriptors();
  if (!descriptors)
    return bad_configuration(
        "no process hands samples over to this one",
        "call train() of the Python package, or give another --data");
  return std::unique_ptr<TrainingSamples>(std::make_unique<FedSamples>(
      model.inputs(), descriptors->first, descriptors->second));
}

}  // namespace pipewright
