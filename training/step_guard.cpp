#include "training/step_guard.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <utility>

#include "training/agreement.hpp"
#include "training/hash.hpp"
#include "training/outcome.hpp"
#include "tutti/stats.hpp"

namespace tutti::training {
namespace {

constexpr unsigned kGroupBits = 28;
/// So many times its patience a rank that fails waits for the others to hear of it: they may be
/// computing, or in calls that are not the engine's.
constexpr int kTelling = 10;

std::uint32_t entry_of(Operation operation, std::uint32_t group) {
  return static_cast<std::uint32_t>(operation) << kGroupBits | (group & ((1U << kGroupBits) - 1));
}

/// Revokes a communicator if it lives for too long: a call on it ends then.
class Deadline {
 public:
  Deadline(Comm& comm, std::chrono::milliseconds limit)
      : thread_([this, &comm, limit] {
          std::unique_lock lock(mutex_);
          if (!ends_.wait_for(lock, limit, [this] { return is_over_; })) comm.revoke();
        }) {}
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      is_over_ = true;
    }
    ends_.notify_all();
  }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable ends_;
  bool is_over_ = false;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace

StepGuard::StepGuard(std::shared_ptr<const FlatLayout> layout, Comm control,
                     std::chrono::milliseconds patience)
    : layout_(std::move(layout)),
      control_(std::move(control)),
      rank_(control_.rank()),
      patience_(patience) {
  if (control_.size() > 1) watcher_ = std::thread([this] { watch(); });
}

StepGuard::~StepGuard() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(ending_);
    is_ending_ = true;
  }
  ends_.notify_all();
  if (round_.try_lock())
    round_.unlock();
  else
    control_.revoke();  // the watcher waits for the others, who may not come
  watcher_.join();
}

void StepGuard::note(Operation operation, std::uint32_t group) {
  const std::lock_guard lock(noting_);
  noted_.push_back(entry_of(operation, group));
}

Status StepGuard::wait(Stream& stream) {
  const auto begin = std::chrono::steady_clock::now();
  waits_.fetch_add(1);
  Status outcome = stream.synchronize();
  waits_.fetch_add(1);
  waited_ += std::chrono::steady_clock::now() - begin;
  return check(std::move(outcome));
}

Status StepGuard::check(Status outcome) {
  if (outcome) return outcome;
  const std::lock_guard lock(round_);
  if (fault_) return *fault_;
  revoke_channels();                                     // no rank is to wait for this one
  (void)compare(State::kHurt, 0, outcome.error().what);  // may find who is to blame
  if (!fault_) fault_ = std::move(outcome).error();
  return *fault_;
}

Result<float> StepGuard::meet(float value) {
  const auto begin = std::chrono::steady_clock::now();
  const std::lock_guard lock(round_);
  while (true) {
    if (fault_) return *fault_;
    TRAINING_ASSIGN(const Round round, compare(State::kDone, value, ""));
    if (!round.all_done) continue;
    const std::lock_guard noting(noting_);
    noted_.clear();
    ++step_;
    waited_ += std::chrono::steady_clock::now() - begin;
    return round.largest;
  }
}

Status StepGuard::add_up(std::span<std::int64_t> numbers) {
  if (control_.size() == 1) return ok_status();
  const auto begin = std::chrono::steady_clock::now();
  Status added = ok_status();
  {
    const std::lock_guard lock(round_);
    if (fault_) return *fault_;
    added = control_.all_reduce<std::int64_t>(numbers, numbers);
  }
  waited_ += std::chrono::steady_clock::now() - begin;
  return check(std::move(added));
}

Error StepGuard::give_up(Error error) {
  const std::lock_guard lock(round_);
  if (fault_) return error;
  revoke_channels();
  fault_ = error;
  const Deadline deadline(control_, kTelling * patience_);
  (void)compare(State::kFailed, 0, error.what);
  return error;
}

/// What all ranks do together: one message where all are done alike, else all of their notes. Sets
/// the fault and returns it where one of them is to blame. Under round_.
Result<StepGuard::Round> StepGuard::compare(State state, float value, const std::string& text) {
  Hash hash;
  {
    const std::lock_guard lock(noting_);
    for (const std::uint32_t entry : noted_) hash.add(entry);
  }
  const std::uint64_t own = hash.value();
  // The largest of each: of a value that is not negative, its bits order as it does; a hash and its
  // complement are both the largest only where all are alike.
  std::array<std::uint64_t, 4> words = {std::bit_cast<std::uint32_t>(value), own, ~own,
                                        state == State::kDone ? 0U : 1U};
  if (control_.size() > 1)
    TRAINING_TRY(control_.all_reduce<std::uint64_t>(words, words, ReduceOp::kMax));
  const bool alike = words[2] == ~words[1];
  const Round round{std::bit_cast<float>(static_cast<std::uint32_t>(words[0])),
                    words[3] == 0 && alike};
  if (round.all_done) return round;
  TRAINING_ASSIGN(const auto reports, gather_reports(state, text));
  if (fault_) return round;
  fault_ = judge(reports, state);
  if (!fault_) return round;
  revoke_channels();
  return *fault_;
}

