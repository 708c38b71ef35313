#include "src/bootstrap/in_process.hpp"

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "src/base/result.hpp"
#include "src/bootstrap/failure_handler.hpp"
#include "src/bootstrap/rank_list.hpp"
#include "src/bootstrap/standstill.hpp"
#include "src/wire/crypto.hpp"

namespace tutti {
namespace {

/// What the ranks of one group share.
class Shared {
 public:
  Shared(const Key& key, std::int32_t size)
      : key(key),
        handlers(static_cast<std::size_t>(size)),
        left_(handlers.size()),
        waits_(handlers.size()) {
    for (auto& handler : handlers) handler = std::make_unique<FailureHandler>();
  }

  const Key key;
  std::vector<std::unique_ptr<FailureHandler>> handlers;  // [rank]

  Result<std::vector<Blob>> all_gather(Rank rank, std::uint64_t sequence, Blob mine,
                                       Deadline deadline);
  /// Whether that all-gather can never complete, since a rank left without taking part.
  bool failed_for_all(std::uint64_t sequence);
  Result<std::shared_ptr<Shared>> subgroup(std::span<const Rank> members, std::uint64_t tag,
                                           Rank self);
  void leave(Rank rank);
  /// A rank gives up: all others learn of it.
  void announce(Rank rank, const Error& error);
  /// What a rank waits in, or nothing. All handlers learn of a standstill.
  void tell_wait(Rank rank, std::optional<WaitingCall> call);

 private:
  /// One all-gather under way: it lives until every rank has taken the result.
  struct Round {
    std::vector<bool> came;
    std::vector<Blob> blobs;
    std::int32_t arrived = 0;
    std::int32_t taken = 0;
  };
  struct Subgroup {
    std::vector<Rank> members;
    std::shared_ptr<Shared> shared;
    std::size_t taken = 0;
  };

  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(handlers.size()); }
  std::optional<Standstill> find_standstill_locked();
  /// The lowest rank that left without contributing to `round`, or kNoRank.
  [[nodiscard]] Rank deserter(const Round& round) const;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::uint64_t, Round> rounds_;
  std::map<std::uint64_t, Subgroup> subgroups_;
  std::vector<bool> left_;
  std::optional<Error>
      first_notice_;  ///< why the first one gave up: others may leave because of it
  std::vector<std::optional<WaitingCall>> waits_;
};

Rank Shared::deserter(const Round& round) const {
  for (std::size_t r = 0; r < handlers.size(); ++r) {
    if (left_[r] && !round.came[r]) return static_cast<Rank>(r);
  }
  return kNoRank;
}

Result<std::vector<Blob>> Shared::all_gather(Rank rank, std::uint64_t sequence, Blob mine,
                                             Deadline deadline) {
  std::unique_lock lock(mutex_);
  Round& round = rounds_[sequence];
  if (round.came.empty()) {
    round.came.resize(handlers.size());
    round.blobs.resize(handlers.size());
  }
  round.came[static_cast<std::size_t>(rank)] = true;
  round.blobs[static_cast<std::size_t>(rank)] = std::move(mine);
  if (++round.arrived == size()) changed_.notify_all();

  while (round.arrived < size()) {
    if (const Rank gone = deserter(round); gone != kNoRank) {
      if (first_notice_) return *first_notice_;
      return peer_error(Code::kPeerFailed, gone, "rank {} has left the group of {}", gone, size());
    }
    if (deadline.passed()) return absent_error("an all-gather of the bootstrap", round.came);
    changed_.wait_for(lock, deadline.nap());
  }
  std::vector<Blob> result = round.blobs;
  if (++round.taken == size()) rounds_.erase(sequence);
  return result;
}

bool Shared::failed_for_all(std::uint64_t sequence) {
  std::scoped_lock lock(mutex_);
  const auto round = rounds_.find(sequence);
  return round != rounds_.end() && round->second.arrived < size() &&
         deserter(round->second) != kNoRank;
}

Result<std::shared_ptr<Shared>> Shared::subgroup(std::span<const Rank> members, std::uint64_t tag,
                                                 Rank self) {
  std::scoped_lock lock(mutex_);
  auto [entry, fresh] = subgroups_.try_emplace(tag);
  Subgroup& group = entry->second;
  if (fresh) {
    group.members.assign(members.begin(), members.end());
    const Key derived =
        derive_key(key, "tutti subgroup", std::as_bytes(std::span(&entry->first, 1)));
    group.shared = std::make_shared<Shared>(derived, static_cast<std::int32_t>(members.size()));
  } else if (!std::ranges::equal(group.members, members)) {
    return make_error(Code::kInvalidUsage,
                      "rank {} calls subgroup {:#x} with members [{}], another rank with [{}]: "
                      "all must pass the same list",
                      self, tag, fmt::join(members, ", "), fmt::join(group.members, ", "));
  }
  auto shared = group.shared;
  if (++group.taken == group.members.size()) subgroups_.erase(entry);
  return shared;
}

void Shared::leave(Rank rank) {
  std::scoped_lock lock(mutex_);
  left_[static_cast<std::size_t>(rank)] = true;
  waits_[static_cast<std::size_t>(rank)].reset();
  changed_.notify_all();
}

void Shared::announce(Rank rank, const Error& error) {
  const Error notice = notice_of(rank, error);
  {
    std::scoped_lock lock(mutex_);
    if (!first_notice_) {
      first_notice_ = notice;
      first_notice_->code = Code::kPeerFailed;
    }
  }
  for (Rank r = 0; r < size(); ++r) {
    if (r == rank) continue;
    auto& other = *handlers[static_cast<std::size_t>(r)];
    other.report(notice);
    other.deliver_pending();
  }
}

/// Told once: who is in it says no more.
std::optional<Standstill> Shared::find_standstill_locked() {
  std::vector<const WaitingCall*> calls;
  for (const auto& call : waits_) calls.push_back(call ? &*call : nullptr);
  auto found = find_standstill(calls);
  if (found)
    for (const Rank rank : found->ranks) waits_[static_cast<std::size_t>(rank)].reset();
  return found;
}

void Shared::tell_wait(Rank rank, std::optional<WaitingCall> call) {
  std::optional<Standstill> found;
  {
    std::scoped_lock lock(mutex_);
    const bool waits = call.has_value();
    waits_[static_cast<std::size_t>(rank)] = std::move(call);
    if (waits) found = find_standstill_locked();
  }
  for (const auto& handler : handlers) {
    if (!found) return;
    handler->report(found->error);
    handler->deliver_pending();
  }
}

class InProcessBootstrap final : public Bootstrap {
 public:
  InProcessBootstrap(std::shared_ptr<Shared> shared, Rank rank)
      : shared_(std::move(shared)), rank_(rank) {}
  ~InProcessBootstrap() override {
    handler().set(nullptr);
    shared_->leave(rank_);
  }

