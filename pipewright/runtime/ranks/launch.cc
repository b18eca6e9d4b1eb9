// Start and end of a rank; see launch.h.

#include "pipewright/runtime/ranks/launch.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "pipewright/base/text.h"
#include "pipewright/plan/rank_devices.h"
#include "pipewright/runtime/channels/launcher.h"
#include "pipewright/runtime/channels/message_checksum.h"
#include "pipewright/runtime/channels/rank_transport.h"
#include "pipewright/runtime/ranks/agreement.h"
#include "pipewright/runtime/ranks/commands.h"
#include "pipewright/runtime/ranks/failure_report.h"
#include "pipewright/runtime/ranks/heartbeat.h"
#include "pipewright/runtime/ranks/roll_call.h"
#include "pipewright/runtime/ranks/watched_transport.h"

namespace pipewright {
namespace {

// Calls give_up if it still exists after the limit: MPI waits for ever
// for a rank that is missing.
class SetUpWatch {
 public:
  SetUpWatch(Seconds limit, std::function<void()> give_up)
      : thread_([this, limit, give_up = std::move(give_up)] {
          std::unique_lock lock(mutex_);
          const bool done =
              over_.wait_for(lock, std::chrono::duration<double>(limit.value()),
                             [this] { return is_over_; });
          if (!done) give_up();
        }) {}
  ~SetUpWatch() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    over_.notify_all();
    thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

// As of a run folder that another process has: it may be there later.
constexpr ErrorCode kUnavailable = ErrorCode::InUse;

const char* const kHowToResume = "start again with --resume";

class RankLaunch final : public Launch {
 public:
  explicit RankLaunch(LaunchRequest request) : request_(std::move(request)) {
    limits_.set_up = request_.set_up_limit;
    limits_.least = request_.least_limit;
  }

