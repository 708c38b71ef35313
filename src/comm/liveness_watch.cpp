#include "src/comm/liveness_watch.hpp"

#include <chrono>

#include "src/base/log.hpp"
#include "src/base/result.hpp"

namespace tutti {
namespace {

// Who has waited so long says in what. Where ranks wait for each other, that decides nothing: it
// only keeps calls that go well from saying anything.
constexpr auto kTellPeers = std::chrono::seconds(2);
constexpr auto kSayWhoWaits = std::chrono::seconds(10);
constexpr auto kLookForLeavers = std::chrono::milliseconds(20);
constexpr auto kLookAtLives = std::chrono::milliseconds(250);  // some 10 us each
// Two ranks learn of a stopped one at most two heartbeats apart, and of a dead one at once.
constexpr auto kReasonComes = std::chrono::seconds(2);

}  // namespace

Status LivenessWatch::look(ActiveCall& call, TimePoint now) {
  if (!clock_started_) {
    clock_started_ = true;
    warned_ = false;
    started_ = looked_ = looked_at_lives_ = told_at_ = now;
    given_up_.reset();
    return ok_status();
  }
  tell(call, now);
  if (now - looked_ > kLookForLeavers) {
    looked_ = now;
    if (Status left = call.check_peers(); !left && !reason_may_come(left.error())) return left;
  }
  if (now - looked_at_lives_ > kLookAtLives) {
    looked_at_lives_ = now;
    TUTTI_TRY(look_at(team_.waits().waiting_for(), now));
  }
  const std::chrono::duration<double> waited = now - started_;
  if (timeout_s_ > 0 && waited.count() > timeout_s_)
    return peer_error(
        Code::kTimeout, team_.waits().waiting_for(),
        "not complete after {:.1f} s, longer than TUTTI_TIMEOUT={} s: it waits for {}",
        waited.count(), timeout_s_, awaited());
  if (!warned_ && waited > kSayWhoWaits) {
    warned_ = true;
    log_warn(who_, "{} (call {}) waits for {} since {:.0f} s", call.text(), call.number(),
             awaited(), waited.count());
  }
  return ok_status();
}

/// After a while, and again where it waits for somebody else by now.
void LivenessWatch::tell(const ActiveCall& call, TimePoint now) {
  const Rank peer = team_.waits().waiting_for();
  if (now - told_at_ < kTellPeers || (told_ && peer == told_of_)) return;
  told_ = true;
  told_of_ = peer;
  told_at_ = now;
  bootstrap_.tell_wait(call.waiting());
}

void LivenessWatch::withdraw() {
  told_ = false;
  bootstrap_.withdraw_wait();
}

std::string LivenessWatch::awaited() const {
  const Rank peer = team_.waits().waiting_for();
  return peer == kNoRank ? "its peers" : team_.member(peer).label;
}

/// Whether a peer can still do what this rank waits for. The bootstrap tells of failures sooner,
/// but its hub may have left the group in peace and ended. A mapped peer that did its part before
/// it ended is found out by the polls between two looks.
Status LivenessWatch::look_at(Rank peer, TimePoint now) {
  if (peer == kNoRank) return ok_status();
  bootstrap_.look_after(peer);
  const exec::Member& member = team_.member(peer);
  if (member.block == nullptr) return ok_status();
  const bool ended = member.life.ended();
  const bool gave_up = member.block->progress.gave_up.load(std::memory_order_acquire) != 0;
  if (!ended && !gave_up) {
    suspect_ = kNoRank;
  } else if (suspect_ != peer) {
    suspect_ = peer;
    suspected_ = now;
  } else if (ended) {
    return peer_error(Code::kPeerFailed, peer, "{} died: its process has ended", member.label);
  } else if (now - suspected_ > kReasonComes) {
    return peer_error(Code::kPeerFailed, peer,
                      "{} gave up, and nobody is left to tell why: see its own error",
                      member.label);
  }
  return ok_status();
}

bool LivenessWatch::reason_may_come(const Error& error) {
  const bool a_peers_doing = error.code == Code::kAborted || error.code == Code::kPeerFailed;
  if (!a_peers_doing || end_.has_come()) return false;
  const bool is_told = error.code == Code::kAborted || bootstrap_.tells_of_deaths();
  if (!is_told) return false;
  const TimePoint now = Clock::now();
  if (!given_up_) {
    given_up_ = now;
    if (error.peer != kNoRank) bootstrap_.look_after(error.peer);
  }
  return now - *given_up_ < kReasonComes;
}

}  // namespace tutti