  Rank rank() const override { return rank_; }
  std::int32_t size() const override { return static_cast<std::int32_t>(shared_->handlers.size()); }
  std::span<const std::byte> key() const override { return shared_->key; }

  Result<std::vector<Blob>> all_gather(Blob mine, Deadline deadline) override {
    return shared_->all_gather(rank_, sequence_++, std::move(mine), deadline);
  }
  [[nodiscard]] bool failed_for_all() const override {
    return sequence_ > 0 && shared_->failed_for_all(sequence_ - 1);
  }

  Result<std::unique_ptr<Bootstrap>> subgroup(std::span<const Rank> members, std::uint64_t tag,
                                              Deadline deadline) override {
    TUTTI_TRY(check_members(members, rank_, size()));
    TUTTI_ASSIGN(auto shared, shared_->subgroup(members, tag, rank_));
    const auto place = std::ranges::find(members, rank_) - members.begin();
    auto group = std::make_unique<InProcessBootstrap>(std::move(shared), static_cast<Rank>(place));
    TUTTI_TRY(barrier(*group, deadline));  // it exists once all members came
    return std::unique_ptr<Bootstrap>(std::move(group));
  }

  void on_failure(std::function<void(const Error&)> handler_function) override {
    handler().set(std::move(handler_function));
    handler().deliver_pending();
  }

  void announce(const Error& error) override { shared_->announce(rank_, error); }

  void tell_wait(const WaitingCall& call) override { shared_->tell_wait(rank_, call); }
  void withdraw_wait() override { shared_->tell_wait(rank_, std::nullopt); }

 private:
  FailureHandler& handler() { return *shared_->handlers[static_cast<std::size_t>(rank_)]; }

  std::shared_ptr<Shared> shared_;
  Rank rank_;
  std::uint64_t sequence_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<Bootstrap>> in_process_group(int n) {
  auto shared = std::make_shared<Shared>(random_key(), n);
  std::vector<std::unique_ptr<Bootstrap>> group;
  for (Rank r = 0; r < n; ++r) group.push_back(std::make_unique<InProcessBootstrap>(shared, r));
  return group;
}

}  // namespace tutti