  Result<void> join(std::optional<Injection> injection) {
    std::unique_ptr<Transport> transport = in_process_transport();
    if (auto alone = check_launcher(); !alone) return alone;
    if (is_launched()) {
      rank_ = rank_of_launcher();
      if (injection && injection->kind == Injection::Kind::Missing &&
          rank_ == injection->rank)
        inject(*injection);
      has_met_ = false;
      roll_call_.answer(rank_);
      set_up_ = std::make_unique<SetUpWatch>(
          limits_.set_up, [this] { give_up(missing(), false); });
      PIPEWRIGHT_TRY(session_, started_session());
      if (request_.fast_reduce && !session_->network().adds_up())
        return bad_configuration(
            "--fast-reduce leaves sums to MPI, and these ranks talk over " +
                session_->network().name(),
            "leave it out, or start the ranks by mpirun");
      transport =
          session_->connect({request_.fast_reduce, request_.progress_thread,
                             request_.checksum, LinkChoice{request_.links}});
    }
    // Ranks would no longer agree on what comes next: this one ends at once.
    transport_ = watched_transport(
        std::move(transport), progress_, std::move(injection),
        [this](const CorruptedMessage& message) {
          give_up(error_of(message), false);
        },
        {[this] {
           return action_limit(limits_, progress_.snapshot().longest_step);
         },
         [this](bool is) { progress_.set_device_busy(is); },
         [this](const Error& error) { end_at_once(error); }});
    rank_ = transport_->rank();
    size_ = transport_->num_ranks();
    return {};
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  Transport* transport() override { return transport_.get(); }
  int signal() const override {
    if (heartbeat_) return heartbeat_->signal();
    return request_.signal ? request_.signal() : 0;
  }

  std::vector<std::string> hosts() override { return texts(host_name()); }
  std::vector<std::string> texts(std::string mine) override {
    return texts_of_ranks(*transport_, std::move(mine));
  }
  std::string leaders_text(std::string text) override {
    return transport_->broadcast(std::move(text));
  }

  Result<void> agree(const Result<Intentions>& mine, const Plan& plan,
                     const Cluster* cluster) override {
    bool is_new = false;
    if (session_)
      for (const std::string& each :
           texts(roll_call_.has_made_folder() ? "new" : ""))
        is_new = is_new || !each.empty();
    Result<void> agreed = agree_on(mine, plan, cluster);
    is_refused_ = is_new && !agreed;
    return agreed;
  }

  // Roll call has made the run folder, if that can be.
  void report(const Error& error, int signal) const override {
    if (error.code == kUnavailable && has_met_) return;  // it is another's
    if (is_refused_) return;
    write_failure(request_.run, rank_, error, signal, progress_);
  }

  void finish(const Outcome& outcome) override {
    if (heartbeat_ && leads()) shut_down(*transport_, outcome);
    set_up_.reset();
    roll_call_.end(rank_);
    if (is_refused_) roll_call_.remove_new_folder();
    if (heartbeat_) heartbeat_->finish();
    if (!outcome.ended_well) return;
    heartbeat_.reset();
    transport_.reset();
    session_.reset();
  }

 private:
  Result<void> agree_on(const Result<Intentions>& mine, const Plan& plan,
                        const Cluster* cluster) {
    if (auto same = pipewright::agree(*transport_, mine); !same) return same;
    remove_failure(request_.run, rank_);
    if (!session_) return {};
    if (plan.num_workers() != size())
      return bad_configuration(
          "the plan has " + std::to_string(plan.num_workers()) +
              " workers, and " + std::to_string(size()) +
              (size() == 1 ? " rank was started" : " ranks were started"),
          "start " + std::to_string(plan.num_workers()) +
              ", or use no launcher: all workers then run in one process");
    const std::vector<std::string> hosts = this->hosts();
    if (cluster != nullptr)
      if (auto placed = check_hosts(*cluster, plan, hosts); !placed)
        return placed;
    PIPEWRIGHT_TRY(
        heartbeat_,
        Heartbeat::start(
            *transport_, progress_, limits_,
            {[this, hosts](const Verdict& verdict, bool from_leader) {
               give_up(lost(verdict, hosts), from_leader);
             },
             request_.signal,
             [this, hosts](int rank, Seconds silence) {
               if (request_.on_stall)
                 request_.on_stall(named(rank, hosts) + " was silent for " +
                                   to_text(silence) + "; training goes on");
             }}));
    transport_->broadcast({});  // rank 0 has heard of all
    set_up_.reset();
    has_met_ = true;
    roll_call_.end(rank_);
    return {};
  }

  // Who is missing is known here, not there: it may take longer.
  Result<std::unique_ptr<RankSession>> started_session() const {
    auto session = RankSession::start(limits_.set_up * 2);
    if (session || session.error().code != kUnavailable) return session;
    Error error = session.error();
    if (const std::string absent = roll_call_.absent(); !absent.empty())
      error.message += "; missing: " + absent;
    report(error, 0);
    return error;
  }

  Error missing() const {
    const std::string limit = to_text(limits_.set_up);
    if (const std::string absent = roll_call_.absent(); !absent.empty())
      return {kUnavailable,
              "missing " + limit + " after the start: " + absent,
              "",
              "look why it does not start, then start again",
              {}};
    return {kUnavailable,
            "ranks are missing: not all have connected within " + limit,
            "",
            "can the hosts reach each other's ports?",
            {}};
  }

  static std::string named(int rank, const std::vector<std::string>& hosts) {
    const auto index = static_cast<std::size_t>(rank);
    return "rank " + std::to_string(rank) + " on " +
           (index < hosts.size() ? hosts[index] : "?");
  }

  Error named_here(Error error) const {
    if (session_)
      error.message = "rank " + std::to_string(rank_) + " on " + host_name() +
                      ": " + error.message;
    return error;
  }

  static Error lost(const Verdict& verdict,
                    const std::vector<std::string>& hosts) {
    const std::string text = named(verdict.rank, hosts) + " " + verdict.text;
    // What else it said has a way out of its own, which it prints.
    const bool may_resume = verdict.code == ErrorCode::WorkerLost;
    return {verdict.code, text, "", may_resume ? kHowToResume : "", {}};
  }

  void end_at_once(const Error& error) const {
    if (heartbeat_) heartbeat_->say_why(error);
    give_up(named_here(error), false);
  }

  void give_up(const Error& error, bool leader_prints_it) const {
    report(error, 0);
    request_.give_up(error, leader_prints_it);
  }

  const LaunchRequest request_;
  Limits limits_;
  RollCall roll_call_{request_.run, start_of_launcher(),
                      num_ranks_of_launcher()};
  bool has_met_ = true;      // the other ranks, where there are any
  bool is_refused_ = false;  // before the run, whose folder is new
  int rank_ = 0, size_ = 1;
  Progress progress_;
  std::unique_ptr<SetUpWatch> set_up_;
  std::unique_ptr<RankSession> session_;
  std::unique_ptr<Transport> transport_;
  std::unique_ptr<Heartbeat> heartbeat_;
};

}  // namespace

Result<std::unique_ptr<Launch>> Launch::start(const LaunchRequest& request) {
  std::optional<Injection> injection;
  if (!request.inject.empty()) {
    PIPEWRIGHT_TRY(injection, parse_injection(request.inject));
  }
  auto launch = std::make_unique<RankLaunch>(request);
  if (auto joined = launch->join(std::move(injection)); !joined)
    return joined.error();
  return std::unique_ptr<Launch>(std::move(launch));
}

}  // namespace pipewright
