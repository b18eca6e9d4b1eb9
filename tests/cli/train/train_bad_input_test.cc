// pipewright train on bad input and a bad disk, run as a command: what it
// prints, and what is still there afterwards.

#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "pipewright/base/files.h"
#include "pipewright/base/json.h"
#include "tests/answer.h"
#include "tests/cli/train/train_cases.h"

namespace pipewright {
namespace {

namespace fs = std::filesystem;
using namespace testing;

#ifdef __SANITIZE_THREAD__
constexpr bool kHasThreadSanitizer = true;
#else
constexpr bool kHasThreadSanitizer = false;
#endif

// `before` is shell: limits, traps.
Answer run(const std::string& arguments, const std::string& before = "") {
  return answer_of(before + PIPEWRIGHT_BINARY + " train " + arguments +
                   " 2>&1");
}

void check(const Answer& answer, int code,
           const std::vector<std::string>& parts) {
  INFO(answer.text);
  CHECK(answer.code == code);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(answer.text, part));
  }
}

Plan plan_for(const std::string& name) {
  Plan plan = request_for(load_model(name).value(), "1f1b", 2, 4, "").plan;
  plan.model = name;
  return plan;
}

std::string plan_file(const fs::path& folder, const Plan& plan) {
  const fs::path file = folder / "plan.json";
  REQUIRE(write_file(file, to_json(plan).to_text()).ok());
  return file.string();
}

const std::string kModel = "mlp:features=64,hidden=32";

TEST_CASE("a plan for another model") {
  const TemporaryFolder folder("other-model");
  Plan plan = plan_for(kModel);
  plan.model = "lenet";
  const std::string rest =
      " --data synthetic --steps 1 --run " + (folder.path() / "run").string();
  check(run(plan_file(folder.path(), plan) + rest), 65, {"layer"});
  plan.model = "mlp:features=64,hidden=32,depth=9";
  check(run(plan_file(folder.path(), plan) + rest), 78, {"depth"});
  CHECK(!fs::exists(folder.path() / "run"));
}

TEST_CASE("a profile that is missing, cut off or foreign") {
  const TemporaryFolder folder("profile");
  const std::string file = (folder.path() / "profile.json").string();
  const fs::path where = folder.path() / "run";
  const std::string train = plan_file(folder.path(), plan_for(kModel)) +
                            " --data digits --steps 2 --run " + where.string() +
                            " --profile " + file;
  const auto profile = [&](const std::string& model,
                           const std::string& options) {
    return answer_of(PIPEWRIGHT_BINARY " profile " + model + " --analytic " +
                     options + " -o " + file + " 2>&1");
  };
  check(run(train), 66, {file});
  REQUIRE(profile(kModel, "--device cpu --microbatch 4").code == 0);
  check(run(train), 0, {"predicted"});
  fs::remove_all(where);
  fs::resize_file(file, fs::file_size(file) / 2);
  check(run(train), 65, {file});
  REQUIRE(profile("lenet", "--device cpu --microbatch 4").code == 0);
  check(run(train), 78, {file, "is not a profile of this plan's model"});
  REQUIRE(profile("mlp:features=64,hidden=33", "--device cpu --microbatch 4")
              .code == 0);
  check(run(train), 78, {file, "of parameters, the model's has"});
  REQUIRE(profile(kModel, "--device V100 --microbatch 4").code == 0);
  check(run(train), 78, {file, "cpu"});
  CHECK(!fs::exists(where));
}