Result<std::vector<StepGuard::Report>> StepGuard::gather_reports(State state,
                                                                 const std::string& text) {
  std::string mine(1, static_cast<char>(state));
  {
    const std::lock_guard lock(noting_);
    const auto count = static_cast<std::uint32_t>(noted_.size());
    mine.append(reinterpret_cast<const char*>(&count), sizeof(count));
    if (count > 0)
      mine.append(reinterpret_cast<const char*>(noted_.data()), count * sizeof(std::uint32_t));
  }
  mine += text;
  TRAINING_ASSIGN(const auto texts, gather_texts(control_, mine));
  std::vector<Report> reports;
  for (const std::string& all : texts) {
    Report& report = reports.emplace_back();
    std::uint32_t count = 0;
    constexpr std::size_t kHead = 1 + sizeof(count);
    if (all.size() < kHead) return failure(Code::kWrongData, "a rank's report is cut short");
    std::memcpy(&count, all.data() + 1, sizeof(count));
    if ((all.size() - kHead) / sizeof(std::uint32_t) < count ||
        static_cast<unsigned char>(all[0]) > static_cast<unsigned char>(State::kFailed))
      return failure(Code::kWrongData, "a rank's report is no report");
    report.state = static_cast<State>(all[0]);
    report.noted.resize(count);
    if (count > 0)
      std::memcpy(report.noted.data(), all.data() + kHead, count * sizeof(std::uint32_t));
    report.text = all.substr(kHead + count * sizeof(std::uint32_t));
  }
  return reports;
}

/// Who is to blame: who failed by itself; who did something else; who was hurt, unless this rank
/// was as well and has its own error.
std::optional<Error> StepGuard::judge(const std::vector<Report>& reports, State own) const {
  const auto first_that = [&](State state) -> std::optional<Error> {
    const auto found = std::ranges::find(reports, state, &Report::state);
    if (found == reports.end()) return std::nullopt;
    const auto rank = static_cast<std::size_t>(found - reports.begin());
    return peer_failure(rank, fmt::format("rank {}: {}", rank, found->text));
  };
  if (auto failed = first_that(State::kFailed)) return failed;
  if (auto difference = first_difference(reports)) return difference;
  return own == State::kHurt ? std::nullopt : first_that(State::kHurt);
}

/// Where ranks did not do the same. A rank that still waits may have done less so far.
std::optional<Error> StepGuard::first_difference(const std::vector<Report>& reports) const {
  std::size_t longest = 0;
  for (const Report& report : reports) longest = std::max(longest, report.noted.size());
  for (std::size_t at = 0; at < longest; ++at) {
    std::vector<std::size_t> ranks;  // of which it is known what they did here
    for (std::size_t rank = 0; rank < reports.size(); ++rank)
      if (at < reports[rank].noted.size() || reports[rank].state == State::kDone)
        ranks.push_back(rank);
    const auto did = [&](std::size_t rank) {
      return at < reports[rank].noted.size() ? std::optional(reports[rank].noted[at])
                                             : std::nullopt;
    };
    const auto as_many = [&](std::size_t as) {
      return std::ranges::count_if(ranks, [&](std::size_t rank) { return did(rank) == did(as); });
    };
    const std::size_t usual = *std::ranges::max_element(ranks, {}, as_many);
    const auto other =
        std::ranges::find_if(ranks, [&](std::size_t rank) { return did(rank) != did(usual); });
    if (other == ranks.end()) continue;
    return peer_failure(
        *other, fmt::format("rank {} differs from rank {} in step {}, operation {}: it {}, and "
                            "rank {} {}. All ranks have to use the same units in the same order",
                            *other, usual, step_ + 1, at + 1, describe(reports[*other], at), usual,
                            describe(reports[usual], at)));
  }
  return std::nullopt;
}

std::string StepGuard::describe(const Report& report, std::size_t at) const {
  if (at >= report.noted.size()) return "came to the end of its step";
  const std::uint32_t entry = report.noted[at];
  const GroupId group = entry & ((1U << kGroupBits) - 1);
  const auto operation = static_cast<Operation>(entry >> kGroupBits);
  if (operation == Operation::kPass) return "began a backward pass";
  if (operation == Operation::kStep) return fmt::format("took a step (options {:x})", group);
  if (group >= layout_->groups().size()) return "did something that is not known here";
  const Group& it = layout_->groups()[group];
  return fmt::format("{} '{}' (parameter '{}'{})",
                     operation == Operation::kReduce ? "reduced" : "gathered", it.name,
                     layout_->table()[it.parameters.front()].name,
                     it.parameters.size() > 1 ? " and others" : "");
}

std::uint64_t StepGuard::bytes_sent() const {
  std::uint64_t bytes = 0;
  for (const Collective told : {Collective::kAllReduce, Collective::kAllGather})
    if (const auto stats = operation_stats(control_, told)) bytes += stats->bytes_sent;
  return bytes;
}

void StepGuard::revoke_channels() {
  for (Comm* const channel : std::exchange(channels_, {})) channel->revoke();
}

/// Beside the training thread: asks the others where it waits for long.
void StepGuard::watch() {
  std::uint64_t seen = 0;  // a wait that was there at the last look
  std::unique_lock lock(ending_);
  while (!ends_.wait_for(lock, patience_, [this] { return is_ending_; })) {
    const std::uint64_t now = waits_.load();
    const bool still_waits = now % 2 == 1 && now == seen;
    seen = now;
    if (!still_waits) continue;
    lock.unlock();
    look_after(now);
    lock.lock();
  }
}

void StepGuard::look_after(std::uint64_t waiting) {
  const std::lock_guard lock(round_);
  if (fault_ || waits_.load() != waiting) return;
  (void)compare(State::kWaiting, 0, "");  // a fault ends the wait
}

}  // namespace tutti::training