TEST_CASE("a fault that would never happen is refused") {
  const TemporaryFolder folder("never");
  const fs::path where = folder.path() / "run";
  const std::string train = plan_file(folder.path(), plan_for(kModel)) +
                            " --data digits --steps 3 --run " + where.string() +
                            " --inject ";
  const std::string never = "would never happen";
  check(run(train + "kill:rank=2,step=1"), 78, {never, "0 to 1"});
  check(run(train + "throw:rank=1,step=4"), 78, {never, "1 to 3"});
  check(run(train + "throw:rank=1,step=0"), 78, {never});
  check(run(train + "throw:rank=1,step=1,action=F4"), 78, {never, "0 to 3"});
  check(run(train + "throw:rank=1,step=1,action=W0"), 78, {never});
  check(run(train + "throw:rank=1,step=1,action=R0"), 78, {never});
  check(run(train + "throw:rank=1,step=1,action=Q0"), 78, {"Q0"});
  check(run(train + "missing:rank=1"), 78, {never, "mpirun"});
  check(run(train + "full:rank=1,step=1"), 78, {never});
  check(run(train + "kill:rank=99999999999,step=1"), 78, {"unknown"});
  CHECK(!fs::exists(where / "checkpoints"));
  check(run(train + "throw:rank=1,step=3,action=B3"), 75, {"made to fail"});
  const Plan alone =
      request_for(load_model(kModel).value(), "1f1b", 1, 4, "").plan;
  Plan plan = alone;
  plan.model = kModel;
  check(run(plan_file(folder.path(), plan) + " --data digits --steps 3 --run " +
            where.string() + " --inject nan:rank=0,step=2,action=F0"),
        78, {never, "exchanges nothing"});
}

TEST_CASE("options that are NaN, infinite or out of range") {
  const TemporaryFolder folder("nan");
  const std::string train = plan_file(folder.path(), plan_for(kModel)) +
                            " --data digits --steps 2 --run " +
                            (folder.path() / "run").string() + " ";
  for (const char* option :
       {"--clip", "--held-out", "--stall-limit", "--set-up-limit", "--lr",
        "--momentum", "--beta1", "--epsilon", "--weight-decay",
        "--correction-decay"})
    for (const char* value : {"nan", "-nan", "inf", "-1", "1e400", "x", ""}) {
      CAPTURE(option);
      CAPTURE(value);
      CHECK(run(train + option + " '" + value + "'").code == 2);
    }
  CHECK(!fs::exists(folder.path() / "run"));
  for (const char* size : {"1000000000", "0", "-1", "2147483648"})
    CHECK(answer_of(PIPEWRIGHT_BINARY " profile " + kModel +
                    " --analytic --device cpu --microbatch " + size +
                    " 2>/dev/null")
              .code == 2);
}

TEST_CASE("memory that is exhausted has its own exit code") {
  const TemporaryFolder folder("memory");
  const fs::path where = folder.path() / "run";
  const std::string rest =
      " --data synthetic --steps 3 --run " + where.string();
  // While it trains: LibTorch is asked for more than there can be.
  check(run(plan_file(folder.path(), plan_for(kModel)) + rest +
            " --inject memory:rank=1,step=2,action=B1"),
        71,
        {"not enough memory for 1", "are free", "worker 1",
         "smaller microbatch"});
  fs::remove_all(where);
  // Before step 0: three matrices of 1.6 TB.
  const std::string large = "mlp:features=64,hidden=632456,layers=4";
  check(run(plan_file(folder.path(), plan_for(large)) + rest), 71,
        {"the plan takes", "worker 0", "TB", "this machine has"});
  CHECK(!fs::exists(where));
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  MESSAGE("not run: the sanitizer reserves more than the limit");
#else
  // A limit is counted as the machine's memory is.
  const std::string medium = "mlp:features=64,hidden=20000,layers=4";
  check(run(plan_file(folder.path(), plan_for(medium)) + rest,
            "ulimit -v 6000000; "),
        71, {"the plan takes", "ulimit -v"});
  const Answer profile =
      answer_of("ulimit -v 6000000; " PIPEWRIGHT_BINARY " profile " + medium +
                " --microbatch 4 2>&1");
  check(profile, 71, {"not enough memory"});
#endif
}

TEST_CASE("data that does not fit: both shapes") {
  const TemporaryFolder folder("shapes");
  const std::string plan =
      plan_file(folder.path(), plan_for("mlp:features=100,hidden=32"));
  check(run(plan + " --data digits --steps 1 --run " + folder.path().string()),
        78, {"8x8", "100"});
}

TEST_CASE("a label out of range: the sample's number") {
  const TemporaryFolder folder("label");
  const std::string plan =
      plan_file(folder.path(), plan_for("mlp:features=64,hidden=32,classes=7"));
  check(run(plan + " --data digits --steps 1 --run " + folder.path().string()),
        65, {"sample 7 has label 7", "7 classes"});
}

TEST_CASE("a run folder that cannot be made") {
  const TemporaryFolder folder("no-folder");
  const std::string plan = plan_file(folder.path(), plan_for(kModel));
  check(run(plan + " --data digits --steps 1 --run /proc/no/run"), 73,
        {"/proc/no/run", "--run"});
}

// A file system of its own, where that is allowed.
TEST_CASE("a full disk is found before the first step") {
  const TemporaryFolder folder("full-disk");
  const std::string plan = plan_file(folder.path(), plan_for(kModel));
  const fs::path disk = folder.path() / "disk";
  fs::create_directories(disk);
  const std::string mount =
      "mount -t tmpfs -o size=16k none " + disk.string() + " 2>/dev/null";
  if (std::system(mount.c_str()) != 0) {
    MESSAGE("no file system could be mounted");
    return;
  }
  const Answer answer =
      run(plan + " --data digits --steps 3 --run " + disk.string());
  const bool has_metrics = fs::exists(disk / "metrics.jsonl");
  CHECK(std::system(("umount " + disk.string()).c_str()) == 0);
  check(answer, 74, {"a checkpoint takes", "free"});
  CHECK(!has_metrics);
}

TEST_CASE("a disk that fills up leaves the old checkpoint") {
  if (kHasThreadSanitizer) {
    MESSAGE("not run: the sanitizer maps a longer file than the limit");
    return;
  }
  const TemporaryFolder folder("fills-up");
  const fs::path where = folder.path() / "run";
  const std::string train =
      plan_file(folder.path(), plan_for("mlp:features=64,hidden=128")) +
      " --data digits --run " + where.string();
  // No file may become longer than 16 KiB; the weights do.
  const std::string limited = "ulimit -f 32; ";
  const Answer first = run(train + " --steps 2", limited);
  check(first, 74, {"layer-0000.safetensors"});
  CHECK(fs::is_empty(where / "checkpoints"));

  check(run(train + " --steps 2"), 0, {"steps 0 to 2"});
  const Answer later = run(train + " --steps 4 --resume", limited);
  check(later, 74, {"the weights of step 2 are kept"});
  CHECK(fs::exists(where / "checkpoints/step-2/manifest.json"));
  CHECK(!fs::exists(where / "checkpoints/step-4"));
  check(run(train + " --steps 4 --resume"), 0, {"steps 2 to 4"});
}

TEST_CASE("a disk that fills up during training: training goes on") {
  const TemporaryFolder folder("full-later");
  const fs::path where = folder.path() / "run";
  const std::string train = plan_file(folder.path(), plan_for(kModel)) +
                            " --data digits --checkpoint-every 2 --run " +
                            where.string();
  check(run(train + " --steps 6 --inject full:step=3"), 74,
        {"step 4 is not saved", "No space left", "training goes on",
         "checkpoint of step 2 is kept", "step 6/6",
         "the weights of step 2 are kept"});
  CHECK(fs::exists(where / "checkpoints/step-2/manifest.json"));
  CHECK(fs::exists(where / "failure_0.json"));
  check(run(train + " --steps 6 --resume"), 0, {"steps 2 to 6"});
}

// A disk that is too full for lines of metrics, too, and then is not.
TEST_CASE("a full disk costs lines, never parts of lines") {
  if (kHasThreadSanitizer) {
    MESSAGE("not run: the sanitizer maps a longer file than the limit");
    return;
  }
  const TemporaryFolder folder("lines");
  const fs::path where = folder.path() / "run";
  const Answer answer =
      run(plan_file(folder.path(), plan_for(kModel)) +
              " --data digits --steps 150 --run " + where.string(),
          "ulimit -f 16; ");
  check(answer, 74,
        {"metrics.jsonl", "training goes on without", "step 150/150"});
  std::ifstream lines(where / "metrics.jsonl");
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count)
    CHECK(parse_json(line, "line").ok());
  CHECK(count > 2);
  CHECK(count < 150);
}

TEST_CASE(
    "a checkpoint cut off or altered: named, and the one before it used") {
  const TemporaryFolder folder("cut-off");
  const fs::path where = folder.path() / "run";
  const std::string train = plan_file(folder.path(), plan_for(kModel)) +
                            " --data digits --run " + where.string();
  check(run(train + " --steps 4 --checkpoint-every 2"), 0, {});
  const fs::path kept = folder.path() / "kept";
  fs::copy(where, kept, fs::copy_options::recursive);
  const std::string name = "checkpoints/step-4/layer-0001.safetensors";
  const auto restore = [&] {
    fs::remove_all(where);
    fs::copy(kept, where, fs::copy_options::recursive);
  };
  fs::resize_file(where / name, fs::file_size(where / name) - 1);
  check(run(train + " --steps 6 --resume"), 0,
        {"warning", "step-4/layer-0001.safetensors", "bytes",
         "resuming from step 2", "steps 2 to 6"});
  restore();
  fs::resize_file(where / name, fs::file_size(where / name) - 1);
  std::ofstream(where / name, std::ios::app) << "x";
  check(run(train + " --steps 6 --resume"), 0,
        {"step-4/layer-0001.safetensors", "altered", "steps 2 to 6"});
  restore();
  for (const char* step : {"step-2", "step-4"})
    fs::remove(where / "checkpoints" / step / "layer-0000.safetensors");
  check(run(train + " --steps 6 --resume"), 65,
        {"step-4/layer-0000.safetensors", "missing", "older ones are damaged"});
}

TEST_CASE("clipping where minibatches overlap") {
  const TemporaryFolder folder("clip");
  Plan plan = request_for(load_model(kModel).value(), "async-1f1b", 2, 4, "",
                          Method::PipeMare)
                  .plan;
  plan.model = kModel;
  check(run(plan_file(folder.path(), plan) +
            " --data digits --steps 9 --clip 1 --run " +
            (folder.path() / "run").string()),
        78, {"clipping", "pipemare"});
}

// A step of this model takes long enough to be interrupted in.
TEST_CASE("a second signal ends the run at once") {
  const TemporaryFolder folder("second");
  const std::string plan = plan_file(
      folder.path(), plan_for("mlp:features=64,hidden=2500,layers=5"));
  const fs::path where = folder.path() / "run";
  const pid_t child = ::fork();
  if (child == 0) {
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1);
    ::dup2(nowhere, 2);
    ::execl(PIPEWRIGHT_BINARY, "pipewright", "train", plan.c_str(), "--data",
            "digits", "--steps", "1000000", "--run", where.c_str(),
            static_cast<char*>(nullptr));
    ::_exit(127);
  }
  std::error_code none;
  for (int i = 0; i < 12'000; ++i) {  // it measures its layers first
    if (fs::exists(where / "metrics.jsonl", none) &&
        fs::file_size(where / "metrics.jsonl", none) > 0)
      break;
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
  }
  ::kill(child, SIGTERM);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  ::kill(child, SIGINT);
  int status = 0;
  ::waitpid(child, &status, 0);
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 130);  // the second one's, not 75
  CHECK(!fs::exists(where / "summary.json"));
}

TEST_CASE("on a terminal one line changes") {
  const TemporaryFolder folder("terminal");
  const std::string plan = plan_file(folder.path(), plan_for(kModel));
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  REQUIRE(terminal >= 0);
  REQUIRE(::grantpt(terminal) == 0);
  REQUIRE(::unlockpt(terminal) == 0);
  const std::string name = ::ptsname(terminal);
  const std::string command =
      std::string(PIPEWRIGHT_BINARY) + " train " + plan +
      " --device cpu --data digits --held-out 0.1 --steps 30 --run " +
      (folder.path() / "run").string() + " 2>" + name + " 1>/dev/null";
  CHECK(std::system(command.c_str()) == 0);
  std::string shown(1 << 16, '\0');
  const int flags = ::fcntl(terminal, F_GETFL);
  ::fcntl(terminal, F_SETFL, flags | O_NONBLOCK);
  const auto count = ::read(terminal, shown.data(), shown.size());
  ::close(terminal);
  REQUIRE(count > 0);
  shown.resize(count);
  for (const char* part : {"\r\x1b[K", "step 30/30", "loss", "samples/s",
                           "left", "bubble", "held out: accuracy"}) {
    CAPTURE(part);
    CHECK(shown.find(part) != std::string::npos);
  }
  // Only finished lines end.
  CHECK(std::count(shown.begin(), shown.end(), '\n') == 2);
}

}  // namespace
}  // namespace pipewright
